use super::*;

/// C-62
#[test]
fn both_spellings_are_one_name() {
    for (written, normal, path_) in [
        ("kernel.sem", "kernel.sem", "kernel/sem"),
        (
            "kernel/shm_rmid_forced",
            "kernel.shm_rmid_forced",
            "kernel/shm_rmid_forced",
        ),
        (
            "net/ipv4/conf/eno2.100/rp_filter",
            "net.ipv4.conf.eno2/100.rp_filter",
            "net/ipv4/conf/eno2.100/rp_filter",
        ),
        (
            "net.ipv4.conf.eno2/100.rp_filter",
            "net.ipv4.conf.eno2/100.rp_filter",
            "net/ipv4/conf/eno2.100/rp_filter",
        ),
    ] {
        assert_eq!(normalise(written), normal);
        assert_eq!(path(normal), path_);
    }
}

/// S-130
#[test]
fn a_name_cannot_leave_its_directory() {
    for good in ["a", "a.b", "net.ipv4.tcp_rmem", "net/ipv4/conf/eth0.1/x-y"] {
        assert!(is_valid_name(good), "{good}");
    }
    let long = "a".repeat(254);
    for bad in [
        "", ".", "a.", ".a", "a..b", "net.//.x", "a/../b", "A.b", "a.-b", "a b", &long,
    ] {
        assert!(!is_valid_name(bad), "{bad}");
    }
}

/// C-60, C-61
#[test]
fn what_is_allowed() {
    let patterns = ["net.core.somaxconn", "kernel.msg*", "vm.*"].map(str::to_owned);
    for allowed in [
        "net.ipv4.tcp_syncookies",
        "kernel.shm_rmid_forced",
        "net.core.somaxconn",
        "kernel.msgmax",
    ] {
        assert!(is_allowed(allowed, &patterns), "{allowed}");
    }
    for forbidden in [
        "net.core.somaxconn2",
        "kernel.shmmax",
        // The node's, whatever a pattern says.
        "vm.swappiness",
    ] {
        assert!(!is_allowed(forbidden, &patterns), "{forbidden}");
    }
}

/// C-61
#[test]
fn patterns_are_of_namespaces_only() {
    for (text, normal) in [
        ("kernel.shm*", "kernel.shm*"),
        ("kernel.shm_*", "kernel.shm_*"),
        ("net.*", "net.*"),
        ("net/ipv4/*", "net.ipv4.*"),
        ("kernel.sem", "kernel.sem"),
        ("fs.mqueue.*", "fs.mqueue.*"),
    ] {
        assert_eq!(pattern(text).as_deref(), Some(normal));
    }
    for bad in [
        "*",
        "",
        "kernel.*",
        "vm.swappiness",
        "net",
        "net.*.x",
        "fs.mqueue*",
    ] {
        assert_eq!(pattern(bad), None, "{bad}");
    }
}
