//! Network devices by ioctl: just enough to bring up loopback in a new network namespace.
#![expect(unsafe_code, reason = "SIOCSIFFLAGS has no safe wrapper")]

use std::io;
use std::os::fd::AsRawFd;

use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};

/// Brings up `lo` in the caller's network namespace.
pub fn bring_up_loopback() -> io::Result<()> {
    let socket = socket_with(
        AddressFamily::INET,
        SocketType::DGRAM,
        SocketFlags::CLOEXEC,
        None,
    )?;
    // SAFETY: ifreq is plain data; all zeroes is a valid value.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(b"lo") {
        *to = from.cast_signed() as libc::c_char;
    }
    // SAFETY: the request holds a NUL-terminated name and room for the flags that the kernel writes.
    check(unsafe {
        libc::ioctl(
            socket.as_raw_fd(),
            libc::SIOCGIFFLAGS as _,
            &raw mut request,
        )
    })?;
    // SAFETY: the kernel just filled in the flags member.
    let flags = unsafe { request.ifr_ifru.ifru_flags };
    let up = libc::c_short::try_from(libc::IFF_UP).expect("IFF_UP is 1");
    request.ifr_ifru.ifru_flags = flags | up;
    // SAFETY: the request holds a NUL-terminated name and initialised flags.
    check(unsafe {
        libc::ioctl(
            socket.as_raw_fd(),
            libc::SIOCSIFFLAGS as _,
            &raw const request,
        )
    })
}

fn check(result: libc::c_int) -> io::Result<()> {
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}
