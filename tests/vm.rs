//! The built binary on a stock Debian kernel with nothing but cgroup v2, in an emulated machine.

#[expect(dead_code, reason = "the harness has more than is needed here")]
mod support;

use std::path::Path;
use std::process::Command;

const PROGRAMS: [&str; 6] = [
    "qemu-system-x86_64",
    "cpio",
    "depmod",
    "xz",
    "strip",
    "busybox",
];

fn missing_program() -> Option<&'static str> {
    let path = std::env::var("PATH").unwrap_or_default() + ":/usr/sbin:/sbin";
    let found = |name: &str| {
        path.split(':')
            .any(|dir| Path::new(dir).join(name).exists())
    };
    PROGRAMS.into_iter().find(|name| !found(name))
}

#[test]
fn pods_run_on_cgroup_v2() {
    if cfg!(not(target_arch = "x86_64")) {
        println!("SKIPPED: machine with cgroup v2: made for x86_64 hosts");
        return;
    }
    if let Some(name) = missing_program() {
        println!("SKIPPED: machine with cgroup v2: {name} is not installed");
        return;
    }
    let dir = tempfile::tempdir().expect("make a temporary directory");
    let image = support::images::busybox_archive(dir.path());
    let boot = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vm/boot");
    let output = Command::new(boot)
        .arg(env!("CARGO_BIN_EXE_vetch"))
        .arg(image)
        .output()
        .expect("run tests/vm/boot");
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    println!("{text}");
    assert!(
        matches!(output.status.code(), Some(0 | 77)),
        "a check failed"
    );
}
