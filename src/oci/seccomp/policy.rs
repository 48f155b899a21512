//! What a filter decides: for each name of a call, and then for each number of an architecture.

use std::collections::HashMap;

use super::arch::Arch;

/// EPERM, "not permitted".
pub const EPERM: u16 = 1;
/// ENOSYS, "no such call".
pub const ENOSYS: u16 = 38;

/// The private calls of the ARM kernel begin here: they tell nothing about a profile's age.
const PRIVATE_CALLS: u32 = 0x000F_0000;

/// What is done with a call: a SECCOMP_RET_* value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Action(pub u32);

impl Action {
    pub const ALLOW: Self = Self(0x7FFF_0000);
    pub const LOG: Self = Self(0x7FFC_0000);
    pub const TRAP: Self = Self(0x0003_0000);
    pub const KILL_THREAD: Self = Self(0);
    pub const KILL_PROCESS: Self = Self(0x8000_0000);

    /// The call returns this error.
    pub fn fail(errno: u16) -> Self {
        Self(0x0005_0000 | u32::from(errno))
    }

    /// A tracer is asked; without one the call gets ENOSYS.
    pub fn trace(message: u16) -> Self {
        Self(0x7FF0_0000 | u32::from(message))
    }
}

/// How a part of an argument is compared with a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Comparison {
    Equal,
    NotEqual,
    Less,
    AtMost,
    Greater,
    AtLeast,
}

/// Something to be true of an argument. On 32-bit architectures only the low halves count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Condition {
    /// Index, from 0 to 5.
    pub argument: u8,
    /// The bits of the argument that are compared; all of them unless it is for equality.
    pub mask: u64,
    pub comparison: Comparison,
    pub value: u64,
}

impl Condition {
    /// These 32 bits are this value; where the kernel reads no more of an argument than an `int`.
    pub const fn low(argument: u8, mask: u32, value: u32) -> Self {
        Self {
            argument,
            mask: mask as u64,
            comparison: Comparison::Equal,
            value: value as u64,
        }
    }
}

/// What is done if all conditions hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    pub conditions: Vec<Condition>,
    pub action: Action,
}

/// What becomes of a call: the first rule that holds decides.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    pub rules: Vec<Rule>,
    pub otherwise: Action,
}

impl From<Action> for Verdict {
    fn from(otherwise: Action) -> Self {
        Self {
            rules: Vec::new(),
            otherwise,
        }
    }
}

/// All numbers from `start` to the next range's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Range {
    /// The first number.
    pub start: u32,
    /// What becomes of them.
    pub verdict: Verdict,
}

/// A verdict for everything.
pub struct Policy<'a> {
    /// By the call's name.
    pub verdicts: HashMap<&'a str, Verdict>,
    /// Of every other call that is older than the newest one in `verdicts`.
    pub other: Action,
    /// Of every newer one, and of numbers that are no call.
    pub newer: Action,
}

impl Policy<'_> {
    /// The verdicts of all numbers of an architecture as ranges without gaps: sorted, the first starting at 0, neighbours
    /// different.
    pub fn ranges(&self, arch: &Arch) -> Vec<Range> {
        let calls = (arch.calls)();
        let is_listed = |(_, name): &&(u32, &str)| self.verdicts.contains_key(name);
        let listed = calls.iter().filter(is_listed).map(|(number, _)| *number);
        let newest = listed.filter(|number| *number < PRIVATE_CALLS).max();

        let mut ranges = Ranges::default();
        let mut next = 0;
        for (number, name) in calls {
            if number > next {
                ranges.push(next, self.newer.into());
            }
            let is_newer = newest.is_some_and(|newest| number > newest);
            let other = if is_newer { self.newer } else { self.other };
            ranges.push(number, self.verdict(arch, name, other));
            next = number + 1;
        }
        ranges.push(next, self.newer.into());
        if let Some(end) = arch.end {
            ranges.push(end, Action::fail(ENOSYS).into());
        }
        ranges.0
    }

    fn verdict(&self, arch: &Arch, name: &str, other: Action) -> Verdict {
        let own = self.verdicts.get(name).cloned();
        let mut verdict = own.unwrap_or_else(|| other.into());
        for (through, number, behind) in arch.bundled {
            let behind = self.verdicts.get(behind).filter(|_| *through == name);
            if let Some(behind) = behind.filter(|v| v.otherwise != verdict.otherwise) {
                verdict.rules.extend(bundled(*number, behind));
            }
        }
        verdict
    }
}

/// The rule for a call that is made through another one. Its own arguments are out of sight there, so one whose arguments
/// decide has none.
fn bundled(number: u32, behind: &Verdict) -> Option<Rule> {
    behind.rules.is_empty().then(|| Rule {
        // The upper half of ipc's first argument is a version.
        conditions: vec![Condition::low(0, 0xFFFF, number)],
        action: behind.otherwise,
    })
}

#[derive(Default)]
struct Ranges(Vec<Range>);

impl Ranges {
    fn push(&mut self, start: u32, verdict: Verdict) {
        if self.0.last().is_none_or(|last| last.verdict != verdict) {
            self.0.push(Range { start, verdict });
        }
    }
}
