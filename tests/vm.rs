//! The built binary on stock Debian kernels with nothing but cgroup v2, in emulated machines.
//!
//! A machine boots once for all tests that ask for it, and runs groups of checks (`tests/vm/checks`). Each test here is one
//! group on one machine.

#![expect(
    clippy::print_stdout,
    reason = "what a machine said, and that it was skipped"
)]

#[expect(dead_code, reason = "the harness has more than is needed here")]
mod support;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// A machine, how it is started and what it says.
struct Machine {
    name: &'static str,
    processor: Processor,
    /// None: Debian with systemd, and the group of that name.
    groups: Option<&'static str>,
    kernel_parameters: &'static str,
    console: OnceLock<Result<String, String>>,
}

#[derive(Clone, Copy)]
enum Processor {
    Amd64,
    Arm64,
}

static AMD64: Machine = Machine {
    name: "amd64",
    processor: Processor::Amd64,
    groups: Some("pods devices limits oom volumes sharing apparmor end"),
    kernel_parameters: "",
    console: OnceLock::new(),
};

static ARM64: Machine = Machine {
    name: "arm64",
    processor: Processor::Arm64,
    groups: Some("pods devices limits end"),
    kernel_parameters: "",
    console: OnceLock::new(),
};

/// As a Raspberry Pi comes.
static NO_MEMORY: Machine = Machine {
    name: "amd64 without memory controller and AppArmor",
    processor: Processor::Amd64,
    groups: Some("lack end"),
    kernel_parameters: "cgroup_disable=memory apparmor=0",
    console: OnceLock::new(),
};

static SYSTEMD: Machine = Machine {
    name: "amd64 with systemd",
    processor: Processor::Amd64,
    groups: None,
    kernel_parameters: "",
    console: OnceLock::new(),
};

impl Machine {
    /// The group's checks went well, each of them, and there was one.
    fn passes(&self, group: &str) {
        let console = match self.console.get_or_init(|| self.boot()) {
            Ok(console) => console,
            Err(reason) => {
                println!("SKIPPED: machine with cgroup v2 ({}): {reason}", self.name);
                return;
            }
        };
        let mut passed = 0;
        let mut failed = false;
        let mut lines = console.lines().peekable();
        while let Some(line) = lines.next() {
            let Some((outcome, check)) = line.split_once(&format!(" {group}: ")) else {
                continue;
            };
            match outcome {
                "OK" => passed += 1,
                "FAIL" => failed = true,
                "SKIPPED" => {
                    println!("SKIPPED: machine with cgroup v2 ({}): {check}", self.name);
                    continue;
                }
                _ => continue,
            }
            println!("{line}");
            while let Some(detail) = lines.next_if(|line| line.starts_with("    ")) {
                println!("{detail}");
            }
        }
        if failed || passed == 0 || !console.contains("\nALL-DONE") {
            println!("the machine's whole console:\n{console}");
        }
        assert!(
            console.contains("\nALL-DONE"),
            "it ended before its checks did"
        );
        assert!(!failed, "a check failed");
        assert!(passed > 0, "there were no checks of {group}");
    }

    fn boot(&self) -> Result<String, String> {
        let binary = self.prepare()?;
        let mut command = match self.groups {
            Some(groups) => {
                let mut command = Command::new(script("boot"));
                command.arg(self.processor.name()).arg(binary);
                command.args([groups, self.kernel_parameters]);
                command
            }
            None => {
                let mut command = Command::new(script("systemd"));
                command.arg(binary);
                command
            }
        };
        run(&mut command)
    }

