//! Device rules for cgroup v2: there the kernel has no list of rules but asks a program, which is assembled here.
//!
//! The meaning is that of the list, as on v1: whoever makes or opens a device node asks for some of mknod, read and
//! write, for each of which the last rule that names device and access decides, and without one it is refused.
//! The program goes through the rules from the last to the first, and strikes out what has been granted.

use oci_spec::runtime::{LinuxDeviceCgroup, LinuxDeviceType};

#[cfg(test)]
mod tests;

/// One instruction of an eBPF program (`struct bpf_insn`), as it lies in memory.
pub type Instruction = u64;

/// Bits of `access_type` in the upper half.
const MKNOD: i32 = 1;
const READ: i32 = 2;
const WRITE: i32 = 4;

/// `access_type` in the lower half.
const BLOCK: i32 = 1;
const CHAR: i32 = 2;

/// A rule that the kernel's question can meet. What is `None` may be anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Rule {
    allow: bool,
    kind: Option<i32>,
    major: Option<i32>,
    minor: Option<i32>,
    access: i32,
}

/// C-49: what every container may do, whatever its own rules say. The same that libcontainer appends to them on v1: make
/// any node, and use null, zero, full, random, urandom, tty, console, ptmx, its terminals, and net/tun.
const ALWAYS: [Rule; 12] = [
    device(CHAR, None, None, MKNOD),
    device(BLOCK, None, None, MKNOD),
    device(CHAR, Some(1), Some(3), READ | WRITE),
    device(CHAR, Some(1), Some(5), READ | WRITE),
    device(CHAR, Some(1), Some(7), READ | WRITE),
    device(CHAR, Some(1), Some(8), READ | WRITE),
    device(CHAR, Some(1), Some(9), READ | WRITE),
    device(CHAR, Some(5), Some(0), READ | WRITE),
    device(CHAR, Some(5), Some(1), READ | WRITE),
    device(CHAR, Some(5), Some(2), READ | WRITE),
    device(CHAR, Some(136), None, READ | WRITE),
    device(CHAR, Some(10), Some(200), READ | WRITE),
];

const fn device(kind: i32, major: Option<i32>, minor: Option<i32>, access: i32) -> Rule {
    Rule {
        allow: true,
        kind: Some(kind),
        major,
        minor,
        access,
    }
}

/// The program that decides as these rules, followed by those that hold for every container (C-49). `None` if everything
/// is allowed: then none is needed (C-43).
pub fn program(rules: &[LinuxDeviceCgroup]) -> Option<Vec<Instruction>> {
    // A rule about all devices ends the matter for those before it.
    let last = rules.iter().rposition(is_about_all);
    let allow_all = last.is_some_and(|at| rules[at].allow());
    let rest = last.map_or(rules, |at| &rules[at + 1..]);
    let denies = rest.iter().any(|rule| !rule.allow());
    if allow_all && !denies {
        return None;
    }
    let rules = rest.iter().filter_map(parse);
    let newest_first = ALWAYS.into_iter().rev().chain(rules.rev());
    Some(assemble(newest_first, allow_all))
}

/// A program that refuses everything: whether the kernel takes it tells whether it enforces device rules.
pub fn refusal() -> Vec<Instruction> {
    vec![mov(Register::Verdict, 0), exit()]
}

fn is_about_all(rule: &LinuxDeviceCgroup) -> bool {
    matches!(rule.typ(), None | Some(LinuxDeviceType::A))
}

/// `None` if no device can match.
fn parse(rule: &LinuxDeviceCgroup) -> Option<Rule> {
    let kind = match rule.typ()? {
        LinuxDeviceType::B => Some(BLOCK),
        LinuxDeviceType::C | LinuxDeviceType::U => Some(CHAR),
        LinuxDeviceType::A => None,
        // Opening one asks nobody.
        LinuxDeviceType::P => return None,
    };
    Some(Rule {
        allow: rule.allow(),
        kind,
        major: number(rule.major())?,
        minor: number(rule.minor())?,
        access: access(rule.access().as_deref()),
    })
}

/// -1 is any number, as with other runtimes; `None` is a number that no device has.
fn number(wanted: Option<i64>) -> Option<Option<i32>> {
    match wanted {
        None | Some(-1) => Some(None),
        Some(number) => match i32::try_from(number) {
            Ok(number) if number >= 0 => Some(Some(number)),
            Ok(_) | Err(_) => None,
        },
    }
}

