//! Profiles that administrators write (C-51).

use super::interpreter::{Call, run};
use super::{AARCH64, ALLOW, ARM, I386, KILL_PROCESS, X86_64, arch_of, assert_jumps_stay_inside};
use super::{failed, number};
use crate::oci::seccomp::policy::{ENOSYS, EPERM};
use crate::oci::seccomp::{Circumstances, Instruction, Profile};

mod reading;

const KILL_THREAD: u32 = 0;
const HIGH: u64 = 1 << 32;
const TRAP: u32 = 0x0003_0000;
const LOG: u32 = 0x7FFC_0000;

fn around(capabilities: &[String]) -> Circumstances<'_> {
    Circumstances {
        capabilities,
        kernel: (6, 1),
    }
}

fn program(arch: u32, text: &str, capabilities: &[&str]) -> Vec<Instruction> {
    let capabilities: Vec<String> = capabilities.iter().map(|&c| c.to_owned()).collect();
    let profile = Profile::parse(text).unwrap_or_else(|error| panic!("{text}: {error:?}"));
    let program = profile.program_of(arch_of(arch).0, around(&capabilities));
    let program = program.unwrap();
    assert_jumps_stay_inside(&program);
    program
}

/// The verdict on a call by name.
fn ask(arch: u32, text: &str, name: &str, args: &[u64]) -> u32 {
    let mut all = [0; 6];
    all[..args.len()].copy_from_slice(args);
    let call = Call {
        arch,
        number: number(arch, name),
        args: all,
    };
    run(&program(arch, text, &[]), call)
}

#[test]
fn every_action_is_the_kernels() {
    for (action, verdict) in [
        (r#""action": "SCMP_ACT_ALLOW""#, ALLOW),
        (r#""action": "SCMP_ACT_ERRNO""#, failed(EPERM)),
        (
            r#""action": "SCMP_ACT_ERRNO", "errnoRet": 38"#,
            failed(ENOSYS),
        ),
        (r#""action": "SCMP_ACT_KILL""#, KILL_THREAD),
        (r#""action": "SCMP_ACT_KILL_THREAD""#, KILL_THREAD),
        (r#""action": "SCMP_ACT_KILL_PROCESS""#, KILL_PROCESS),
        (r#""action": "SCMP_ACT_LOG""#, LOG),
        (r#""action": "SCMP_ACT_TRAP""#, TRAP),
        (r#""action": "SCMP_ACT_TRACE", "errnoRet": 7"#, 0x7FF0_0007),
    ] {
        let text = format!(
            r#"{{"defaultAction": "SCMP_ACT_ERRNO", "defaultErrnoRet": 5,
                "syscalls": [{{"names": ["chdir"], {action}}}, {{"names": ["statx"], "action": "SCMP_ACT_ALLOW"}}]}}"#
        );
        for arch in [X86_64, I386, AARCH64, ARM] {
            assert_eq!(ask(arch, &text, "chdir", &[]), verdict, "{action}");
            assert_eq!(ask(arch, &text, "chroot", &[]), failed(5));
        }
    }
}

/// What libseccomp's manual says of each comparison, on both halves of an argument.
#[test]
fn every_comparison_compares_the_whole_argument() {
    for (op, value, value_two, good, bad) in [
        (
            "EQ",
            HIGH + 5,
            0,
            vec![HIGH + 5],
            vec![5, HIGH, 2 * HIGH + 5],
        ),
        (
            "NE",
            HIGH + 5,
            0,
            vec![5, HIGH + 4, 2 * HIGH + 5],
            vec![HIGH + 5],
        ),
        (
            "LT",
            HIGH + 5,
            0,
            vec![0, 9, HIGH + 4],
            vec![HIGH + 5, HIGH + 6, 2 * HIGH],
        ),
        (
            "LE",
            HIGH + 5,
            0,
            vec![0, 9, HIGH + 5],
            vec![HIGH + 6, 2 * HIGH, u64::MAX],
        ),
        (
            "GT",
            HIGH + 5,
            0,
            vec![HIGH + 6, 2 * HIGH],
            vec![0, 9, HIGH + 5],
        ),
        (
            "GE",
            HIGH + 5,
            0,
            vec![HIGH + 5, 2 * HIGH],
            vec![0, 9, HIGH + 4],
        ),
        (
            "MASKED_EQ",
            0xF0,
            0x30,
            vec![0x30, 0x3F, HIGH + 0x31],
            vec![0, 0x40, 0xF0],
        ),
        (
            "MASKED_EQ",
            3 * HIGH + 1,
            HIGH,
            vec![HIGH, HIGH + 2, 5 * HIGH],
            vec![0, HIGH + 1, 3 * HIGH],
        ),
        ("MASKED_EQ", 1, 3, vec![], vec![0, 1, 2, 3]),
    ] {
        let text = format!(
            r#"{{"defaultAction": "SCMP_ACT_ERRNO", "syscalls": [{{"names": ["openat"], "action": "SCMP_ACT_ALLOW",
                "args": [{{"index": 2, "value": {value}, "valueTwo": {value_two}, "op": "SCMP_CMP_{op}"}}]}}]}}"#
        );
        for (arguments, verdict) in [(good, ALLOW), (bad, failed(EPERM))] {
            for argument in arguments {
                let said = ask(X86_64, &text, "openat", &[0, 0, argument]);
                assert_eq!(said, verdict, "{argument:#x} {op} {value:#x}");
            }
        }
    }
}

#[test]
fn conditions_are_and_and_those_on_one_argument_are_or() {
    let text = r#"{"defaultAction": "SCMP_ACT_ERRNO", "syscalls": [
        {"names": ["openat"], "action": "SCMP_ACT_ALLOW", "args": [
            {"index": 0, "value": 1, "op": "SCMP_CMP_EQ"}, {"index": 1, "value": 2, "op": "SCMP_CMP_EQ"}]},
        {"names": ["socket"], "action": "SCMP_ACT_ALLOW", "args": [
            {"index": 0, "value": 1, "op": "SCMP_CMP_EQ"}, {"index": 0, "value": 2, "op": "SCMP_CMP_EQ"}]}]}"#;
    for (name, args, verdict) in [
        ("openat", [1, 2], ALLOW),
        ("openat", [1, 3], failed(EPERM)),
        ("openat", [0, 2], failed(EPERM)),
        ("socket", [1, 0], ALLOW),
        ("socket", [2, 0], ALLOW),
        ("socket", [3, 0], failed(EPERM)),
    ] {
        assert_eq!(ask(X86_64, text, name, &args), verdict, "{name} {args:?}");
    }
}

