//! Loading a seccomp filter.

#![expect(unsafe_code, reason = "prctl(PR_SET_SECCOMP) takes a pointer")]

use std::io;

/// Confines the calling thread, and all it will ever start, by this program, for good. Needs no_new_privs or
/// CAP_SYS_ADMIN.
pub fn install(program: &[libc::sock_filter]) -> io::Result<()> {
    let len = u16::try_from(program.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
    let program = libc::sock_fprog {
        len,
        filter: program.as_ptr().cast_mut(),
    };
    // SAFETY: `program` and the `len` instructions it points to live until the call returns; the kernel copies them,
    // writes to neither, and refuses a malformed program.
    let result = unsafe {
        libc::prctl(
            libc::PR_SET_SECCOMP,
            libc::c_ulong::from(libc::SECCOMP_MODE_FILTER),
            &raw const program,
        )
    };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}
