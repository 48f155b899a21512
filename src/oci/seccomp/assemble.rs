//! From ranges of call numbers to classic BPF.

use super::profile::Rule;
use super::{EPERM, Instruction, Verdict};

/// All numbers from `start` to the next range's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Range {
    /// The first number.
    pub start: u32,
    /// What becomes of them.
    pub verdict: Verdict,
}

// Operations: class, size or comparison, operand (linux/bpf_common.h).
const LOAD: u16 = 0x20;
const JUMP: u16 = 0x05;
const JUMP_IF_EQUAL: u16 = 0x15;
const JUMP_IF_AT_LEAST: u16 = 0x35;
const JUMP_IF_ANY_BIT: u16 = 0x45;
const RETURN: u16 = 0x06;

// Offsets in `struct seccomp_data`.
const NUMBER: u32 = 0;
const ARCHITECTURE: u32 = 4;
const ARGUMENTS: u32 = 16;

// SECCOMP_RET_*.
const RETURN_ALLOW: u32 = 0x7FFF_0000;
const RETURN_ERRNO: u32 = 0x0005_0000;
const RETURN_KILL_PROCESS: u32 = 0x8000_0000;

/// One body per architecture (its AUDIT_ARCH and its ranges), any other architecture is killed.
pub fn program(bodies: &[(u32, Vec<Range>)]) -> Vec<Instruction> {
    let mut program = vec![operation(LOAD, ARCHITECTURE)];
    for (audit_id, ranges) in bodies {
        let body = [vec![operation(LOAD, NUMBER)], tree(ranges)].concat();
        program.push(comparison(JUMP_IF_EQUAL, *audit_id, 1, 0));
        program.push(operation(JUMP, length(&body)));
        program.extend(body);
    }
    program.push(operation(RETURN, RETURN_KILL_PROCESS));
    program
}

/// A balanced search tree over the number in the accumulator; every path ends in a return.
fn tree(ranges: &[Range]) -> Vec<Instruction> {
    let (lower, upper) = ranges.split_at(ranges.len() / 2);
    let Some(middle) = upper.first().filter(|_| !lower.is_empty()) else {
        return ranges
            .first()
            .map_or_else(Vec::new, |only| leaf(only.verdict));
    };
    let lower = tree(lower);
    // Conditional jumps reach 255 instructions; a plain one reaches any.
    let mut code = match u8::try_from(lower.len()) {
        Ok(over_lower) => vec![comparison(JUMP_IF_AT_LEAST, middle.start, over_lower, 0)],
        Err(_) => vec![
            comparison(JUMP_IF_AT_LEAST, middle.start, 0, 1),
            operation(JUMP, length(&lower)),
        ],
    };
    code.extend(lower);
    code.extend(tree(upper));
    code
}

fn leaf(verdict: Verdict) -> Vec<Instruction> {
    match verdict {
        Verdict::Allow => vec![operation(RETURN, RETURN_ALLOW)],
        Verdict::Fail(errno) => vec![fail(errno)],
        Verdict::Check(rule) => check(rule),
    }
}

/// Looks at the low 32 bits of an argument, which is all the kernel reads of the arguments that rules are about.
fn check(rule: &Rule) -> Vec<Instruction> {
    let refuse = fail(EPERM);
    let allow = operation(RETURN, RETURN_ALLOW);
    match rule {
        Rule::NoBits { argument, mask } => {
            vec![
                load(*argument),
                comparison(JUMP_IF_ANY_BIT, *mask, 0, 1),
                refuse,
                allow,
            ]
        }
        Rule::Not { argument, value } => {
            vec![
                load(*argument),
                comparison(JUMP_IF_EQUAL, *value, 0, 1),
                refuse,
                allow,
            ]
        }
        Rule::OneOf { argument, values } => {
            let mut code = vec![load(*argument)];
            // From each comparison to `allow`: over the ones after it and `refuse`.
            let distances = (1..=u8::MAX).take(values.len()).collect::<Vec<_>>();
            let tests = values.iter().zip(distances.into_iter().rev());
            code.extend(tests.map(|(value, over)| comparison(JUMP_IF_EQUAL, *value, over, 0)));
            code.extend([refuse, allow]);
            code
        }
    }
}

fn load(argument: u8) -> Instruction {
    operation(LOAD, ARGUMENTS + 8 * u32::from(argument))
}

fn fail(errno: u16) -> Instruction {
    operation(RETURN, RETURN_ERRNO | u32::from(errno))
}

fn operation(code: u16, k: u32) -> Instruction {
    comparison(code, k, 0, 0)
}

fn comparison(code: u16, k: u32, jt: u8, jf: u8) -> Instruction {
    Instruction { code, jt, jf, k }
}

fn length(code: &[Instruction]) -> u32 {
    u32::try_from(code.len()).expect("programs have at most 4096 instructions")
}
