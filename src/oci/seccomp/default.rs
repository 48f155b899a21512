//! What a container may call. The choice is the one that Docker and containerd have made over the years.
//!
//! A name that an architecture lacks is simply not there; a name that is in no list here is refused.

use std::collections::HashMap;

use super::policy::{Action, Condition, ENOSYS, EPERM, Policy, Rule, Verdict};

/// CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID and NEWNET: new namespaces reach code in the kernel that was
/// written for root only.
const NEW_NAMESPACES: u32 = 0x7E02_0000;

/// AF_ALG and AF_VSOCK: the one has been a way into the kernel, the other goes to the hypervisor, and both know no
/// namespaces.
const BAD_FAMILIES: [u32; 2] = [38, 40];

/// PER_LINUX, PER_LINUX32, the two with UNAME26, and "tell me": others switch off protections.
const PLAIN_PERSONALITIES: [u32; 5] = [0x0, 0x8, 0x2_0000, 0x2_0008, 0xFFFF_FFFF];

/// Calls whose first argument decides; the kernel reads 32 bits of it. An unlocking capability (below) overrides.
fn checked() -> [(&'static str, Verdict); 3] {
    let on = |values: &[u32], action| {
        let conditions = values.iter().map(|v| Condition::low(0, u32::MAX, *v));
        let rules = conditions.map(|condition| Rule {
            conditions: vec![condition],
            action,
        });
        rules.collect::<Vec<_>>()
    };
    let no_new_namespaces = Rule {
        conditions: vec![Condition::low(0, NEW_NAMESPACES, 0)],
        action: Action::ALLOW,
    };
    let (allow, refuse) = (Action::ALLOW, Action::fail(EPERM));
    let verdict = |rules, otherwise| Verdict { rules, otherwise };
    [
        ("clone", verdict(vec![no_new_namespaces], refuse)),
        (
            "personality",
            verdict(on(&PLAIN_PERSONALITIES, allow), refuse),
        ),
        ("socket", verdict(on(&BAD_FAMILIES, refuse), allow)),
    ]
}

/// Calls that pretend to be missing. clone3 has its flags in memory, where a filter cannot look; C libraries fall back
/// to clone on ENOSYS, and on nothing else.
const PRETEND_MISSING: &[&str] = &["clone3"];

/// What a capability unlocks. The kernel checks the capability too; without it the call is not even reachable.
const UNLOCKED: &[(&str, &[&str])] = &[
    ("CAP_BPF", &["bpf"]),
    ("CAP_DAC_READ_SEARCH", &["open_by_handle_at"]),
    ("CAP_PERFMON", &["perf_event_open"]),
    (
        "CAP_SYS_ADMIN",
        &[
            "bpf",
            "clone",
            "clone3",
            "fanotify_init",
            "fsconfig",
            "fsmount",
            "fsopen",
            "fspick",
            "lookup_dcookie",
            "lsm_get_self_attr",
            "lsm_list_modules",
            "lsm_set_self_attr",
            "mount",
            "mount_setattr",
            "move_mount",
            "open_tree",
            "open_tree_attr",
            "perf_event_open",
            "quotactl",
            "quotactl_fd",
            "setdomainname",
            "sethostname",
            "setns",
            "syslog",
            "umount",
            "umount2",
            "unshare",
        ],
    ),
    ("CAP_SYS_BOOT", &["reboot"]),
    ("CAP_SYS_CHROOT", &["chroot"]),
    (
        "CAP_SYS_MODULE",
        &["delete_module", "finit_module", "init_module"],
    ),
    (
        "CAP_SYS_NICE",
        &[
            "get_mempolicy",
            "mbind",
            "set_mempolicy",
            "set_mempolicy_home_node",
        ],
    ),
    ("CAP_SYS_PACCT", &["acct"]),
    (
        "CAP_SYS_PTRACE",
        &["kcmp", "pidfd_getfd", "process_madvise"],
    ),
    ("CAP_SYS_RAWIO", &["ioperm", "iopl"]),
    (
        "CAP_SYS_TIME",
        &["clock_settime", "clock_settime64", "settimeofday", "stime"],
    ),
    ("CAP_SYS_TTY_CONFIG", &["vhangup"]),
    ("CAP_SYSLOG", &["syslog"]),
];

/// What everybody may call, as words, by subject. Notably absent, because of what has been found in them or because
/// they know no namespaces: io_uring_*, userfaultfd, keyctl and its kin, kexec_*, swapon, pivot_root, nfsservctl,
/// uselib, vm86, move_pages.
const ALLOWED: &[&str] = &[
    // Files and directories.
    "_llseek access cachestat chdir chmod chown chown32 close close_range copy_file_range creat dup dup2 dup3",
    "faccessat faccessat2 fadvise64 fadvise64_64 arm_fadvise64_64 fallocate fchdir fchmod fchmodat fchmodat2 fchown",
    "fchown32 fchownat fcntl fcntl64 fdatasync file_getattr file_setattr flock fstat fstat64 fstatat fstatat64 fstatfs",
    "fstatfs64 fsync ftruncate ftruncate64 futimesat getcwd getdents getdents64 ioctl lchown lchown32 link linkat listmount lseek",
    "lstat lstat64 mkdir mkdirat mknod mknodat name_to_handle_at newfstatat open openat openat2 pread64 preadv preadv2",
    "pwrite64 pwritev pwritev2 read readahead readdir readlink readlinkat readv rename renameat renameat2 rmdir",
    "sendfile sendfile64 splice stat stat64 statmount statfs statfs64 statx symlink symlinkat sync sync_file_range",
    "arm_sync_file_range syncfs tee truncate truncate64 umask unlink unlinkat utime utimensat utimensat_time64 utimes",
    "vmsplice write writev",
    // Extended attributes.
    "fgetxattr flistxattr fremovexattr fsetxattr getxattr getxattrat lgetxattr listxattr listxattrat llistxattr",
    "lremovexattr lsetxattr removexattr removexattrat setxattr setxattrat",
    // Waiting for files.
    "_newselect epoll_create epoll_create1 epoll_ctl epoll_pwait epoll_pwait2 epoll_wait eventfd eventfd2 fanotify_mark",
    "inotify_add_watch inotify_init inotify_init1 inotify_rm_watch poll ppoll ppoll_time64 pselect6 pselect6_time64",
    "select signalfd signalfd4 timerfd_create timerfd_gettime timerfd_gettime64 timerfd_settime timerfd_settime64",
    // Asynchronous input and output, the old way.
    "io_cancel io_destroy io_getevents io_pgetevents io_pgetevents_time64 io_setup io_submit",
    // Memory.
    "brk madvise map_shadow_stack membarrier memfd_create memfd_secret mincore mlock mlock2 mlockall mmap mmap2 mprotect",
    "mremap mseal msync munlock munlockall munmap pkey_alloc pkey_free pkey_mprotect process_mrelease remap_file_pages",
    // Sockets and pipes. `socket` itself is checked.
    "accept accept4 bind connect getpeername getsockname getsockopt listen pipe pipe2 recv recvfrom recvmmsg",
    "recvmmsg_time64 recvmsg send sendmmsg sendmsg sendto setsockopt shutdown socketcall socketpair",
    // Messages, semaphores and shared memory.
    "ipc mq_getsetattr mq_notify mq_open mq_timedreceive mq_timedreceive_time64 mq_timedsend mq_timedsend_time64",
    "mq_unlink msgctl msgget msgrcv msgsnd semctl semget semop semtimedop semtimedop_time64 shmat shmctl shmdt shmget",
    // Processes and threads. `clone` is checked. Tracing and reading another process is safe since 4.8.
    "execve execveat exit exit_group fork futex futex_requeue futex_time64 futex_wait futex_waitv futex_wake",
    "get_robust_list get_thread_area getcpu getpgid getpgrp getpid getppid getsid gettid pidfd_open pidfd_send_signal",
    "prctl process_vm_readv process_vm_writev ptrace restart_syscall rseq set_robust_list set_thread_area",
    "set_tid_address setpgid setsid uprobe uretprobe vfork wait4 waitid waitpid",
    // Users, groups, capabilities, and giving up rights.
    "capget capset getegid getegid32 geteuid geteuid32 getgid getgid32 getgroups getgroups32 getresgid getresgid32",
    "getresuid getresuid32 getuid getuid32 landlock_add_rule landlock_create_ruleset landlock_restrict_self",
    "seccomp setfsgid setfsgid32 setfsuid setfsuid32 setgid",
    "setgid32 setgroups setgroups32 setregid setregid32 setresgid setresgid32 setresuid setresuid32 setreuid",
    "setreuid32 setuid setuid32",
    // Signals.
    "kill pause rt_sigaction rt_sigpending rt_sigprocmask rt_sigqueueinfo rt_sigreturn rt_sigsuspend rt_sigtimedwait",
    "rt_sigtimedwait_time64 rt_tgsigqueueinfo sigaction sigaltstack signal sigpending sigprocmask sigreturn sigsuspend",
    "tgkill tkill",
    // Time. Reading the clock's parameters goes by adjtimex; the kernel refuses changes without SYS_TIME.
    "adjtimex alarm clock_adjtime clock_adjtime64 clock_getres clock_getres_time64 clock_gettime clock_gettime64",
    "clock_nanosleep clock_nanosleep_time64 getitimer gettimeofday nanosleep setitimer time timer_create timer_delete",
    "timer_getoverrun timer_gettime timer_gettime64 timer_settime timer_settime64 times",
    // Scheduling and limits.
    "getpriority getrlimit getrusage ioprio_get ioprio_set nice prlimit64 sched_get_priority_max sched_get_priority_min",
    "sched_getaffinity sched_getattr sched_getparam sched_getscheduler sched_rr_get_interval",
    "sched_rr_get_interval_time64 sched_setaffinity sched_setattr sched_setparam sched_setscheduler sched_yield",
    "setpriority setrlimit ugetrlimit",
    // The machine.
    "getrandom olduname oldolduname sysinfo uname",
    // One architecture's own.
    "arch_prctl breakpoint cacheflush get_tls modify_ldt riscv_flush_icache riscv_hwprobe set_tls",
];

/// C-53.
pub fn policy(capabilities: &[String]) -> Policy<'static> {
    let allowed = ALLOWED.iter().flat_map(|words| words.split(' '));
    let mut verdicts: HashMap<&'static str, Verdict> =
        allowed.map(|name| (name, Action::ALLOW.into())).collect();
    verdicts.extend(checked());
    let missing = PRETEND_MISSING.iter();
    verdicts.extend(missing.map(|name| (*name, Action::fail(ENOSYS).into())));
    for (capability, names) in UNLOCKED {
        if capabilities.iter().any(|has| has == capability) {
            verdicts.extend(names.iter().map(|name| (*name, Action::ALLOW.into())));
        }
    }
    Policy {
        verdicts,
        other: Action::fail(EPERM),
        newer: Action::fail(ENOSYS),
    }
}

/// Every name in the tables, for tests.
#[cfg(test)]
pub fn all_names() -> Vec<&'static str> {
    let allowed = ALLOWED.iter().flat_map(|words| words.split(' '));
    let unlocked = UNLOCKED.iter().flat_map(|(_, names)| names.iter().copied());
    let checked = checked().map(|(name, _)| name);
    allowed
        .chain(unlocked)
        .chain(checked)
        .chain(PRETEND_MISSING.iter().copied())
        .collect()
}
