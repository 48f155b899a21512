//! Names of the kernel's capabilities, for what a manifest says about them.

use super::suggest::nearest;

/// All that the oldest kernel we run on (5.12) knows, without `CAP_`; newer ones have added none.
pub const NAMES: [&str; 41] = [
    "AUDIT_CONTROL",
    "AUDIT_READ",
    "AUDIT_WRITE",
    "BLOCK_SUSPEND",
    "BPF",
    "CHECKPOINT_RESTORE",
    "CHOWN",
    "DAC_OVERRIDE",
    "DAC_READ_SEARCH",
    "FOWNER",
    "FSETID",
    "IPC_LOCK",
    "IPC_OWNER",
    "KILL",
    "LEASE",
    "LINUX_IMMUTABLE",
    "MAC_ADMIN",
    "MAC_OVERRIDE",
    "MKNOD",
    "NET_ADMIN",
    "NET_BIND_SERVICE",
    "NET_BROADCAST",
    "NET_RAW",
    "PERFMON",
    "SETFCAP",
    "SETGID",
    "SETPCAP",
    "SETUID",
    "SYSLOG",
    "SYS_ADMIN",
    "SYS_BOOT",
    "SYS_CHROOT",
    "SYS_MODULE",
    "SYS_NICE",
    "SYS_PACCT",
    "SYS_PTRACE",
    "SYS_RAWIO",
    "SYS_RESOURCE",
    "SYS_TIME",
    "SYS_TTY_CONFIG",
    "WAKE_ALARM",
];

/// C-41: names count in any case, with and without `CAP_`, and `ALL` is one.
pub fn is_known(written: &str) -> bool {
    let name = bare(written);
    name == "ALL" || NAMES.contains(&name.as_str())
}

/// `"NET_ADMN" is no capability (did you mean NET_ADMIN?)`
pub fn unknown(written: &str) -> String {
    let hint = nearest(&bare(written), &NAMES);
    let hint = hint.map_or_else(String::new, |name| format!(" (did you mean {name}?)"));
    format!("{written:?} is no capability{hint}")
}

fn bare(written: &str) -> String {
    let upper = written.to_ascii_uppercase();
    upper.strip_prefix("CAP_").unwrap_or(&upper).to_owned()
}
