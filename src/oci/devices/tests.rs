//! A little interpreter runs the program; a naive reading of the list says what it has to decide.

use oci_spec::runtime::{LinuxDeviceCgroup, LinuxDeviceCgroupBuilder, LinuxDeviceType};
use proptest::prelude::*;

use super::{ALWAYS, BLOCK, CHAR, Instruction, MKNOD, READ, WRITE, program};

/// What the kernel asks.
#[derive(Debug, Clone, Copy)]
struct Question {
    kind: i32,
    major: i32,
    minor: i32,
    access: i32,
}

fn run(program: &[Instruction], question: Question) -> bool {
    let wide = |value: i32| u64::from(u32::try_from(value).unwrap());
    let mut registers = [0_u64; 11];
    let mut at = 0;
    loop {
        let [code, names, o0, o1, v0, v1, v2, v3] = program[at].to_ne_bytes();
        let (to, from) = (usize::from(names & 0xf), usize::from(names >> 4));
        let offset = i16::from_ne_bytes([o0, o1]);
        let value = i64::from(i32::from_ne_bytes([v0, v1, v2, v3])).cast_unsigned();
        let mut jump = |condition: bool| {
            assert!(offset >= 0, "backwards");
            if condition {
                at += usize::try_from(offset).unwrap();
            }
        };
        match code {
            0x61 => {
                assert_eq!(from, 1, "reads something that is not the question");
                registers[to] = match offset {
                    0 => wide(question.access << 16 | question.kind),
                    4 => wide(question.major),
                    8 => wide(question.minor),
                    other => panic!("reads at {other}"),
                };
            }
            0xbf => registers[to] = registers[from],
            0xb7 => registers[to] = value,
            0x57 => registers[to] &= value,
            0x77 => registers[to] >>= value,
            0x05 => jump(true),
            0x15 => jump(registers[to] == value),
            0x55 => jump(registers[to] != value),
            0x45 => jump(registers[to] & value != 0),
            0x95 => return registers[0] == 1,
            other => panic!("unknown instruction {other:#x} at {at}"),
        }
        at += 1;
    }
}

fn decide(rules: &[LinuxDeviceCgroup], question: Question) -> bool {
    program(rules).is_none_or(|program| run(&program, question))
}

/// Each access by itself, and the whole list for each: nothing that the assembler does.
fn naive(rules: &[LinuxDeviceCgroup], question: Question) -> bool {
    let granted = |bit: i32, letter: char| {
        let always = ALWAYS.iter().any(|rule| {
            rule.kind == Some(question.kind)
                && rule.major.is_none_or(|major| major == question.major)
                && rule.minor.is_none_or(|minor| minor == question.minor)
                && rule.access & bit != 0
        });
        let mut verdict = false;
        for rule in rules {
            let number = |wanted: Option<i64>, has: i32| {
                wanted.is_none_or(|wanted| wanted == -1 || wanted == i64::from(has))
            };
            let matches = match rule.typ().unwrap_or(LinuxDeviceType::A) {
                LinuxDeviceType::A => {
                    verdict = rule.allow();
                    continue;
                }
                LinuxDeviceType::B => question.kind == BLOCK,
                LinuxDeviceType::C | LinuxDeviceType::U => question.kind == CHAR,
                LinuxDeviceType::P => false,
            };
            let letters = rule.access().as_deref().unwrap_or("rwm");
            if matches
                && number(rule.major(), question.major)
                && number(rule.minor(), question.minor)
                && letters.contains(letter)
            {
                verdict = rule.allow();
            }
        }
        verdict || always
    };
    [(MKNOD, 'm'), (READ, 'r'), (WRITE, 'w')]
        .into_iter()
        .filter(|(bit, _)| question.access & bit != 0)
        .all(|(bit, letter)| granted(bit, letter))
}

fn rule(
    allow: bool,
    typ: LinuxDeviceType,
    numbers: (Option<i64>, Option<i64>),
    access: &str,
) -> LinuxDeviceCgroup {
    let mut rule = LinuxDeviceCgroupBuilder::default()
        .allow(allow)
        .typ(typ)
        .access(access)
        .build()
        .unwrap();
    rule.set_major(numbers.0).set_minor(numbers.1);
    rule
}

fn deny_all() -> LinuxDeviceCgroup {
    rule(false, LinuxDeviceType::A, (None, None), "rwm")
}

