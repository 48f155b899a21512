//! The same on other machines: this test program again, in a mount namespace with other cgroup hierarchies.

use std::process::Command;

use crate::support::wait::can_run;

/// Set in the inner run.
const MARKER: &str = "VETCH_TEST_HIERARCHIES";

fn run_with(setup: &str) {
    if !can_run() || std::env::var_os(MARKER).is_some() {
        return;
    }
    // /proc/PID/cgroup still shows the hierarchies that are out of reach now.
    let tests = "exec:: manners:: stop --skip of_its_own_everywhere";
    let script = format!("{setup} || exit 77; exec \"$0\" --test-threads=2 {tests}");
    let output = Command::new("unshare")
        .args(["-m", "sh", "-c", &script])
        .arg(std::env::current_exe().unwrap())
        .env(MARKER, "1")
        .output()
        .unwrap();
    if output.status.code() == Some(77) {
        let why = String::from_utf8_lossy(&output.stderr);
        println!("SKIPPED: this machine cannot show such hierarchies: {why}");
        return;
    }
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}");
    assert!(text.contains("test exec::"), "{text}");
}

#[test]
fn v2_alone() {
    run_with("umount -R /sys/fs/cgroup && mount -t cgroup2 cgroup2 /sys/fs/cgroup");
}

#[test]
fn v1_alone() {
    run_with("umount /sys/fs/cgroup/unified");
}

#[test]
fn v1_alone_without_systemd() {
    run_with("umount /sys/fs/cgroup/unified && umount /sys/fs/cgroup/systemd");
}
