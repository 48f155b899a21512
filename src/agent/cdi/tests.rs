#![expect(clippy::disallowed_methods, reason = "files of a test")]

use super::*;
use crate::error::chain;

fn name(text: &str) -> DeviceName {
    let (kind, device) = text.split_once('=').unwrap();
    DeviceName {
        kind: kind.to_owned(),
        device: device.to_owned(),
    }
}

/// Two directories with these files.
struct Dirs(tempfile::TempDir);

impl Dirs {
    fn new(files: &[(&str, &str)]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        for sub in ["etc", "run"] {
            fs::create_dir(dir.path().join(sub)).unwrap();
        }
        for (path, text) in files {
            fs::write(dir.path().join(path), text).unwrap();
        }
        Self(dir)
    }

    fn find(&self, names: &[&str]) -> Result<Vec<Edits>, String> {
        let dirs = ["etc", "run"].map(|dir| self.0.path().join(dir));
        let names: Vec<DeviceName> = names.iter().map(|text| name(text)).collect();
        let found = find(&dirs, &names);
        found.map_err(|error| chain(&error).replace(&format!("{}/", self.0.path().display()), ""))
    }

    fn env(&self, names: &[&str]) -> Vec<String> {
        let found = self.find(names).unwrap();
        found.into_iter().flat_map(|edits| edits.env).collect()
    }
}

fn spec(devices: &[(&str, &str)], all: &str) -> String {
    let devices = devices
        .iter()
        .map(|(name, env)| format!("\n- {{name: {name}, containerEdits: {{env: [\"{env}\"]}}}}"));
    let devices: String = devices.collect();
    format!(
        "cdiVersion: 0.6.0\nkind: a.com/b\ncontainerEdits: {{env: [\"{all}\"]}}\ndevices:{devices}\n"
    )
}

/// D-16: what a file says for all comes once, and first.
#[test]
fn devices_come_in_order_with_what_their_file_says_for_all() {
    let dirs = Dirs::new(&[
        (
            "etc/one.yaml",
            &spec(&[("x", "X=1"), ("y", "Y=1")], "ALL=1"),
        ),
        (
            "etc/two.json",
            r#"{"cdiVersion": "0.5.0", "kind": "c/d", "devices": [{"name": "z", "containerEdits": {"env": ["Z=1"]}}]}"#,
        ),
        ("etc/three.txt", "nonsense"),
    ]);
    assert_eq!(
        dirs.env(&["a.com/b=y", "c/d=z", "a.com/b=x"]),
        ["ALL=1", "Y=1", "Z=1", "X=1"]
    );
    assert_eq!(dirs.find(&[]).unwrap(), []);
}

/// D-16
#[test]
fn the_later_directory_wins_and_equals_conflict() {
    let old = spec(&[("x", "X=etc"), ("y", "Y=etc")], "ALL=etc");
    let new = spec(&[("x", "X=run")], "ALL=run");
    let dirs = Dirs::new(&[("etc/a.yaml", &old), ("run/b.yaml", &new)]);
    assert_eq!(dirs.env(&["a.com/b=x"]), ["ALL=run", "X=run"]);
    assert_eq!(dirs.env(&["a.com/b=y"]), ["ALL=etc", "Y=etc"]);

    let dirs = Dirs::new(&[("etc/a.yaml", &old), ("etc/b.yaml", &new)]);
    assert_eq!(
        dirs.find(&["a.com/b=x"]).unwrap_err(),
        "CDI device a.com/b=x is defined twice, in etc/a.yaml and in etc/b.yaml"
    );
    assert_eq!(dirs.env(&["a.com/b=y"]), ["ALL=etc", "Y=etc"]);
    // Both are the same to who is above them.
    let dirs = Dirs::new(&[
        ("etc/a.yaml", &old),
        ("etc/b.yaml", &new),
        ("run/c.yaml", &new),
    ]);
    assert_eq!(dirs.env(&["a.com/b=x"]), ["ALL=run", "X=run"]);
}

/// D-16
#[test]
fn what_is_missing_is_told_with_where_it_was_looked_for() {
    let dirs = Dirs::new(&[(
        "etc/a.yaml",
        "cdiVersion: 0.6.0\nkind: a.com/b\ndevises: []\n",
    )]);
    assert_eq!(
        dirs.find(&["a.com/b=x"]).unwrap_err(),
        format!(
            "CDI device a.com/b=x is not defined in etc or run; etc/a.yaml:3: devises: unknown field"
        )
    );
    fs::remove_dir_all(dirs.0.path().join("etc")).unwrap();
    assert_eq!(
        dirs.find(&["a.com/b=x"]).unwrap_err(),
        "CDI device a.com/b=x is not defined in etc or run"
    );
}

/// D-16
#[test]
fn what_a_device_node_leaves_open_is_the_hosts() {
    let text = |edits: &str| {
        format!(
            "cdiVersion: 0.6.0\nkind: a/b\ndevices:\n- name: x\n  containerEdits: {{{edits}}}\n"
        )
    };
    let dirs = Dirs::new(&[(
        "etc/a.yaml",
        &text("deviceNodes: [{path: /dev/mine, hostPath: /dev/full}]"),
    )]);
    let found = dirs.find(&["a/b=x"]).unwrap();
    let node = &found[1].nodes[0];
    assert_eq!(
        (node.kind, node.numbers),
        (Some(LinuxDeviceType::C), Some((1, 7)))
    );

    for (edits, why) in [
        (
            "deviceNodes: [{path: /nowhere}]",
            "/nowhere: No such file or directory (os error 2)",
        ),
        ("deviceNodes: [{path: /etc}]", "/etc: is no device"),
        (
            "deviceNodes: [{path: /dev/full, type: b}]",
            "/dev/full: is a device of another type",
        ),
        (
            "mounts: [{hostPath: /nowhere, containerPath: /x}]",
            "/nowhere: No such file or directory (os error 2)",
        ),
        (
            "hooks: [{hookName: prestart, path: /nowhere}]",
            "/nowhere: No such file or directory (os error 2)",
        ),
    ] {
        let dirs = Dirs::new(&[("etc/a.yaml", &text(edits))]);
        assert_eq!(
            dirs.find(&["a/b=x"]).unwrap_err(),
            format!("CDI device a/b=x in etc/a.yaml: {why}")
        );
    }
}