#[test]
fn the_first_condition_that_holds_decides_and_then_the_rest() {
    let text = r#"{"defaultAction": "SCMP_ACT_KILL_PROCESS", "syscalls": [
        {"names": ["socket"], "action": "SCMP_ACT_ALLOW"},
        {"names": ["socket"], "action": "SCMP_ACT_ERRNO", "args": [{"index": 0, "value": 40, "op": "SCMP_CMP_EQ"}]},
        {"names": ["socket"], "action": "SCMP_ACT_TRAP", "args": [{"index": 0, "value": 39, "op": "SCMP_CMP_GT"}]}]}"#;
    for (family, verdict) in [(1, ALLOW), (40, failed(EPERM)), (41, TRAP)] {
        assert_eq!(ask(X86_64, text, "socket", &[family]), verdict, "{family}");
    }
    assert_eq!(ask(X86_64, text, "open", &[]), KILL_PROCESS);
}

/// H3: a strict profile that is older than the kernel, or names calls that are newer than this program.
#[test]
fn what_is_newer_than_a_strict_profile_is_missing() {
    let text = r#"{"defaultAction": "SCMP_ACT_KILL_PROCESS",
        "syscalls": [{"names": ["read", "statx", "frobnicate2"], "action": "SCMP_ACT_ALLOW"}]}"#;
    for arch in [X86_64, I386, AARCH64, ARM] {
        assert_eq!(ask(arch, text, "statx", &[]), ALLOW);
        assert_eq!(ask(arch, text, "chroot", &[]), KILL_PROCESS);
        assert_eq!(ask(arch, text, "openat2", &[]), failed(ENOSYS));
        let call = Call {
            arch,
            number: 600,
            args: [0; 6],
        };
        assert_eq!(run(&program(arch, text, &[]), call), failed(ENOSYS));
    }
    let profile = Profile::parse(text).unwrap();
    assert_eq!(profile.unknown_names(), ["frobnicate2"]);
}

/// A list of what is forbidden must not be got round by a 32-bit program, by x32, or by the calls through which i386 makes
/// others.
#[test]
fn a_list_of_what_is_forbidden_holds_on_every_way() {
    let text = r#"{"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [
        {"names": ["bind", "semget", "mount"], "action": "SCMP_ACT_ERRNO"}]}"#;
    for arch in [X86_64, I386, AARCH64, ARM] {
        for (name, verdict) in [
            ("bind", failed(EPERM)),
            ("mount", failed(EPERM)),
            ("read", ALLOW),
        ] {
            assert_eq!(ask(arch, text, name, &[]), verdict, "{arch:#x} {name}");
        }
        let call = Call {
            arch,
            number: 600,
            args: [0; 6],
        };
        assert_eq!(run(&program(arch, text, &[]), call), ALLOW);
    }
    for (through, what, verdict) in [
        ("socketcall", 2, failed(EPERM)),
        ("socketcall", 1, ALLOW),
        ("ipc", 2, failed(EPERM)),
        ("ipc", 0x1_0002, failed(EPERM)),
        ("ipc", 1, ALLOW),
    ] {
        assert_eq!(
            ask(I386, text, through, &[what]),
            verdict,
            "{through} {what}"
        );
    }
    let x32 = Call {
        arch: X86_64,
        number: 0x4000_0000 | number(X86_64, "mount"),
        args: [0; 6],
    };
    assert_eq!(run(&program(X86_64, text, &[]), x32), failed(ENOSYS));
}

#[test]
fn what_is_allowed_alone_can_be_called_through_another_call() {
    let text = r#"{"defaultAction": "SCMP_ACT_ERRNO", "syscalls": [
        {"names": ["socket", "connect"], "action": "SCMP_ACT_ALLOW"}]}"#;
    for (what, verdict) in [(1, ALLOW), (2, failed(EPERM)), (3, ALLOW)] {
        assert_eq!(ask(I386, text, "socketcall", &[what]), verdict);
    }
}
