use std::path::Path;

use super::*;

fn paths(dir: &Path) -> Paths {
    Paths {
        root_dir: dir.join("root"),
        run_dir: dir.join("run"),
        log_dir: dir.join("log"),
    }
}

#[test]
fn kernels_before_5_12_are_too_old() {
    for (release, good) in [
        ("6.18.0-rc1", true),
        ("5.12.0", true),
        ("5.12", true),
        ("5.11.22-generic", false),
        ("4.19.0", false),
        ("10.0", true),
        ("", false),
    ] {
        assert_eq!(is_new_enough(release), good, "{release}");
    }
}

#[test]
fn cgroups_of_either_version_are_seen() {
    let v2 = "29 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw\n";
    let v1 = "30 23 0:27 / /sys/fs/cgroup/cpu rw shared:9 - cgroup cgroup rw,cpu\n";
    let none = "29 23 0:26 / /cgroup2 rw - tmpfs cgroup rw\n";
    assert!(mounts_cgroups(v2) && mounts_cgroups(v1));
    assert!(!mounts_cgroups(none));
}

#[test]
fn overlay_is_told_from_lookalikes() {
    assert!(knows_overlay("nodev\ttmpfs\nnodev\toverlay\n"));
    assert!(!knows_overlay("nodev\toverlayish\nnodev\ttmpfs\n"));
}

/// A child of a killed agent keeps its lock until it execs.
#[test]
fn the_lock_of_a_dead_agent_is_waited_for() {
    let root = tempfile::tempdir().unwrap();
    let paths = paths(root.path());
    std::fs::create_dir_all(&paths.root_dir).unwrap();
    let lingering = lock(&paths).unwrap();
    // No process has this pid: it is above any pid_max.
    let mut file = File::options().write(true).open(paths.lock()).unwrap();
    file.write_all(b"2147483647\n").unwrap();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            std::thread::sleep(std::time::Duration::from_millis(50));
            drop(lingering);
        });
        lock(&paths).unwrap();
    });
}

#[test]
fn a_second_lock_names_the_first_ones_pid() {
    let dir = tempfile::tempdir().unwrap();
    let paths = paths(dir.path());
    make_directories(&paths).unwrap();
    let first = lock(&paths).unwrap();
    match lock(&paths) {
        Err(StartError::AlreadyRunning { pid, root_dir }) => {
            assert_eq!(pid, std::process::id().to_string());
            assert_eq!(root_dir, paths.root_dir);
        }
        other => panic!("{other:?}"),
    }
    drop(first);
    lock(&paths).unwrap();
}

#[test]
fn a_run_directory_of_another_boot_is_emptied() {
    let dir = tempfile::tempdir().unwrap();
    let paths = paths(dir.path());
    make_directories(&paths).unwrap();
    assert_eq!(enter_boot(&paths, "one").unwrap(), Boot::Same);
    let left = paths.holders().join("uid");
    store::make_dir(&left).unwrap();
    assert_eq!(enter_boot(&paths, "one").unwrap(), Boot::Same);
    assert!(left.exists());
    assert_eq!(enter_boot(&paths, "two").unwrap(), Boot::New);
    assert!(!left.exists() && paths.holders().exists());
    assert_eq!(enter_boot(&paths, "two").unwrap(), Boot::Same);
}

#[test]
fn sockets_and_states_are_roots_alone() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().unwrap();
    let paths = paths(dir.path());
    make_directories(&paths).unwrap();
    let mode = std::fs::metadata(&paths.run_dir)
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o700);
}
