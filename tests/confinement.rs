//! What a container really may do: specifications of `oci` in the real kernel, through the real holder and libcontainer.

#[expect(dead_code, reason = "the harness has more than is needed here")]
mod support;

use std::collections::HashMap;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

use support::sandbox::Sandbox;
use support::wait::can_run;

/// Runs a script in a container with this `securityContext` and gives what it printed, line by line.
fn run(context: &str, script: &str) -> Vec<String> {
    let spec = format!(
        "  containers:\n  - name: c\n    image: busybox\n    securityContext: {{{context}}}\n    command: [/bin/sh, -c, {script:?}]"
    );
    let sandbox = Sandbox::start(&spec);
    let id = sandbox.run("c");
    let exit = sandbox.exit(&id);
    assert_eq!(exit.code, 0, "{:?}", sandbox.log(&id));
    sandbox.log(&id).lines().map(str::to_owned).collect()
}

/// The fields of /proc/self/status in a container.
fn status(context: &str) -> HashMap<String, String> {
    let lines = run(context, "cat /proc/self/status");
    fields(lines.iter().map(String::as_str))
}

fn fields<'a>(lines: impl Iterator<Item = &'a str>) -> HashMap<String, String> {
    lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_owned(), value.trim().to_owned()))
        .collect()
}

/// Docker's fourteen, with MKNOD where the kernel guards devices (C-40).
fn default_caps() -> &'static str {
    if Path::new("/sys/fs/cgroup/devices").is_dir() {
        "00000000a80425fb"
    } else {
        "00000000a00425fb"
    }
}

const NO_CAPS: &str = "0000000000000000";

#[test]
fn root_has_the_default_capabilities_and_the_filter() {
    if !can_run() {
        return;
    }
    let status = status("");
    for set in ["CapPrm", "CapEff", "CapBnd"] {
        assert_eq!(status[set], default_caps(), "{set}");
    }
    for set in ["CapInh", "CapAmb"] {
        assert_eq!(status[set], NO_CAPS, "{set}");
    }
    assert_eq!(status["Seccomp"], "2");
    assert_eq!(status["NoNewPrivs"], "0");
    assert_eq!(status["Groups"], "0");
}

/// C-30, C-31, C-42, C-44.
#[test]
fn a_user_has_no_capabilities_and_the_filter_too() {
    if !can_run() {
        return;
    }
    for escalation in ["", ", allowPrivilegeEscalation: false"] {
        let status = status(&format!("runAsUser: 1000, runAsGroup: 2000{escalation}"));
        assert_eq!(status["Uid"], "1000\t1000\t1000\t1000");
        assert_eq!(status["Gid"], "2000\t2000\t2000\t2000");
        assert_eq!(status["Groups"], "2000");
        assert_eq!(status["CapPrm"], NO_CAPS);
        assert_eq!(status["CapEff"], NO_CAPS);
        assert_eq!(status["Seccomp"], "2");
        assert_eq!(
            status["NoNewPrivs"],
            if escalation.is_empty() { "0" } else { "1" }
        );
    }
}

/// C-41.
#[test]
fn everything_can_be_dropped() {
    if !can_run() {
        return;
    }
    for escalation in ["", ", allowPrivilegeEscalation: false"] {
        let status = status(&format!("capabilities: {{drop: [ALL]}}{escalation}"));
        for set in ["CapPrm", "CapEff", "CapBnd"] {
            assert_eq!(status[set], NO_CAPS, "{set}{escalation}");
        }
        assert_eq!(status["Seccomp"], "2");
    }
}

#[test]
fn privileged_has_what_the_agent_has() {
    if !can_run() {
        return;
    }
    let own = std::fs::read_to_string("/proc/self/status").unwrap();
    let own = own
        .lines()
        .find_map(|line| line.strip_prefix("CapBnd:"))
        .unwrap()
        .trim();
    let status = status("privileged: true");
    assert_eq!(status["CapEff"], own);
    assert_eq!(status["Seccomp"], "0");
}

/// C-43: the nodes of the host are there, and can be used. /dev/kmsg is one that no other container has.
#[test]
fn privileged_has_the_devices_of_the_node() {
    if !can_run() {
        return;
    }
    let listing =
        "ls -l /dev/kmsg /dev/null; test -c /dev/kmsg && : < /dev/kmsg && echo opened; ls /dev";
    let lines = run("privileged: true", listing);
    let mut own: Vec<String> = std::fs::read_dir("/dev")
        .unwrap()
        .map(|entry| entry.unwrap())
        .filter(|entry| {
            let kind = entry.file_type().unwrap();
            kind.is_char_device() || kind.is_block_device()
        })
        .map(|entry| entry.file_name().into_string().unwrap())
        .filter(|name| name != "console")
        .collect();
    own.sort();
    for name in own {
        assert!(lines.contains(&name), "{name} of {lines:?}");
    }
    if Path::new("/dev/kmsg").exists() {
        assert!(lines.contains(&"opened".to_owned()), "{lines:?}");
        let lines = run("", "test -e /dev/kmsg || echo none");
        assert_eq!(lines, ["none"]);
    } else {
        println!("SKIPPED: a device that only privileged containers have: there is no /dev/kmsg");
    }
}

