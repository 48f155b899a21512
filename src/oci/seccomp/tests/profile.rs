//! Profiles that administrators write (C-51).

use proptest::prelude::*;

use super::interpreter::{Call, run};
use super::{AARCH64, ALLOW, ARM, I386, KILL_PROCESS, X86_64, arch_of, assert_jumps_stay_inside};
use super::{failed, number};
use crate::oci::seccomp::arch::OWN;
use crate::oci::seccomp::policy::{ENOSYS, EPERM};
use crate::oci::seccomp::{Circumstances, Instruction, Profile};

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

fn error(text: &str) -> String {
    let error = match Profile::parse(text) {
        Ok(profile) => profile.program(around(&[])).unwrap_err(),
        Err(error) => error,
    };
    crate::error::chain(&error)
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

#[test]
fn architectures_that_are_not_listed_are_killed() {
    let (own, _) = OWN;
    let calls = r#""syscalls": [{"names": ["read"], "action": "SCMP_ACT_ALLOW"}]"#;
    let head = r#"{"defaultAction": "SCMP_ACT_ERRNO""#;
    let family = crate::oci::seccomp::arch::NATIVE;
    for (list, both) in [
        (String::new(), true),
        (r#""architectures": [],"#.to_owned(), true),
        (format!(r#""architectures": ["{own}"],"#), false),
        (r#""architectures": ["SCMP_ARCH_S390X"],"#.to_owned(), false),
        (
            format!(r#""architectures": ["{}"],"#, family[family.len() - 1].name),
            true,
        ),
        (
            format!(r#""archMap": [{{"architecture": "{own}", "subArchitectures": null}}],"#),
            false,
        ),
        (
            format!(
                r#""archMap": [{{"architecture": "{own}", "subArchitectures": ["{}"]}}],"#,
                family[family.len() - 1].name
            ),
            true,
        ),
    ] {
        let text = format!("{head}, {list} {calls}}}");
        for arch in family {
            let verdict = ask(arch.audit_id, &text, "read", &[]);
            let expected = if both || arch.name == own {
                ALLOW
            } else {
                KILL_PROCESS
            };
            assert_eq!(verdict, expected, "{list} {}", arch.name);
        }
    }
}

#[test]
fn dockers_conditions_hold() {
    let (_, own) = OWN;
    for (condition, applies) in [
        (r#""includes": {}"#.to_owned(), true),
        (
            r#""includes": null, "comment": "", "args": null"#.to_owned(),
            true,
        ),
        (r#""includes": {"caps": ["CAP_SYS_TIME"]}"#.to_owned(), true),
        (
            r#""includes": {"caps": ["CAP_SYS_TIME", "CAP_BPF"]}"#.to_owned(),
            false,
        ),
        (
            r#""excludes": {"caps": ["CAP_SYS_TIME"]}"#.to_owned(),
            false,
        ),
        (r#""excludes": {"caps": ["CAP_BPF"]}"#.to_owned(), true),
        (
            format!(r#""includes": {{"arches": ["s390", "{own}"]}}"#),
            true,
        ),
        (r#""includes": {"arches": ["s390"]}"#.to_owned(), false),
        (r#""includes": {"arches": []}"#.to_owned(), true),
        (format!(r#""excludes": {{"arches": ["{own}"]}}"#), false),
        (r#""excludes": {"arches": ["s390"]}"#.to_owned(), true),
        (r#""includes": {"minKernel": "4.8"}"#.to_owned(), true),
        (r#""includes": {"minKernel": "6.1"}"#.to_owned(), true),
        (r#""includes": {"minKernel": "6.2"}"#.to_owned(), false),
        (r#""excludes": {"minKernel": "5.10"}"#.to_owned(), false),
        (r#""excludes": {"minKernel": "10.0"}"#.to_owned(), true),
    ] {
        let text = format!(
            r#"{{"defaultAction": "SCMP_ACT_ERRNO",
                "syscalls": [{{"name": "settimeofday", "action": "SCMP_ACT_ALLOW", {condition}}}]}}"#
        );
        let call = Call {
            arch: X86_64,
            number: number(X86_64, "settimeofday"),
            args: [0; 6],
        };
        let verdict = run(
            &program(X86_64, &text, &["CAP_CHOWN", "CAP_SYS_TIME"]),
            call,
        );
        assert_eq!(verdict == ALLOW, applies, "{condition}");
    }
}

#[test]
fn mistakes_are_told_with_their_place() {
    for (text, said) in [
        (
            "",
            "understand the seccomp profile: EOF while parsing a value at line 1 column 0",
        ),
        (
            "{}",
            "understand the seccomp profile: missing field `defaultAction` at line 1 column 2",
        ),
        (
            "{\n\"defaultAction\": \"SCMP_ACT_NOTIFY\"}",
            "understand the seccomp profile: unknown variant `SCMP_ACT_NOTIFY`, expected one of `SCMP_ACT_ALLOW`, `SCMP_ACT_ERRNO`, \
             `SCMP_ACT_KILL`, `SCMP_ACT_KILL_THREAD`, `SCMP_ACT_KILL_PROCESS`, `SCMP_ACT_LOG`, `SCMP_ACT_TRACE`, `SCMP_ACT_TRAP` \
             at line 2 column 34",
        ),
        (
            r#"{"defaultAction": "SCMP_ACT_ALLOW", "syscall": []}"#,
            "understand the seccomp profile: unknown field `syscall`, expected one of `defaultAction`, `defaultErrnoRet`, \
             `architectures`, `archMap`, `syscalls`, `flags`, `defaultErrno` at line 1 column 45",
        ),
        (
            r#"{"defaultAction": "SCMP_ACT_ERRNO", "defaultErrnoRet": 5000}"#,
            "seccomp profile: default: an errno is at most 4095",
        ),
        (
            r#"{"defaultAction": "SCMP_ACT_ALLOW", "architectures": ["x"], "archMap": [{"architecture": "x"}]}"#,
            "seccomp profile: archMap: there is a list of architectures already",
        ),
        (
            r#"{"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [{"action": "SCMP_ACT_LOG"}]}"#,
            "seccomp profile: syscalls[0]: names no call",
        ),
        (
            r#"{"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [{"name": "a", "names": ["b"], "action": "SCMP_ACT_LOG"}]}"#,
            "seccomp profile: syscalls[0]: has both name and names",
        ),
        (
            r#"{"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [{"name": "a", "action": "SCMP_ACT_LOG",
                "args": [{"index": 6, "value": 0, "op": "SCMP_CMP_EQ"}]}]}"#,
            "seccomp profile: syscalls[0].args[0].index: must be from 0 to 5",
        ),
        (
            r#"{"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [{"name": "a", "action": "SCMP_ACT_LOG",
                "includes": {"minKernel": "new"}}]}"#,
            "seccomp profile: syscalls[0]: minKernel \"new\" is not a version such as 4.8",
        ),
        (
            r#"{"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [{"name": "a", "action": "SCMP_ACT_LOG"},
                {"name": "a", "action": "SCMP_ACT_ERRNO"}]}"#,
            "seccomp profile: syscalls[1]: a has another action above",
        ),
    ] {
        assert_eq!(error(text), said);
    }
    let rule = |n: u32| {
        format!(
            r#"{{"name": "read", "action": "SCMP_ACT_LOG", "args": [{{"index": 0, "value": {n}, "op": "SCMP_CMP_EQ"}}]}}"#
        )
    };
    let rules: Vec<String> = (0..4000).map(rule).collect();
    let text = format!(
        r#"{{"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [{}]}}"#,
        rules.join(",")
    );
    assert!(
        error(&text).contains("and the kernel takes 4096"),
        "{}",
        error(&text)
    );
}

proptest! {
    /// Reading whatever comes ends in order.
    #[test]
    fn garbage_is_refused(text in r#"[\[\]{}",:a-zA-Z_0-9 ]{0,80}"#) {
        let _ = Profile::parse(&text).map(|profile| profile.program(around(&[])));
    }
}
