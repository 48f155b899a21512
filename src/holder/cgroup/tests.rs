use std::process::Command;

use super::*;

const HYBRID: &str = "\
31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
34 31 0:31 / /sys/fs/cgroup/cpuset rw,relatime - cgroup cgroup rw,cpuset
35 31 0:32 / /sys/fs/cgroup/memory rw,relatime shared:4 - cgroup cgroup rw,memory
40 31 0:37 / /sys/fs/cgroup/systemd rw,relatime - cgroup cgroup rw,xattr,name=systemd
41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
42 31 0:38 / /mnt/again rw,relatime - cgroup2 cgroup2 rw
43 31 0:39 /sub /mnt/part rw,relatime - cgroup cgroup rw,cpu
";

#[test]
fn hierarchies_are_found_once_each() {
    let found = parse_mountinfo(HYBRID);
    let kinds: Vec<Kind> = found.iter().map(|h| h.kind).collect();
    assert_eq!(
        kinds,
        [Kind::Cpuset, Kind::Controllers, Kind::Named, Kind::Unified]
    );
    let memory: Vec<bool> = found.iter().map(|h| h.has("memory")).collect();
    assert_eq!(memory, [false, true, false, true]);
}

#[test]
fn paths_that_could_leave_the_tree_are_refused() {
    assert_eq!(names("/a/b").unwrap(), ["a", "b"]);
    for bad in ["a", "/", "", "/a/../b", "/a//b", "/a/."] {
        assert!(names(bad).is_err(), "{bad:?}");
    }
}

#[test]
fn a_group_is_made_joined_killed_and_removed() {
    if !rustix::process::geteuid().is_root() {
        println!("SKIPPED: cgroups need root");
        return;
    }
    let cgroups = Cgroups::discover().unwrap();
    let root = format!("/vetch-test-{}-cgroup", std::process::id());
    let path = format!("{root}/a");
    cgroups.create(&path).unwrap();
    let mut child = Command::new("sleep").arg("1000").spawn().unwrap();
    let pid = child.id().cast_signed();
    cgroups.join(&path, pid).unwrap();
    cgroups.track(&format!("{path}/exec-1"), pid).unwrap();
    assert_eq!(cgroups.pids(&root), BTreeSet::from([pid]));
    assert!(cgroups.remove(&root).is_err());
    cgroups.kill(&root);
    child.wait().unwrap();
    assert!(!cgroups.is_populated(&root));
    cgroups.remove(&root).unwrap();
    assert!(!cgroups.hierarchies.iter().any(|h| h.dir(&root).exists()));
}
