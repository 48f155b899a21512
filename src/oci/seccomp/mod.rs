//! Seccomp filters, as classic BPF programs made in Rust (design: no C library, 32-bit programs included).
//!
//! - [`default`] says what everybody may call: names, grouped by why or by the capability that unlocks them (C-53);
//! - [`profile`] reads what an administrator wrote (C-51);
//! - [`policy`] is what both come to: a verdict for each name, and for the numbers of an architecture;
//! - [`arch`] knows the numbers of the names, from the `syscalls` crate;
//! - [`assemble`] turns ranges of numbers into a balanced tree of jumps.
//!
//! One program covers the build's own architecture and the one it is compatible with (x86-64 and i386, arm64 and arm).
//! A call that exists but is not allowed gets EPERM. A number without a name, or newer than the profile, gets ENOSYS,
//! so that programs which probe for new calls take their fallback (a C library that tries a time64 call and gets EPERM
//! believes the clock is broken). A call by way of an architecture that is neither of the two kills the process.
//!
//! Numbers and verdicts are tested by comparisons only, which lets the kernel (≥ 5.11) find out beforehand which calls
//! are always allowed and skip the program for them.

mod arch;
mod assemble;
mod default;
mod policy;
pub mod profile;

pub use profile::{Circumstances, Profile, ProfileError};

use arch::Arch;
use policy::Policy;

/// The kernel's BPF_MAXINSNS.
const MAX_INSTRUCTIONS: usize = 4096;

/// One instruction of classic BPF: the kernel's `sock_filter`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Instruction {
    /// Operation.
    pub code: u16,
    /// Instructions to skip if the comparison holds.
    pub jt: u8,
    /// Instructions to skip if it does not.
    pub jf: u8,
    /// Operand.
    pub k: u32,
}

impl Instruction {
    /// As the kernel has it in memory on this machine.
    pub fn to_bytes(self) -> [u8; 8] {
        let mut bytes = [0; 8];
        bytes[..2].copy_from_slice(&self.code.to_ne_bytes());
        bytes[2..4].copy_from_slice(&[self.jt, self.jf]);
        bytes[4..].copy_from_slice(&self.k.to_ne_bytes());
        bytes
    }

    /// The way back.
    pub fn from_bytes([c0, c1, jt, jf, k @ ..]: [u8; 8]) -> Self {
        Self {
            code: u16::from_ne_bytes([c0, c1]),
            jt,
            jf,
            k: u32::from_ne_bytes(k),
        }
    }
}

/// C-53: the RuntimeDefault filter for a container with these capabilities (`CAP_SYS_ADMIN`, …). At most 4096
/// instructions, the kernel's limit. Deterministic.
pub fn default_program(capabilities: &[String]) -> Vec<Instruction> {
    let family: Vec<&Arch> = arch::NATIVE.iter().collect();
    let program = program(&family, &default::policy(capabilities));
    debug_assert!(program.len() <= MAX_INSTRUCTIONS);
    program
}

fn program(family: &[&Arch], policy: &Policy<'_>) -> Vec<Instruction> {
    let bodies = family.iter().map(|arch| assemble::Body {
        audit_id: arch.audit_id,
        word: arch.word,
        ranges: policy.ranges(arch),
    });
    assemble::program(&bodies.collect::<Vec<_>>())
}

#[cfg(test)]
mod tests;
