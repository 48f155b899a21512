mod interpreter;
mod profile;

use std::collections::HashSet;

use proptest::prelude::*;

use interpreter::{Call, run};

use super::arch::{Arch, FAMILIES};
use super::default::{self, all_names};
use super::policy::{ENOSYS, EPERM};
use super::{Instruction, MAX_INSTRUCTIONS, default_program};

const ALLOW: u32 = 0x7FFF_0000;
const KILL_PROCESS: u32 = 0x8000_0000;
const X86_64: u32 = 0xC000_003E;
const I386: u32 = 0x4000_0003;
const AARCH64: u32 = 0xC000_00B7;
const ARM: u32 = 0x4000_0028;

fn failed(errno: u16) -> u32 {
    0x0005_0000 | u32::from(errno)
}

fn program(family: &[Arch], capabilities: &[String]) -> Vec<Instruction> {
    let family: Vec<&Arch> = family.iter().collect();
    super::program(&family, &default::policy(capabilities))
}

fn caps(names: &[&str]) -> Vec<String> {
    names.iter().map(|&name| name.to_owned()).collect()
}

fn arch_of(id: u32) -> (&'static [Arch], &'static Arch) {
    let families = FAMILIES.into_iter();
    let mut all = families.flat_map(|family| family.iter().map(move |arch| (family, arch)));
    all.find(|(_, arch)| arch.audit_id == id).unwrap()
}

fn number(arch: u32, name: &str) -> u32 {
    let calls = (arch_of(arch).1.calls)();
    let found = calls.into_iter().find(|(_, known)| *known == name);
    found.unwrap_or_else(|| panic!("{arch:#x} has no {name}")).0
}

/// The verdict on a call by name.
fn ask(arch: u32, name: &str, args: &[u64], capabilities: &[&str]) -> u32 {
    let mut all = [0; 6];
    all[..args.len()].copy_from_slice(args);
    let program = program(arch_of(arch).0, &caps(capabilities));
    run(
        &program,
        Call {
            arch,
            number: number(arch, name),
            args: all,
        },
    )
}

/// C-53.
#[test]
fn everyday_calls_are_allowed_and_dangerous_ones_refused() {
    for arch in [X86_64, I386, AARCH64, ARM] {
        for name in [
            "read",
            "write",
            "execve",
            "exit_group",
            "futex",
            "ptrace",
            "mknodat",
            "prctl",
            "capset",
        ] {
            assert_eq!(ask(arch, name, &[], &[]), ALLOW, "{arch:#x} {name}");
        }
        for name in [
            "mount",
            "bpf",
            "keyctl",
            "unshare",
            "setns",
            "io_uring_setup",
            "kexec_load",
            "reboot",
            "chroot",
        ] {
            assert_eq!(ask(arch, name, &[], &[]), failed(EPERM), "{arch:#x} {name}");
        }
    }
}

/// Numbers from the kernel's own tables, not from the crate.
#[test]
fn numbers_are_the_kernels() {
    for (arch, number, verdict) in [
        (X86_64, 0, ALLOW),                 // read
        (X86_64, 165, failed(EPERM)),       // mount
        (X86_64, 469, ALLOW),               // file_setattr, the last one known
        (X86_64, 400, failed(ENOSYS)),      // in the gap before 424
        (I386, 102, ALLOW),                 // socketcall
        (I386, 117, ALLOW),                 // ipc
        (I386, 403, ALLOW),                 // clock_gettime64
        (I386, 21, failed(EPERM)),          // mount
        (AARCH64, 63, ALLOW),               // read
        (AARCH64, 40, failed(EPERM)),       // mount
        (ARM, 3, ALLOW),                    // read
        (ARM, 403, ALLOW),                  // clock_gettime64
        (ARM, 422, ALLOW),                  // futex_time64
        (ARM, 0x000F_0002, ALLOW),          // cacheflush
        (ARM, 0x000F_0005, ALLOW),          // set_tls
        (ARM, 0x000F_0003, failed(ENOSYS)), // usr26
    ] {
        let program = program(arch_of(arch).0, &[]);
        assert_eq!(
            run(
                &program,
                Call {
                    arch,
                    number,
                    args: [0; 6]
                }
            ),
            verdict,
            "{arch:#x} {number}"
        );
    }
}

