//! The default seccomp filter, as a classic BPF program made in Rust (design: no C library, 32-bit programs included).
//!
//! - [`profile`] says what is allowed: names, grouped by why or by the capability that unlocks them;
//! - [`arch`] knows the numbers of the names, from the `syscalls` crate;
//! - [`assemble`] turns ranges of numbers into a balanced tree of jumps.
//!
//! One program covers the build's own architecture and the one it is compatible with (x86-64 and i386, arm64 and arm).
//! A call that exists but is not allowed gets EPERM. A number without a name, or newer than this profile, gets ENOSYS,
//! so that programs which probe for new calls take their fallback (a C library that tries a time64 call and gets EPERM
//! believes the clock is broken). A call by way of an architecture that is neither of the two kills the process.
//!
//! Numbers and verdicts are tested by comparisons only, which lets the kernel (≥ 5.11) find out beforehand which calls
//! are always allowed and skip the program for them.

mod arch;
mod assemble;
mod profile;

use std::collections::HashMap;

use arch::Arch;
use assemble::Range;
use profile::Rule;

/// The kernel's BPF_MAXINSNS.
const MAX_INSTRUCTIONS: usize = 4096;

const EPERM: u16 = 1;
const ENOSYS: u16 = 38;

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

/// What becomes of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    /// It is made.
    Allow,
    /// It returns this error.
    Fail(u16),
    /// It is made if its arguments pass, and returns EPERM otherwise.
    Check(&'static Rule),
}

/// C-53: the RuntimeDefault filter for a container with these capabilities (`CAP_SYS_ADMIN`, …). At most 4096
/// instructions, the kernel's limit. Deterministic.
pub fn default_program(capabilities: &[String]) -> Vec<Instruction> {
    program(arch::NATIVE, capabilities)
}

fn program(family: &[Arch], capabilities: &[String]) -> Vec<Instruction> {
    let verdicts = profile::verdicts(capabilities);
    let bodies: Vec<(u32, Vec<Range>)> = family
        .iter()
        .map(|arch| (arch.audit_id, ranges(arch, &verdicts)))
        .collect();
    let program = assemble::program(&bodies);
    debug_assert!(program.len() <= MAX_INSTRUCTIONS);
    program
}

/// The verdicts of all numbers of an architecture as ranges without gaps: sorted, the first starting at 0, neighbours
/// different.
fn ranges(arch: &Arch, verdicts: &HashMap<&'static str, Verdict>) -> Vec<Range> {
    let mut ranges: Vec<Range> = Vec::new();
    let mut next = 0;
    let mut push = |start, verdict| {
        if ranges.last().is_none_or(|last| last.verdict != verdict) {
            ranges.push(Range { start, verdict });
        }
    };
    for (number, name) in (arch.calls)() {
        if number > next {
            push(next, Verdict::Fail(ENOSYS));
        }
        let verdict = verdicts.get(name).copied();
        push(number, verdict.unwrap_or(Verdict::Fail(EPERM)));
        next = number + 1;
    }
    push(next, Verdict::Fail(ENOSYS));
    ranges
}

#[cfg(test)]
mod tests;
