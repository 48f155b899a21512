//! From ranges of call numbers to classic BPF.

use super::Instruction;
use super::arch::Word;
use super::policy::{Action, Comparison, Condition, Range, Rule, Verdict};

/// One architecture's part of a program.
pub struct Body {
    /// AUDIT_ARCH_*.
    pub audit_id: u32,
    pub word: Word,
    pub ranges: Vec<Range>,
}

// Operations: class, size or comparison, operand (linux/bpf_common.h).
const LOAD: u16 = 0x20;
const AND: u16 = 0x54;
const JUMP: u16 = 0x05;
const JUMP_IF_EQUAL: u16 = 0x15;
const JUMP_IF_GREATER: u16 = 0x25;
const JUMP_IF_AT_LEAST: u16 = 0x35;
const RETURN: u16 = 0x06;

// Offsets in `struct seccomp_data`, on little-endian machines.
const NUMBER: u32 = 0;
const ARCHITECTURE: u32 = 4;
const ARGUMENTS: u32 = 16;
const UPPER_HALF: u32 = 4;

/// Any architecture that is not among the bodies is killed.
pub fn program(bodies: &[Body]) -> Vec<Instruction> {
    let mut program = vec![operation(LOAD, ARCHITECTURE)];
    for body in bodies {
        let tree = tree(&body.ranges, body.word);
        let code = [vec![operation(LOAD, NUMBER)], tree].concat();
        program.push(comparison(JUMP_IF_EQUAL, body.audit_id, 1, 0));
        program.push(operation(JUMP, length(&code)));
        program.extend(code);
    }
    program.push(returns(Action::KILL_PROCESS));
    program
}

/// A balanced search tree over the number in the accumulator; every path ends in a return.
fn tree(ranges: &[Range], word: Word) -> Vec<Instruction> {
    let (lower, upper) = ranges.split_at(ranges.len() / 2);
    let Some(middle) = upper.first().filter(|_| !lower.is_empty()) else {
        return ranges
            .first()
            .map_or_else(Vec::new, |only| leaf(&only.verdict, word));
    };
    let lower = tree(lower, word);
    // Conditional jumps reach 255 instructions; a plain one reaches any.
    let mut code = match u8::try_from(lower.len()) {
        Ok(over_lower) => vec![comparison(JUMP_IF_AT_LEAST, middle.start, over_lower, 0)],
        Err(_) => vec![
            comparison(JUMP_IF_AT_LEAST, middle.start, 0, 1),
            operation(JUMP, length(&lower)),
        ],
    };
    code.extend(lower);
    code.extend(tree(upper, word));
    code
}

fn leaf(verdict: &Verdict, word: Word) -> Vec<Instruction> {
    let rules = verdict.rules.iter();
    let mut code: Vec<Instruction> = rules.flat_map(|rule| check(rule, word)).collect();
    code.push(returns(verdict.otherwise));
    code
}

/// Returns the rule's action, or goes on behind it.
fn check(rule: &Rule, word: Word) -> Vec<Instruction> {
    let tests: Vec<Vec<Step>> = rule.conditions.iter().map(|c| test(c, word)).collect();
    let all: usize = tests.iter().map(Vec::len).sum();
    let mut code = Vec::new();
    let mut end = 0;
    for test in tests {
        end += test.len();
        for step in test {
            let after = code.len() + 1;
            // At most six tests of seven instructions and the return.
            let distance = |way: Way| match way {
                Way::On => 0,
                Way::Holds => reach(end - after),
                Way::Fails => reach(all + 1 - after),
            };
            code.push(match step {
                Step::Plain(instruction) => instruction,
                Step::Branch(code, k, yes, no) => comparison(code, k, distance(yes), distance(no)),
            });
        }
    }
    code.push(returns(rule.action));
    code
}

/// Where a branch goes to.
#[derive(Debug, Clone, Copy)]
enum Way {
    /// The next instruction.
    On,
    /// The condition holds: behind its test.
    Holds,
    /// It does not: behind the rule.
    Fails,
}

enum Step {
    Plain(Instruction),
    Branch(u16, u32, Way, Way),
}

/// The upper half first, then, if that does not decide, the lower one.
fn test(condition: &Condition, word: Word) -> Vec<Step> {
    let (mask, value) = (condition.mask, condition.value);
    let mut steps = Vec::new();
    if word == Word::Bits64 && (upper(mask) | upper(value)) != 0 {
        let k = upper(value);
        steps.extend(load(condition.argument, UPPER_HALF, upper(mask)));
        let equal = |unequal| Step::Branch(JUMP_IF_EQUAL, k, Way::On, unequal);
        let greater = |way| Step::Branch(JUMP_IF_GREATER, k, way, Way::On);
        match condition.comparison {
            Comparison::Equal => steps.push(equal(Way::Fails)),
            Comparison::NotEqual => steps.push(equal(Way::Holds)),
            Comparison::Greater | Comparison::AtLeast => {
                steps.extend([greater(Way::Holds), equal(Way::Fails)]);
            }
            Comparison::Less | Comparison::AtMost => {
                steps.extend([greater(Way::Fails), equal(Way::Holds)]);
            }
        }
    }
    steps.extend(load(condition.argument, 0, lower(mask)));
    let (code, yes, no) = match condition.comparison {
        Comparison::Equal => (JUMP_IF_EQUAL, Way::Holds, Way::Fails),
        Comparison::NotEqual => (JUMP_IF_EQUAL, Way::Fails, Way::Holds),
        Comparison::Greater => (JUMP_IF_GREATER, Way::Holds, Way::Fails),
        Comparison::AtMost => (JUMP_IF_GREATER, Way::Fails, Way::Holds),
        Comparison::AtLeast => (JUMP_IF_AT_LEAST, Way::Holds, Way::Fails),
        Comparison::Less => (JUMP_IF_AT_LEAST, Way::Fails, Way::Holds),
    };
    steps.push(Step::Branch(code, lower(value), yes, no));
    steps
}

fn load(argument: u8, half: u32, mask: u32) -> Vec<Step> {
    let offset = ARGUMENTS + 8 * u32::from(argument) + half;
    let mut steps = vec![Step::Plain(operation(LOAD, offset))];
    if mask != u32::MAX {
        steps.push(Step::Plain(operation(AND, mask)));
    }
    steps
}

fn upper(value: u64) -> u32 {
    lower(value >> 32)
}

fn lower(value: u64) -> u32 {
    u32::try_from(value & 0xFFFF_FFFF).expect("32 bits")
}

fn returns(action: Action) -> Instruction {
    operation(RETURN, action.0)
}

fn operation(code: u16, k: u32) -> Instruction {
    comparison(code, k, 0, 0)
}

fn comparison(code: u16, k: u32, jt: u8, jf: u8) -> Instruction {
    Instruction { code, jt, jf, k }
}

fn reach(distance: usize) -> u8 {
    u8::try_from(distance).expect("a rule has at most 43 instructions")
}

/// Too long a program is refused whole, so a jump that is cut short is never taken.
fn length(code: &[Instruction]) -> u32 {
    u32::try_from(code.len()).unwrap_or(u32::MAX)
}
