//! The default seccomp filter in the real kernel. Needs no root: the filter is loaded with no_new_privs.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::Command;

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketType};
use vetch::oci::seccomp::{self, Instruction};

/// Set for the process that confines itself.
const CONFINED: &str = "VETCH_TEST_SECCOMP_DIR";

/// C-53.
#[test]
fn the_kernel_takes_the_filter_and_it_holds() {
    let dir = tempfile::tempdir().unwrap();
    let status = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "confined", "--nocapture"])
        .env(CONFINED, dir.path())
        .status()
        .unwrap();
    assert!(status.success(), "{status}");
}

/// Only has something to do as the child of the test above.
#[test]
fn confined() {
    let Some(dir) = std::env::var_os(CONFINED) else {
        return;
    };
    rustix::thread::set_no_new_privs(true).unwrap();
    let program: Vec<_> = seccomp::default_program(&[])
        .into_iter()
        .map(|Instruction { code, jt, jf, k }| libc::sock_filter { code, jt, jf, k })
        .collect();
    vetch::sys::seccomp::install(&program).unwrap();

    let mount = rustix::mount::mount(
        "none",
        "/nowhere",
        "tmpfs",
        rustix::mount::MountFlags::empty(),
        None,
    );
    assert_eq!(mount, Err(Errno::PERM));
    let vsock = rustix::net::socket(AddressFamily::from_raw(40), SocketType::STREAM, None);
    assert_eq!(vsock.unwrap_err(), Errno::PERM);
    rustix::net::socket(AddressFamily::UNIX, SocketType::STREAM, None).unwrap();
    // The C library tries clone3 first.
    let shell = Command::new("/bin/sh")
        .args(["-c", "true | true && exit 7"])
        .status()
        .unwrap();
    assert_eq!(shell.code(), Some(7));

    // H3: a 32-bit program gets its time64 calls, EPERM for what is forbidden and ENOSYS for what nobody knows.
    if !cfg!(target_arch = "x86_64") || call_32_bit(Path::new(&dir), GETPID).is_err() {
        println!("SKIPPED: calls of 32-bit programs: this kernel runs none for x86");
        return;
    }
    for (number, errno) in [(CLOCK_GETTIME64, 0), (MOUNT, 1), (500, 38)] {
        let code = call_32_bit(Path::new(&dir), number).unwrap();
        assert_eq!(code, Some(errno), "call {number}");
    }
}

// Numbers of i386.
const GETPID: u32 = 20;
const MOUNT: u32 = 21;
const CLOCK_GETTIME64: u32 = 403;

/// The errno that a 32-bit program gets from this call; an error if it could not be started.
fn call_32_bit(dir: &Path, number: u32) -> io::Result<Option<i32>> {
    let file = dir.join(format!("call-{number}"));
    let mut options = fs::OpenOptions::new();
    let mut open = options
        .write(true)
        .create_new(true)
        .mode(0o755)
        .open(&file)?;
    open.write_all(&elf32(number))?;
    drop(open);
    Ok(Command::new(&file).status()?.code())
}

/// A 32-bit program that makes one call, with zeros and a pointer to zeros as arguments, and exits with its errno.
fn elf32(number: u32) -> Vec<u8> {
    const BASE: u32 = 0x0804_8000;
    const HEADERS: u32 = 52 + 32;
    let mut code = vec![0xB8];
    code.extend(number.to_le_bytes()); // mov $number, %eax
    code.extend([0x31, 0xDB]); // xor %ebx, %ebx
    code.extend([0x6A, 0x00, 0x6A, 0x00, 0x6A, 0x00, 0x6A, 0x00]); // push $0, four times
    code.extend([0x89, 0xE1]); // mov %esp, %ecx
    code.extend([0x31, 0xD2, 0x31, 0xF6, 0x31, 0xFF]); // xor %edx, %esi and %edi with themselves
    code.extend([0xCD, 0x80]); // int $0x80
    code.extend([0x89, 0xC3, 0xF7, 0xDB]); // mov %eax, %ebx; neg %ebx
    code.extend([0xB8, 0x01, 0x00, 0x00, 0x00, 0xCD, 0x80]); // exit(%ebx)
    let size = HEADERS + u32::try_from(code.len()).expect("a few bytes");

    let mut elf = b"\x7fELF\x01\x01\x01\0\0\0\0\0\0\0\0\0".to_vec();
    let half = |value: u16| value.to_le_bytes();
    let word = |value: u32| value.to_le_bytes();
    elf.extend([half(2), half(3)].concat()); // executable, i386
    elf.extend([word(1), word(BASE + HEADERS), word(52), word(0), word(0)].concat());
    elf.extend([half(52), half(32), half(1), half(0), half(0), half(0)].concat());
    // One segment: the whole file, readable and executable.
    elf.extend(
        [
            word(1),
            word(0),
            word(BASE),
            word(BASE),
            word(size),
            word(size),
        ]
        .concat(),
    );
    elf.extend([word(5), word(0x1000)].concat());
    elf.extend(code);
    elf
}
