//! eBPF programs that decide about the devices of a cgroup (v2).
//!
//! Memory of programs is charged to the memory cgroup of who loads them since 5.11, older than any kernel we run on:
//! RLIMIT_MEMLOCK does not matter.

#![expect(unsafe_code, reason = "bpf takes pointers and has no safe wrapper")]

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

// linux/bpf.h
const PROG_LOAD: libc::c_int = 5;
const PROG_ATTACH: libc::c_int = 8;
const PROG_TYPE_CGROUP_DEVICE: u32 = 15;
const ATTACH_TYPE_CGROUP_DEVICE: u32 = 6;
/// Programs of ancestors and those that are added later are asked, too, and all have to agree.
const F_ALLOW_MULTI: u32 = 2;

/// Any text will do: it only counts for helpers that are for GPL programs, and ours call none.
const LICENSE: &CStr = c"Apache-2.0";

/// The beginning of `union bpf_attr` for PROG_LOAD; the kernel takes what is missing as zeros.
#[repr(C)]
struct Load {
    prog_type: u32,
    insn_cnt: u32,
    insns: u64,
    license: u64,
    log_level: u32,
    log_size: u32,
    log_buf: u64,
    kern_version: u32,
    prog_flags: u32,
    prog_name: [u8; 16],
}

/// The same for PROG_ATTACH.
#[repr(C)]
struct Attach {
    target_fd: u32,
    attach_bpf_fd: u32,
    attach_type: u32,
    attach_flags: u32,
}

/// The kernel gives up checking a program when a signal comes (EAGAIN). As many tries as with libbpf.
const TRIES: u32 = 5;

/// A program in the kernel.
#[derive(Debug)]
pub struct DeviceProgram(OwnedFd);

/// Loads a program of 64-bit instructions that is asked about devices. Needs CAP_BPF or CAP_SYS_ADMIN. EINVAL also if the
/// kernel has no such programs (CONFIG_CGROUP_BPF), ENOSYS if it has no programs at all.
pub fn load_device_program(instructions: &[u64]) -> io::Result<DeviceProgram> {
    let count = u32::try_from(instructions.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
    let attributes = Load {
        prog_type: PROG_TYPE_CGROUP_DEVICE,
        insn_cnt: count,
        insns: instructions.as_ptr() as u64,
        license: LICENSE.as_ptr() as u64,
        log_level: 0,
        log_size: 0,
        log_buf: 0,
        kern_version: 0,
        prog_flags: 0,
        prog_name: *b"vetch_devices\0\0\0",
    };
    let load = || {
        // SAFETY: the pointers in `attributes` are to `count` instructions and to a text that ends with a null; both live
        // until the call returns, and the kernel only reads them.
        unsafe { bpf(PROG_LOAD, &attributes) }
    };
    let is_interrupted = |outcome: &io::Result<libc::c_int>| matches!(outcome, Err(error) if error.kind() == io::ErrorKind::WouldBlock);
    let mut outcome = load();
    for _ in 1..TRIES {
        if !is_interrupted(&outcome) {
            break;
        }
        outcome = load();
    }
    let fd = outcome?;
    // SAFETY: PROG_LOAD gives a new descriptor, which nobody else has. The kernel sets CLOEXEC.
    Ok(DeviceProgram(unsafe { OwnedFd::from_raw_fd(fd) }))
}

/// Asks the program about all devices of this cgroup directory, and of those below it, as long as the directory exists.
pub fn attach(program: &DeviceProgram, cgroup: BorrowedFd<'_>) -> io::Result<()> {
    let number = |fd: BorrowedFd<'_>| fd.as_raw_fd().cast_unsigned();
    let attributes = Attach {
        target_fd: number(cgroup),
        attach_bpf_fd: number(program.0.as_fd()),
        attach_type: ATTACH_TYPE_CGROUP_DEVICE,
        attach_flags: F_ALLOW_MULTI,
    };
    // SAFETY: there are no pointers in `attributes`.
    unsafe { bpf(PROG_ATTACH, &attributes) }.map(drop)
}

/// # Safety
/// `attributes` is the beginning of the `bpf_attr` of this command, and its pointers are valid as the command uses them.
unsafe fn bpf<T>(command: libc::c_int, attributes: &T) -> io::Result<libc::c_int> {
    // SAFETY: `attributes` lives until the call returns, the kernel reads not more than its size, and the rest is up to
    // the caller.
    let result = unsafe {
        libc::syscall(
            libc::SYS_bpf,
            command,
            std::ptr::from_ref(attributes),
            size_of::<T>(),
        )
    };
    match libc::c_int::try_from(result) {
        Ok(result) if result >= 0 => Ok(result),
        Ok(_) | Err(_) => Err(io::Error::last_os_error()),
    }
}
