//! Names and numbers of calls, per architecture.

/// One of the kernel's call tables.
pub struct Arch {
    /// AUDIT_ARCH_*: how the kernel names it in `seccomp_data.arch`.
    pub audit_id: u32,
    /// Its calls, by ascending number.
    pub calls: fn() -> Vec<(u32, &'static str)>,
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
    audit_id: 0xC000_003E,
    // The numbers of the x32 ABI begin at 2^30 and so are unknown.
    calls: calls!(x86_64),
};

const I386: Arch = Arch {
    audit_id: 0x4000_0003,
    calls: calls!(x86),
};

const AARCH64: Arch = Arch {
    audit_id: 0xC000_00B7,
    calls: calls!(aarch64),
};

/// The EABI; kernels that can filter calls have no other.
const ARM: Arch = Arch {
    audit_id: 0x4000_0028,
    calls: calls!(arm, ARM_PRIVATE),
};

const RISCV64: Arch = Arch {
    audit_id: 0xC000_00F3,
    calls: calls!(riscv64),
};

/// Calls of the ARM kernel that are in no table (arch/arm/include/uapi/asm/unistd.h).
const ARM_PRIVATE: [(u32, &str); 4] = [
    (0x000F_0001, "breakpoint"),
    (0x000F_0002, "cacheflush"),
    (0x000F_0005, "set_tls"),
    (0x000F_0006, "get_tls"),
];