/// C-53.
/// H3: what 32-bit C libraries call since the year 2038 was thought of.
#[test]
fn time64_calls_work_on_32_bit() {
    for arch in [I386, ARM] {
        let calls = (arch_of(arch).1.calls)();
        let time64 = calls
            .iter()
            .filter(|(number, _)| (403..=423).contains(number));
        let mut count = 0;
        for (_, name) in time64.filter(|(_, name)| *name != "clock_settime64") {
            assert_eq!(ask(arch, name, &[], &[]), ALLOW, "{name}");
            count += 1;
        }
        assert_eq!(count, 19);
    }
}

/// H4: what MariaDB and .NET could not do under youki's profile.
#[test]
fn timers_and_barriers_work() {
    for name in [
        "timer_create",
        "timer_settime",
        "timer_gettime",
        "timer_getoverrun",
        "timer_delete",
        "membarrier",
        "clock_getres",
    ] {
        for arch in [X86_64, I386, AARCH64, ARM] {
            assert_eq!(ask(arch, name, &[], &[]), ALLOW, "{name}");
        }
    }
}

#[test]
fn numbers_beyond_the_tables_are_missing_not_forbidden() {
    for family in FAMILIES {
        let program = program(family, &[]);
        for arch in family {
            for number in [470, 500, 0x3FFF_FFFF, 0x4000_0000, 0x4000_0001, u32::MAX] {
                let call = Call {
                    arch: arch.audit_id,
                    number,
                    args: [0; 6],
                };
                assert_eq!(run(&program, call), failed(ENOSYS), "{number:#x}");
            }
        }
    }
}

#[test]
fn foreign_architectures_are_killed() {
    for family in FAMILIES {
        let program = program(family, &[]);
        let own: Vec<u32> = family.iter().map(|arch| arch.audit_id).collect();
        for arch in [X86_64, I386, AARCH64, ARM, 0, u32::MAX]
            .into_iter()
            .filter(|arch| !own.contains(arch))
        {
            assert_eq!(
                run(
                    &program,
                    Call {
                        arch,
                        number: 0,
                        args: [0; 6]
                    }
                ),
                KILL_PROCESS
            );
        }
    }
}

#[test]
fn clone_makes_threads_and_processes_but_no_namespaces() {
    const SIGCHLD: u64 = 17;
    const THREAD: u64 = 0x003D_0F00;
    for arch in [X86_64, I386, AARCH64, ARM] {
        for flags in [0, SIGCHLD, THREAD, 0xFFFF_FFFF_0000_0011] {
            assert_eq!(ask(arch, "clone", &[flags], &[]), ALLOW, "{flags:#x}");
        }
        for bit in [17, 25, 26, 27, 28, 29, 30] {
            let flags = SIGCHLD | 1 << bit;
            assert_eq!(
                ask(arch, "clone", &[flags], &[]),
                failed(EPERM),
                "{flags:#x}"
            );
            assert_eq!(ask(arch, "clone", &[flags], &["CAP_SYS_ADMIN"]), ALLOW);
        }
        assert_eq!(ask(arch, "clone3", &[], &[]), failed(ENOSYS));
        assert_eq!(ask(arch, "clone3", &[], &["CAP_SYS_ADMIN"]), ALLOW);
    }
}

#[test]
fn personality_and_socket_look_at_their_first_argument() {
    for arch in [X86_64, I386, AARCH64, ARM] {
        for good in [0, 8, 0x2_0000, 0x2_0008, 0xFFFF_FFFF] {
            assert_eq!(ask(arch, "personality", &[good], &[]), ALLOW, "{good:#x}");
        }
        // ADDR_NO_RANDOMIZE, READ_IMPLIES_EXEC, PER_SVR4.
        for bad in [0x4_0000, 0x40_0000, 1, 9] {
            assert_eq!(
                ask(arch, "personality", &[bad], &["CAP_SYS_ADMIN"]),
                failed(EPERM),
                "{bad:#x}"
            );
        }
        for family in [1, 2, 10, 16, 17, 29, 39, 41] {
            assert_eq!(ask(arch, "socket", &[family], &[]), ALLOW, "{family}");
        }
        // AF_ALG and AF_VSOCK, also with bits in the half of the argument that the kernel does not read.
        for family in [38, 40, 0x1_0000_0028] {
            assert_eq!(
                ask(arch, "socket", &[family], &["CAP_SYS_ADMIN"]),
                failed(EPERM)
            );
        }
    }
}