fn access(letters: Option<&str>) -> i32 {
    let bit = |letter| match letter {
        'm' => MKNOD,
        'r' => READ,
        'w' => WRITE,
        _ => 0,
    };
    letters.map_or(MKNOD | READ | WRITE, |letters| {
        letters.chars().map(bit).fold(0, |all, bit| all | bit)
    })
}

fn assemble(newest_first: impl Iterator<Item = Rule>, allow_all: bool) -> Vec<Instruction> {
    let mut program = vec![
        load(Register::Kind, 0),
        copy(Register::Wanted, Register::Kind),
        shift_right(Register::Wanted, 16),
        and(Register::Kind, 0xffff),
        load(Register::Major, 4),
        load(Register::Minor, 8),
    ];
    for rule in newest_first {
        append(&mut program, rule);
    }
    program.push(mov(Register::Verdict, 1));
    if !allow_all {
        program.extend([
            skip_if_equal(Register::Wanted, 0, 1),
            mov(Register::Verdict, 0),
        ]);
    }
    program.push(exit());
    program
}

/// What a rule that matches does, after the comparisons that lead past it.
fn append(program: &mut Vec<Instruction>, rule: Rule) {
    let decision = if rule.allow {
        vec![and(Register::Wanted, !rule.access)]
    } else {
        vec![
            skip_if_any(Register::Wanted, rule.access, 1),
            skip(2),
            mov(Register::Verdict, 0),
            exit(),
        ]
    };
    let tests = [
        (Register::Kind, rule.kind),
        (Register::Major, rule.major),
        (Register::Minor, rule.minor),
    ];
    let tests: Vec<(Register, i32)> = tests
        .into_iter()
        .filter_map(|(register, value)| Some((register, value?)))
        .collect();
    for (at, &(register, value)) in tests.iter().enumerate() {
        let past = tests.len() - at - 1 + decision.len();
        let past = i16::try_from(past).expect("a rule is seven instructions at most");
        program.push(skip_unless_equal(register, value, past));
    }
    program.extend(decision);
}

#[derive(Debug, Clone, Copy)]
enum Register {
    /// 1 allows, 0 refuses.
    Verdict = 0,
    /// Where the kernel's question lies: `struct bpf_cgroup_dev_ctx`.
    Question = 1,
    Kind = 2,
    /// The access that no rule has granted yet.
    Wanted = 3,
    Major = 4,
    Minor = 5,
}

/// `code` is the operation, its class and its mode, as in `linux/bpf.h` and `linux/bpf_common.h`.
fn instruction(code: u8, to: Register, from: u8, offset: i16, value: i32) -> Instruction {
    let [o0, o1] = offset.to_ne_bytes();
    let [v0, v1, v2, v3] = value.to_ne_bytes();
    u64::from_ne_bytes([code, to as u8 | from << 4, o0, o1, v0, v1, v2, v3])
}

fn load(to: Register, offset: i16) -> Instruction {
    instruction(0x61, to, Register::Question as u8, offset, 0)
}

fn copy(to: Register, from: Register) -> Instruction {
    instruction(0xbf, to, from as u8, 0, 0)
}

fn mov(to: Register, value: i32) -> Instruction {
    instruction(0xb7, to, 0, 0, value)
}

fn and(to: Register, value: i32) -> Instruction {
    instruction(0x57, to, 0, 0, value)
}

fn shift_right(to: Register, bits: i32) -> Instruction {
    instruction(0x77, to, 0, 0, bits)
}

fn skip(past: i16) -> Instruction {
    instruction(0x05, Register::Verdict, 0, past, 0)
}

fn skip_if_equal(register: Register, value: i32, past: i16) -> Instruction {
    instruction(0x15, register, 0, past, value)
}

fn skip_unless_equal(register: Register, value: i32, past: i16) -> Instruction {
    instruction(0x55, register, 0, past, value)
}

fn skip_if_any(register: Register, bits: i32, past: i16) -> Instruction {
    instruction(0x45, register, 0, past, bits)
}

fn exit() -> Instruction {
    instruction(0x95, Register::Verdict, 0, 0, 0)
}
