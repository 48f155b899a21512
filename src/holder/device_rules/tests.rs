//! The kernel decides as the list says. Hybrid machines have a v2 hierarchy, too, which is enough for that.

use std::path::{Path, PathBuf};
use std::process::Command;

use oci_spec::runtime::{LinuxDeviceCgroup, LinuxDeviceCgroupBuilder, LinuxDeviceType};

use super::{are_enforceable, attach};
use crate::holder::cgroup::Cgroups;

/// A cgroup of our own in the v2 hierarchy.
struct Group(PathBuf);

impl Group {
    fn new(name: &str) -> Option<Self> {
        let skip = |reason: &str| println!("SKIPPED: device programs: {reason}");
        if !rustix::process::geteuid().is_root() {
            skip("not root");
            return None;
        }
        let path = format!("/vetch-test-{}-{name}", std::process::id());
        let Some(dir) = Cgroups::discover().ok().and_then(|c| c.unified_dir(&path)) else {
            skip("no cgroup v2");
            return None;
        };
        if let Err(error) = are_enforceable() {
            skip(&format!("the kernel takes none: {error}"));
            return None;
        }
        std::fs::create_dir(&dir).unwrap();
        Some(Self(dir))
    }

    /// Whether a shell in the cgroup can open it.
    fn opens(&self, redirection: &str, device: &Path) -> bool {
        let status = Command::new("sh")
            .arg("-c")
            .arg(format!(
                r#"echo $$ >"$1/cgroup.procs" || exit 9; : {redirection}"$2""#
            ))
            .args(["sh".as_ref(), self.0.as_os_str(), device.as_os_str()])
            .stderr(std::process::Stdio::null())
            .status()
            .unwrap();
        assert_ne!(status.code(), Some(9), "the shell could not join");
        status.success()
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        std::fs::remove_dir(&self.0).unwrap();
    }
}

fn rule(allow: bool, typ: LinuxDeviceType, access: &str) -> LinuxDeviceCgroup {
    let rule = LinuxDeviceCgroupBuilder::default();
    rule.allow(allow).typ(typ).access(access).build().unwrap()
}

/// /dev/kmsg, made here: whether the machine has it does not matter.
fn log_node(dir: &Path) -> PathBuf {
    let node = dir.join("kmsg");
    let device = rustix::fs::makedev(1, 11);
    let kind = rustix::fs::FileType::CharacterDevice;
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    rustix::fs::mknodat(rustix::fs::CWD, &node, kind, mode, device).unwrap();
    node
}

/// C-49
#[test]
fn a_denied_device_cannot_be_opened_and_the_default_ones_can() {
    let Some(group) = Group::new("deny") else {
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let log = log_node(dir.path());
    assert!(group.opens("<", &log), "before the program is attached");
    attach(&group.0, &[rule(false, LinuxDeviceType::A, "rwm")]).unwrap();
    assert!(!group.opens("<", &log));
    assert!(!group.opens(">", &log));
    for device in ["/dev/null", "/dev/zero", "/dev/urandom"] {
        assert!(group.opens("<", Path::new(device)), "{device}");
    }
    assert!(group.opens("<", dir.path()), "what is no device");
}

/// D-16
#[test]
fn a_rule_allows_a_device_and_the_access_that_it_names() {
    let Some(group) = Group::new("allow") else {
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let log = log_node(dir.path());
    let mut readable = rule(true, LinuxDeviceType::C, "r");
    readable.set_major(Some(1)).set_minor(Some(11));
    attach(
        &group.0,
        &[rule(false, LinuxDeviceType::A, "rwm"), readable],
    )
    .unwrap();
    assert!(group.opens("<", &log));
    assert!(!group.opens(">", &log));
}

/// Far more than a node has devices.
#[test]
fn the_kernel_takes_long_lists() {
    let Some(group) = Group::new("long") else {
        return;
    };
    let mut rules = vec![rule(false, LinuxDeviceType::A, "rwm")];
    for number in 0..2000 {
        let accesses = ["r", "w", "m", "rw", "rm", "wm", "rwm"];
        let access = accesses[number % accesses.len()];
        let typ = [LinuxDeviceType::B, LinuxDeviceType::C][number % 2];
        let mut rule = rule(number % 3 != 0, typ, access);
        rule.set_major(Some(i64::try_from(number).unwrap() / 8))
            .set_minor((number % 5 != 0).then_some(1));
        rules.push(rule);
    }
    attach(&group.0, &rules).unwrap();
    assert!(group.opens("<", Path::new("/dev/null")));
}
