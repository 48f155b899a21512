//! Names and numbers of calls, per architecture.

use std::collections::HashSet;

/// One of the kernel's call tables.
pub struct Arch {
    /// As profiles name it.
    pub name: &'static str,
    /// How wide its arguments are.
    pub word: Word,
    /// AUDIT_ARCH_*: how the kernel names it in `seccomp_data.arch`.
    pub audit_id: u32,
    /// Its calls, by ascending number.
    pub calls: fn() -> Vec<(u32, &'static str)>,
    /// Where the numbers of another ABI begin, which no container has.
    pub end: Option<u32>,
    /// Calls that can be made through another one, too: its name, its first argument, and their own name.
    pub bundled: &'static [(&'static str, u32, &'static str)],
}

/// The width of a machine word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Word {
    Bits32,
    Bits64,
}

/// The architecture of this build: as profiles name it, and as they name it where they ask on which they are.
pub const OWN: (&str, &str) = if cfg!(target_arch = "x86_64") {
    ("SCMP_ARCH_X86_64", "amd64")
} else if cfg!(target_arch = "x86") {
    ("SCMP_ARCH_X86", "x86")
} else if cfg!(target_arch = "aarch64") {
    ("SCMP_ARCH_AARCH64", "arm64")
} else if cfg!(target_arch = "arm") {
    ("SCMP_ARCH_ARM", "arm")
} else {
    ("SCMP_ARCH_RISCV64", "riscv64")
};

/// The names of all calls that any architecture has.
pub fn all_names() -> HashSet<&'static str> {
    let all = FAMILIES.into_iter().flatten();
    let calls = all.flat_map(|arch| (arch.calls)());
    calls.map(|(_, name)| name).collect()
}

/// Architectures whose programs run on the same machines, most used first. A 32-bit build may run on a 64-bit kernel,
/// with images for either.
pub const FAMILIES: [&[Arch]; 3] = [&[X86_64, I386], &[AARCH64, ARM], &[RISCV64]];

/// The family of this build.
pub const NATIVE: &[Arch] = FAMILIES[if cfg!(any(target_arch = "x86_64", target_arch = "x86")) {
    0
} else if cfg!(any(target_arch = "aarch64", target_arch = "arm")) {
    1
} else if cfg!(target_arch = "riscv64") {
    2
} else {
    panic!("no call table for this architecture")
}];

#[cfg(target_endian = "big")]
compile_error!("the filter reads the low half of arguments where little-endian machines have it");

/// The call table of `$module`, then `$extra`. Not `Sysno::iter`, which (0.8.1) leaves out the last one.
macro_rules! calls {
    ($module:ident $(, $extra:expr)?) => {
        || {
            use syscalls::$module::Sysno;
            let named = (0_u32..).take(Sysno::table_size()).filter_map(|number| {
                Some((number, Sysno::new(usize::try_from(number).ok()?)?.name()))
            });
            named$(.chain($extra))?.collect()
        }
    };
}

const X86_64: Arch = Arch {
    name: "SCMP_ARCH_X86_64",
    word: Word::Bits64,
    audit_id: 0xC000_003E,
    calls: calls!(x86_64),
    // Of x32.
    end: Some(1 << 30),
    bundled: &[],
};

const I386: Arch = Arch {
    name: "SCMP_ARCH_X86",
    word: Word::Bits32,
    audit_id: 0x4000_0003,
    calls: calls!(x86),
    end: None,
    bundled: &I386_BUNDLED,
};

const AARCH64: Arch = Arch {
    name: "SCMP_ARCH_AARCH64",
    word: Word::Bits64,
    audit_id: 0xC000_00B7,
    calls: calls!(aarch64),
    end: None,
    bundled: &[],
};

/// The EABI; kernels that can filter calls have no other.
const ARM: Arch = Arch {
    name: "SCMP_ARCH_ARM",
    word: Word::Bits32,
    audit_id: 0x4000_0028,
    calls: calls!(arm, ARM_PRIVATE),
    end: None,
    bundled: &[],
};

const RISCV64: Arch = Arch {
    name: "SCMP_ARCH_RISCV64",
    word: Word::Bits64,
    audit_id: 0xC000_00F3,
    calls: calls!(riscv64),
    end: None,
    bundled: &[],
};

/// Calls of the ARM kernel that are in no table (arch/arm/include/uapi/asm/unistd.h).
const ARM_PRIVATE: [(u32, &str); 4] = [
    (0x000F_0001, "breakpoint"),
    (0x000F_0002, "cacheflush"),
    (0x000F_0005, "set_tls"),
    (0x000F_0006, "get_tls"),
];

/// linux/net.h and linux/ipc.h.
const I386_BUNDLED: [(&str, u32, &str); 32] = [
    ("socketcall", 1, "socket"),
    ("socketcall", 2, "bind"),
    ("socketcall", 3, "connect"),
    ("socketcall", 4, "listen"),
    ("socketcall", 5, "accept"),
    ("socketcall", 6, "getsockname"),
    ("socketcall", 7, "getpeername"),
    ("socketcall", 8, "socketpair"),
    ("socketcall", 9, "send"),
    ("socketcall", 10, "recv"),
    ("socketcall", 11, "sendto"),
    ("socketcall", 12, "recvfrom"),
    ("socketcall", 13, "shutdown"),
    ("socketcall", 14, "setsockopt"),
    ("socketcall", 15, "getsockopt"),
    ("socketcall", 16, "sendmsg"),
    ("socketcall", 17, "recvmsg"),
    ("socketcall", 18, "accept4"),
    ("socketcall", 19, "recvmmsg"),
    ("socketcall", 20, "sendmmsg"),
    ("ipc", 1, "semop"),
    ("ipc", 2, "semget"),
    ("ipc", 3, "semctl"),
    ("ipc", 4, "semtimedop"),
    ("ipc", 11, "msgsnd"),
    ("ipc", 12, "msgrcv"),
    ("ipc", 13, "msgget"),
    ("ipc", 14, "msgctl"),
    ("ipc", 21, "shmat"),
    ("ipc", 22, "shmdt"),
    ("ipc", 23, "shmget"),
    ("ipc", 24, "shmctl"),
];
