//! The same specification under runc and under us: what a program finds of its confinement has to be the same.
#![expect(clippy::unwrap_used, reason = "test code")]

#[expect(dead_code, reason = "the harness has more than is needed here")]
mod support;

use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use support::sandbox::Sandbox;
use support::wait::can_run;

/// Rights (SigIgn is not among them: runc hands down its caller's), device nodes with their numbers, and how /proc and /sys are covered.
const PROBE: &str = "grep -E '^(Groups|Cap...|NoNewPrivs|Seccomp|SigBlk):' /proc/self/status; \
    cd /dev; for f in *; do test -c $f -a ! -L $f && echo node $f $(busybox stat -c '%t:%T %a %u:%g' $f); done; \
    for f in asound acpi interrupts kcore keys latency_stats timer_list scsi; do \
    test -e /proc/$f && echo masked $f $(busybox stat -f -c %T /proc/$f) $(cat /proc/$f 2>/dev/null | busybox wc -c); done; \
    for f in bus fs irq sys sysrq-trigger; do (echo 1 > /proc/$f/x || echo x > /proc/$f) 2>/dev/null && echo open $f; done; \
    busybox awk '$5 ~ /^.(proc|sys)/ && $5 !~ /cgroup/ {print \"mount\", $5, $6}' /proc/self/mountinfo";

/// Both have to load a filter for `Seccomp: 2`; runc's may be any.
fn any_filter() -> Value {
    json!({"defaultAction": "SCMP_ACT_ALLOW",
        "syscalls": [{"names": ["acct"], "action": "SCMP_ACT_ERRNO"}]})
}

/// What we made for the container, as a complete specification of a container of its own.
fn for_runc(config: &Path, confinement: &vetch::holder::proto::Confinement) -> Value {
    let text = std::fs::read_to_string(config).unwrap();
    let mut spec: Value = serde_json::from_str(&text).unwrap();
    let process = &mut spec["process"];
    process["noNewPrivileges"] = json!(confinement.no_new_privileges);
    // The executor's last word: ours are wider until then. Without root's uid execve takes what is not ambient.
    for set in ["bounding", "effective", "permitted"] {
        process["capabilities"][set] = json!(confinement.capabilities);
    }
    process.as_object_mut().unwrap().remove("oomScoreAdj");
    let linux = &mut spec["linux"];
    if confinement.seccomp != vetch::holder::proto::Seccomp::Unconfined {
        linux["seccomp"] = any_filter();
    }
    linux["cgroupsPath"] = json!(format!("/vetch-test-{}-runc", std::process::id()));
    linux["resources"] = json!({"devices": linux["resources"]["devices"]});
    let namespaces = linux["namespaces"].as_array_mut().unwrap();
    namespaces.extend(["network", "ipc", "uts"].map(|kind| json!({"type": kind})));
    let mounts = spec["mounts"].as_array_mut().unwrap();
    // What is of the pod or of its cgroup.
    mounts.retain(|mount| mount["type"] != "bind" && mount["destination"] != "/sys/fs/cgroup");
    spec
}

/// What the probe says under runc; an error is why it did not run.
fn under_runc(sandbox: &Sandbox, spec: &Value) -> Result<String, String> {
    let bundle = sandbox.dir.path().join("runc");
    std::fs::create_dir_all(bundle.join("rootfs")).unwrap();
    let copied = Command::new("cp")
        .arg("-a")
        .arg(sandbox.dir.path().join("layer/."))
        .arg(bundle.join("rootfs"))
        .status();
    assert!(copied.unwrap().success());
    let file = std::fs::File::create(bundle.join("config.json")).unwrap();
    serde_json::to_writer(file, spec).unwrap();
    let name = format!("vetch-test-{}", std::process::id());
    let output = Command::new("runc")
        .arg("--root")
        .arg(sandbox.dir.path().join("runc-state"))
        .args(["run", "--bundle"])
        .arg(&bundle)
        .arg(name)
        .stdin(Stdio::null())
        .output()
        .map_err(|error| error.to_string())?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[test]
fn a_container_is_confined_as_by_runc() {
    if !can_run() {
        return;
    }
    for context in [
        "",
        "runAsUser: 1000, runAsGroup: 2000, allowPrivilegeEscalation: false",
        "capabilities: {add: [NET_ADMIN], drop: [ALL]}",
        "allowPrivilegeEscalation: false, seccompProfile: {type: Unconfined}",
    ] {
        let spec = format!(
            "  containers:\n  - name: c\n    image: busybox\n    securityContext: {{{context}}}\n    command: [/bin/sh, -c, {PROBE:?}]"
        );
        let sandbox = Sandbox::start(&spec);
        let confinement = sandbox.prepare("c").confinement;
        let id = sandbox.run("c");
        assert_eq!(sandbox.exit(&id).code, 0, "{}", sandbox.log(&id));
        let config = sandbox.paths.bundle(&id).join("config.json");
        let theirs = match under_runc(&sandbox, &for_runc(&config, &confinement)) {
            Ok(theirs) => theirs,
            Err(why) => {
                println!("SKIPPED: comparison with runc: {}", why.trim());
                return;
            }
        };
        let sorted = |text: &str| {
            let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
            lines.sort();
            lines
        };
        let (ours, theirs) = (sorted(&sandbox.log(&id)), sorted(&theirs));
        assert!(ours.len() > 20, "{ours:?}");
        assert_eq!(ours, theirs, "{context}");
    }
}