/// C-53.
#[test]
fn capabilities_unlock_their_calls_and_no_others() {
    for (capability, name) in [
        ("CAP_BPF", "bpf"),
        ("CAP_DAC_READ_SEARCH", "open_by_handle_at"),
        ("CAP_PERFMON", "perf_event_open"),
        ("CAP_SYS_ADMIN", "mount"),
        ("CAP_SYS_BOOT", "reboot"),
        ("CAP_SYS_CHROOT", "chroot"),
        ("CAP_SYS_MODULE", "init_module"),
        ("CAP_SYS_NICE", "mbind"),
        ("CAP_SYS_PACCT", "acct"),
        ("CAP_SYS_PTRACE", "kcmp"),
        ("CAP_SYS_RAWIO", "iopl"),
        ("CAP_SYS_TIME", "clock_settime"),
        ("CAP_SYS_TTY_CONFIG", "vhangup"),
        ("CAP_SYSLOG", "syslog"),
    ] {
        assert_eq!(ask(X86_64, name, &[], &[]), failed(EPERM), "{name}");
        assert_eq!(ask(X86_64, name, &[], &[capability]), ALLOW, "{name}");
        assert_eq!(
            ask(X86_64, name, &[], &["CAP_CHOWN", "CAP_NET_ADMIN"]),
            failed(EPERM),
            "{name}"
        );
    }
}

/// Nothing unlocks these.
#[test]
fn some_calls_are_never_allowed() {
    let every: Vec<String> = super::super::security::all_capability_names();
    let every: Vec<&str> = every.iter().map(String::as_str).collect();
    for name in [
        "keyctl",
        "add_key",
        "request_key",
        "userfaultfd",
        "io_uring_setup",
        "kexec_load",
        "pivot_root",
        "swapon",
    ] {
        assert_eq!(ask(X86_64, name, &[], &every), failed(EPERM), "{name}");
    }
}

/// A typing error in a table would be a call that nobody can make.
#[test]
fn every_name_exists_somewhere_and_only_once() {
    let mut known: HashSet<&str> = HashSet::new();
    for arch in FAMILIES.into_iter().flatten() {
        known.extend((arch.calls)().into_iter().map(|(_, name)| name));
    }
    for name in all_names() {
        assert!(known.contains(name), "{name:?} is on no architecture");
    }
    let mut allowed: Vec<&str> = all_names();
    allowed.truncate(allowed.iter().position(|name| *name == "bpf").unwrap());
    let unique: HashSet<&str> = allowed.iter().copied().collect();
    assert_eq!(unique.len(), allowed.len());
}

#[test]
fn programs_fit_the_kernel_and_are_the_same_every_time() {
    let all = super::super::security::all_capability_names();
    for family in FAMILIES {
        for capabilities in [&[] as &[String], &all] {
            let first = program(family, capabilities);
            assert!(first.len() <= MAX_INSTRUCTIONS / 4, "{}", first.len());
            assert_eq!(first, program(family, capabilities));
            assert_jumps_stay_inside(&first);
        }
    }
    assert!(!default_program(&[]).is_empty());
}

/// What the kernel checks when it loads a program.
fn assert_jumps_stay_inside(program: &[Instruction]) {
    for (at, instruction) in program.iter().enumerate() {
        let left = program.len() - at - 1;
        match instruction.code {
            0x05 => assert!(usize::try_from(instruction.k).unwrap() < left),
            0x15 | 0x25 | 0x35 => {
                assert!(usize::from(instruction.jt.max(instruction.jf)) < left);
            }
            0x06 | 0x20 | 0x54 => {}
            code => panic!("unexpected operation {code:#x}"),
        }
    }
    assert_eq!(program.last().unwrap().code, 0x06);
}

proptest! {
    /// The tree says of every number what a plain look into the tables says.
    #[test]
    fn the_tree_agrees_with_the_tables(number in prop_oneof![0_u32..600, any::<u32>()], family in 0_usize..3) {
        let family = FAMILIES[family];
        let program = program(family, &[]);
        let verdicts = default::policy(&[]).verdicts;
        for arch in family {
            let name = (arch.calls)().into_iter().find(|(known, _)| *known == number).map(|(_, name)| name);
            let expected = match name.map(|name| verdicts.get(name)) {
                None => failed(ENOSYS),
                Some(None) => failed(EPERM),
                // With all arguments 0 every condition passes, and none is for equality with a bad value.
                Some(Some(verdict)) => {
                    let rules = verdict.rules.iter().filter(|rule| rule.conditions[0].value == 0);
                    rules.map(|rule| rule.action).next().unwrap_or(verdict.otherwise).0
                }
            };
            let call = Call { arch: arch.audit_id, number, args: [0; 6] };
            prop_assert_eq!(run(&program, call), expected);
        }
    }
}