fn allow_all() -> LinuxDeviceCgroup {
    rule(true, LinuxDeviceType::A, (None, None), "rwm")
}

fn question(kind: i32, major: i32, minor: i32, access: i32) -> Question {
    Question {
        kind,
        major,
        minor,
        access,
    }
}

/// C-40, C-49
#[test]
fn a_container_makes_any_node_and_opens_only_the_default_ones() {
    let rules = [deny_all()];
    let disk = |access| question(BLOCK, 8, 0, access);
    assert!(decide(&rules, disk(MKNOD)));
    for access in [READ, WRITE, READ | WRITE, MKNOD | READ] {
        assert!(!decide(&rules, disk(access)), "{access}");
    }
    let defaults = [
        (1, 3),
        (1, 5),
        (1, 7),
        (1, 8),
        (1, 9),
        (5, 0),
        (5, 1),
        (5, 2),
    ];
    for (major, minor) in defaults {
        let null = question(CHAR, major, minor, MKNOD | READ | WRITE);
        assert!(decide(&rules, null), "{major}:{minor}");
        let block = question(BLOCK, major, minor, READ);
        assert!(!decide(&rules, block), "{major}:{minor}");
    }
    assert!(decide(&rules, question(CHAR, 136, 77, READ | WRITE)));
    // /dev/mem, /dev/kmsg
    assert!(!decide(&rules, question(CHAR, 1, 1, READ)));
    assert!(!decide(&rules, question(CHAR, 1, 11, WRITE)));
}

/// C-43
#[test]
fn a_privileged_container_has_no_program() {
    assert_eq!(program(&[allow_all()]), None);
    assert_eq!(program(&[deny_all(), allow_all()]), None);
    let but_one = rule(false, LinuxDeviceType::C, (Some(1), Some(1)), "w");
    let rules = [allow_all(), but_one];
    assert!(!decide(&rules, question(CHAR, 1, 1, READ | WRITE)));
    assert!(decide(&rules, question(CHAR, 1, 1, READ)));
    assert!(decide(&rules, question(BLOCK, 8, 0, READ | WRITE)));
}

/// D-16
#[test]
fn a_rule_for_a_device_allows_that_device_alone() {
    let serial = rule(true, LinuxDeviceType::C, (Some(204), Some(64)), "rwm");
    let rules = [deny_all(), serial];
    assert!(decide(&rules, question(CHAR, 204, 64, READ | WRITE)));
    assert!(!decide(&rules, question(CHAR, 204, 65, READ)));
    assert!(!decide(&rules, question(CHAR, 205, 64, READ)));
    assert!(!decide(&rules, question(BLOCK, 204, 64, READ)));
}

#[test]
fn without_a_rule_everything_is_refused() {
    assert!(!decide(&[], question(CHAR, 10, 229, READ)));
    assert!(decide(&[], question(CHAR, 1, 3, READ)));
}

#[test]
fn a_number_that_no_device_has_matches_none() {
    let odd = rule(true, LinuxDeviceType::C, (Some(1 << 40), None), "rwm");
    let negative = rule(true, LinuxDeviceType::C, (Some(-2), None), "rwm");
    assert!(!decide(&[odd, negative], question(CHAR, 0, 1, READ)));
}

fn rules() -> impl Strategy<Value = Vec<LinuxDeviceCgroup>> {
    let typ = prop_oneof![
        1 => Just(LinuxDeviceType::A),
        8 => Just(LinuxDeviceType::B),
        8 => Just(LinuxDeviceType::C),
        1 => Just(LinuxDeviceType::U),
        1 => Just(LinuxDeviceType::P),
    ];
    let number = || prop::option::of(-1_i64..4);
    let rule = (any::<bool>(), typ, (number(), number()), "[rwm]{0,3}")
        .prop_map(|(allow, typ, numbers, access)| rule(allow, typ, numbers, &access));
    prop::collection::vec(rule, 0..12)
}

proptest! {
    #[test]
    fn the_program_decides_as_the_list_says(rules in rules()) {
        for kind in [BLOCK, CHAR] {
            for major in 0..4 {
                for minor in 0..4 {
                    for access in 0..8 {
                        let question = question(kind, major, minor, access);
                        prop_assert_eq!(decide(&rules, question), naive(&rules, question), "{:?}", question);
                    }
                }
            }
        }
    }
}