    /// The binary for this machine.
    fn prepare(&self) -> Result<PathBuf, String> {
        if cfg!(not(target_arch = "x86_64")) {
            return Err("made for x86_64 hosts".to_owned());
        }
        let programs = ["cpio", "depmod", "xz", "strip", "apt-get"];
        let emulator = match self.processor {
            Processor::Amd64 => "qemu-system-x86_64",
            Processor::Arm64 => "qemu-system-aarch64",
        };
        let debian: &[&str] = match self.groups {
            Some(_) => &[],
            None => &["mmdebstrap", "mke2fs"],
        };
        let mut needed = programs.iter().chain([&emulator]).chain(debian);
        if let Some(name) = needed.find(|name| !is_installed(name)) {
            return Err(format!("{name} is not installed"));
        }
        match self.processor {
            Processor::Amd64 => Ok(PathBuf::from(env!("CARGO_BIN_EXE_vetch"))),
            Processor::Arm64 => {
                let said = run(&mut Command::new(script("cross")))?;
                let binary = PathBuf::from(said.lines().last().unwrap_or_default());
                assert!(binary.is_file(), "it was not built: {said}");
                Ok(binary)
            }
        }
    }
}

impl Processor {
    fn name(self) -> &'static str {
        match self {
            Self::Amd64 => "amd64",
            Self::Arm64 => "arm64",
        }
    }
}

/// What a script says. An error is the reason for which it has to be skipped.
fn run(command: &mut Command) -> Result<String, String> {
    let output = command.output().expect("run a script of tests/vm");
    let text = String::from_utf8_lossy(&output.stdout).replace('\r', "");
    match output.status.code() {
        Some(0) => Ok(text),
        Some(77) => Err(reason(&text)),
        _ => Ok(text + &String::from_utf8_lossy(&output.stderr)),
    }
}

fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/vm")
        .join(name)
}

/// The last line of what a script said, without its mark.
fn reason(text: &str) -> String {
    let last = text.lines().last().unwrap_or("no reason was given");
    last.trim_start_matches("SKIPPED: ").to_owned()
}

fn is_installed(name: &str) -> bool {
    let path = std::env::var("PATH").unwrap_or_default() + ":/usr/sbin:/sbin";
    path.split(':')
        .any(|dir| Path::new(dir).join(name).exists())
}

/// P-100: the life of pods.
#[test]
fn pods_run_on_cgroup_v2() {
    AMD64.passes("pods");
}

/// C-40, C-43, C-49, D-16
#[test]
fn device_rules_hold_on_cgroup_v2() {
    AMD64.passes("devices");
}

/// C-70…C-77, C-85…C-90
#[test]
fn limits_hold_on_cgroup_v2() {
    AMD64.passes("limits");
}

/// C-74, and only one process of it where the pod asks for that.
#[test]
fn out_of_memory_ends_a_container_as_a_whole_on_cgroup_v2() {
    AMD64.passes("oom");
}

/// V-13
#[test]
fn volumes_in_memory_are_bounded_on_cgroup_v2() {
    AMD64.passes("volumes");
}

#[test]
fn containers_share_a_pid_namespace_on_cgroup_v2() {
    AMD64.passes("sharing");
}

/// C-54, C-55
#[test]
fn apparmor_profiles_hold() {
    AMD64.passes("apparmor");
}

#[test]
fn nothing_outlives_its_pods_on_cgroup_v2() {
    AMD64.passes("end");
}

/// C-40, C-43, C-49, D-16
#[test]
fn device_rules_hold_on_arm64() {
    ARM64.passes("devices");
}

#[test]
fn pods_run_on_arm64() {
    ARM64.passes("pods");
    ARM64.passes("end");
}

/// C-70…C-77
#[test]
fn limits_hold_on_arm64() {
    ARM64.passes("limits");
}

/// C-54, C-73
#[test]
fn without_a_memory_controller_pods_run_and_the_node_says_what_to_do() {
    if has_time() {
        NO_MEMORY.passes("lack");
    }
}

#[test]
fn the_cgroup_tree_survives_systemd() {
    if has_time() {
        SYSTEMD.passes("systemd");
    }
}

fn has_time() -> bool {
    if !support::wait::is_full() {
        println!("SKIPPED: a second machine of one architecture: only with tests/run --full");
    }
    support::wait::is_full()
}