/// C-49: with the right to make nodes, the kernel still says which devices can be used.
#[test]
fn a_device_node_of_ones_own_making_cannot_be_opened() {
    if !can_run() {
        return;
    }
    if default_caps() == "00000000a00425fb" {
        println!("SKIPPED: rules for devices: this machine has no devices cgroup of version 1");
        return;
    }
    // 1:11 is /dev/kmsg, 1:5 /dev/zero.
    let script = "busybox mknod /tmp/kmsg c 1 11 && echo made; (: < /tmp/kmsg) 2>&1; \
                  busybox mknod /tmp/zero c 1 5 && : < /tmp/zero && echo zero";
    let lines = run("", script);
    assert_eq!(lines.first().map(String::as_str), Some("made"));
    assert!(lines[1].contains("Operation not permitted"), "{lines:?}");
    assert_eq!(lines.last().map(String::as_str), Some("zero"));
}

/// C-46, C-47.
#[test]
fn what_is_masked_and_read_only() {
    if !can_run() {
        return;
    }
    // `touch` on a read-only file system and `cat` of a masked file.
    let lines = run(
        "",
        "cat /proc/keys /proc/timer_list /proc/interrupts | head -c 1; \
         ls /sys/firmware; \
         echo 1 > /proc/sys/kernel/panic || echo sysctl; \
         touch /sys/x || echo sys; \
         mount -t tmpfs none /tmp || echo mount; \
         touch /tmp/x && echo root",
    );
    let said = |word: &str| lines.iter().any(|line| line == word);
    assert!(
        said("sysctl") && said("sys") && said("mount") && said("root"),
        "{lines:?}"
    );
    assert!(
        lines.iter().all(|line| !line.contains("timer_list")),
        "{lines:?}"
    );
}

/// C-45.
#[test]
fn a_read_only_root_is_read_only_but_for_the_mounts() {
    if !can_run() {
        return;
    }
    let lines = run(
        "readOnlyRootFilesystem: true",
        "touch /x || echo root; touch /dev/shm/x && echo shm; echo bye > /dev/termination-log && echo message",
    );
    let said: Vec<&str> = lines
        .iter()
        .map(String::as_str)
        .filter(|line| !line.contains(' '))
        .collect();
    assert_eq!(said, ["root", "shm", "message"]);
}

/// C-65, C-66.
#[test]
fn fixed_mounts_are_what_they_should_be() {
    if !can_run() {
        return;
    }
    let lines = run("", "cat /proc/self/mounts");
    let mounts: HashMap<&str, (&str, &str)> = lines
        .iter()
        .filter_map(|line| {
            let mut words = line.split(' ').skip(1);
            Some((words.next()?, (words.next()?, words.next()?)))
        })
        .collect();
    for (target, kind, option) in [
        ("/proc", "proc", "nosuid"),
        ("/dev", "tmpfs", "size=65536k"),
        ("/dev/pts", "devpts", "ptmxmode=666"),
        ("/dev/mqueue", "mqueue", "noexec"),
        ("/dev/shm", "tmpfs", "noexec"),
        ("/sys", "sysfs", "ro"),
    ] {
        let (found, options) = mounts.get(target).unwrap_or_else(|| panic!("no {target}"));
        assert_eq!(*found, kind, "{target}");
        assert!(
            options.split(',').any(|known| known == option),
            "{target}: {options}"
        );
    }
}

/// C-65.
#[test]
fn a_container_sees_its_own_cgroup_and_cannot_change_it() {
    if !can_run() {
        return;
    }
    let lines = run(
        "",
        "for f in /sys/fs/cgroup/cgroup.procs /sys/fs/cgroup/pids/cgroup.procs; do \
         test -f $f || continue; \
         echo own $(cat $f | head -n 1); \
         (echo 1 > $f) 2>&1; \
         done; true",
    );
    // Its own process, by the number it has in its own namespace.
    assert_eq!(
        lines.first().map(String::as_str),
        Some("own 1"),
        "{lines:?}"
    );
    assert!(lines[1].contains("Read-only file system"), "{lines:?}");
}

#[test]
fn a_command_in_a_container_is_confined_like_its_process() {
    if !can_run() {
        return;
    }
    for (context, caps, privileges) in [
        ("", default_caps(), "0"),
        (
            "runAsUser: 1000, allowPrivilegeEscalation: false",
            NO_CAPS,
            "1",
        ),
        ("runAsUser: 1000", NO_CAPS, "0"),
    ] {
        let spec = format!(
            "  containers:\n  - name: c\n    image: busybox\n    securityContext: {{{context}}}\n    command: [/bin/sleep, \"1000\"]"
        );
        let sandbox = Sandbox::start(&spec);
        let id = sandbox.run("c");
        let (code, _, output) = sandbox.exec(&id, &["/bin/cat", "/proc/self/status"]);
        assert_eq!(code, 0, "{output}");
        let status = fields(output.lines());
        assert_eq!(status["CapEff"], caps, "{context}");
        assert_eq!(status["CapBnd"], default_caps(), "{context}");
        assert_eq!(status["Seccomp"], "2", "{context}");
        assert_eq!(status["NoNewPrivs"], privileges, "{context}");
    }
}

#[test]
fn on_the_hosts_network_the_hosts_devices_are_seen() {
    if !can_run() {
        return;
    }
    let spec = "  hostNetwork: true\n  containers:\n  - name: c\n    image: busybox\n    command: [/bin/ls, /sys/class/net]";
    let sandbox = Sandbox::start(spec);
    let id = sandbox.run("c");
    assert_eq!(sandbox.exit(&id).code, 0);
    let mut own: Vec<String> = std::fs::read_dir("/sys/class/net")
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    own.sort();
    assert_eq!(sandbox.log(&id).lines().collect::<Vec<_>>(), own);
}
