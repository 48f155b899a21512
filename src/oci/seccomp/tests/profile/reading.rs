//! What of a profile's text counts on this machine, and what is told of mistakes in it.

use proptest::prelude::*;

use super::super::interpreter::{Call, run};
use super::super::{ALLOW, KILL_PROCESS, X86_64, number};
use super::{around, ask, program};
use crate::oci::seccomp::Profile;
use crate::oci::seccomp::arch::{NATIVE, OWN};

fn error(text: &str) -> String {
    let error = match Profile::parse(text) {
        Ok(profile) => profile.program(around(&[])).unwrap_err(),
        Err(error) => error,
    };
    crate::error::chain(&error)
}

#[test]
fn architectures_that_are_not_listed_are_killed() {
    let (own, _) = OWN;
    let calls = r#""syscalls": [{"names": ["read"], "action": "SCMP_ACT_ALLOW"}]"#;
    let head = r#"{"defaultAction": "SCMP_ACT_ERRNO""#;
    let family = NATIVE;
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
