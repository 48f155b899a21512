#![expect(clippy::disallowed_methods, reason = "files of a test")]

use rustix::fs::{CWD, FileType, Mode, mknodat};
use serde_json::json;

use super::*;
use crate::error::chain;

const PROFILE: &str = r#"{"defaultAction": "SCMP_ACT_ALLOW"}"#;

fn load(root: &Path, name: &str) -> Result<Option<Profile>, ProfileFileError> {
    let paths = Paths {
        root_dir: root.to_owned(),
        run_dir: root.join("run"),
        log_dir: root.join("log"),
    };
    let profile = json!({"type": "Localhost", "localhostProfile": name});
    let pod = json!({"spec": {
        "securityContext": {"seccompProfile": profile},
        "containers": [{"name": "c"}],
    }});
    let pod: Pod = serde_json::from_value(pod).unwrap();
    let container = pod.spec.as_ref().unwrap().containers[0].clone();
    seccomp_profile(&paths, &pod, &container)
}

#[test]
fn a_profile_is_found_below_the_root_directory() {
    let dir = tempfile::tempdir().unwrap();
    let profiles = dir.path().join("seccomp/profiles");
    std::fs::create_dir_all(&profiles).unwrap();
    std::fs::write(profiles.join("a.json"), PROFILE).unwrap();
    std::os::unix::fs::symlink("profiles/a.json", dir.path().join("seccomp/link")).unwrap();
    for name in ["profiles/a.json", "./profiles/a.json", "link"] {
        assert!(load(dir.path(), name).unwrap().is_some(), "{name}");
    }
}

#[test]
fn what_cannot_be_used_is_told_with_its_path() {
    let dir = tempfile::tempdir().unwrap();
    let profiles = dir.path().join("seccomp");
    std::fs::create_dir_all(profiles.join("dir")).unwrap();
    std::fs::write(dir.path().join("outside.json"), PROFILE).unwrap();
    std::fs::write(profiles.join("bad"), "{\n\"defaultAction\": 1}").unwrap();
    std::fs::write(profiles.join("binary"), b"\xff").unwrap();
    mknodat(CWD, profiles.join("fifo"), FileType::Fifo, Mode::RUSR, 0).unwrap();
    let large = File::create(profiles.join("large")).unwrap();
    large.set_len(MAX_PROFILE + 1).unwrap();
    for (name, why) in [
        ("none", "No such file or directory"),
        ("dir", "no plain file"),
        ("fifo", "no plain file"),
        ("large", "file too large"),
        ("binary", "stream did not contain valid UTF-8"),
        ("../outside.json", "a relative path without .."),
        ("dir/../../outside.json", "a relative path without .."),
        ("", "a relative path without .."),
        ("bad", "at line 2 column"),
    ] {
        let message = chain(&load(dir.path(), name).unwrap_err());
        let path = profiles.join(name);
        assert!(
            message.starts_with(&format!("load seccomp profile {}", path.display())),
            "{message}"
        );
        assert!(message.contains(why), "{name}: {message}");
    }
    let absolute = dir.path().join("outside.json");
    let message = chain(&load(dir.path(), &absolute.display().to_string()).unwrap_err());
    assert!(message.contains("a relative path"), "{message}");
}
