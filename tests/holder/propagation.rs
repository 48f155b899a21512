//! V-50…V-52: what is mounted below a mount, and which way later mounts travel.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::mount::{
    MountFlags, MountPropagationFlags, UnmountFlags, mount, mount_change, unmount,
};
use vetch::holder::proto::Reply;
use vetch::volume::spec::{FsGroup, HostPathKind, Propagation, Source};

use crate::support::mounts::Mounts;
use crate::support::sandbox::Sandbox;
use crate::support::wait::can_run;
use crate::volumes::{refusal, run};
use crate::{LIVES, container};

/// A file system of the host, which ends with its value.
struct HostMount(PathBuf);

impl HostMount {
    fn new(path: PathBuf, propagation: MountPropagationFlags) -> Self {
        std::fs::create_dir_all(&path).unwrap();
        mount("test", &path, "tmpfs", MountFlags::empty(), None).unwrap();
        let host = Self(path);
        mount_change(&host.0, propagation).unwrap();
        host
    }
}

impl Drop for HostMount {
    fn drop(&mut self) {
        let _ = unmount(&self.0, UnmountFlags::DETACH);
    }
}

fn is_mounted(path: &Path) -> bool {
    vetch::sys::mounts::is_point(path).unwrap()
}

/// A pod of two containers that may mount.
fn start() -> Sandbox {
    let privileged = |name| {
        let container = container(name, LIVES);
        format!("{container}    securityContext:\n      privileged: true\n")
    };
    let both = [privileged("c"), privileged("d")].concat();
    Sandbox::start(&format!("  containers:\n{both}"))
}

/// (what the host mounts is seen in the container, what the container mounts is seen on the host)
fn seen(propagation: Propagation) -> (bool, bool) {
    let mut sandbox = start();
    let dir = tempfile::tempdir().unwrap();
    let shared = dir.path().join("shared");
    let _host = HostMount::new(shared.clone(), MountPropagationFlags::SHARED);
    for name in ["early", "late", "own"] {
        std::fs::create_dir(shared.join(name)).unwrap();
    }
    // V-28: what is mounted below comes along in any case.
    let _early = HostMount::new(shared.join("early"), MountPropagationFlags::SHARED);
    std::fs::File::create(shared.join("early/file")).unwrap();
    sandbox.mounts = Mounts::default()
        .host_path("v", &shared, HostPathKind::Directory)
        .propagating("v", "/v", propagation);
    let id = sandbox.run("c");
    assert_eq!(run(&sandbox, &id, "ls /v/early"), "file");

    let _late = HostMount::new(shared.join("late"), MountPropagationFlags::SHARED);
    std::fs::File::create(shared.join("late/file")).unwrap();
    let from_host = run(&sandbox, &id, "ls /v/late") == "file";
    run(
        &sandbox,
        &id,
        "mount -t tmpfs tmpfs /v/own && touch /v/own/file",
    );
    let to_host = shared.join("own/file").exists();
    // It goes with the container, or stays if it was for the host.
    assert_eq!(sandbox.stop(&id, 2000), Reply::Done);
    sandbox.exit(&id);
    assert_eq!(sandbox.remove(&id, true), Reply::Done);
    assert_eq!(is_mounted(&shared.join("own")), to_host);
    assert!(is_mounted(&shared.join("early")) && is_mounted(&shared.join("late")));
    drop(sandbox);
    assert!(is_mounted(&shared) && is_mounted(&shared.join("early")));
    (from_host, to_host)
}

/// V-28, V-52.
#[test]
fn v_52_mounts_travel_as_ordered() {
    if !can_run() {
        return;
    }
    assert_eq!(seen(Propagation::Private), (false, false));
    assert_eq!(seen(Propagation::FromHost), (true, false));
    assert_eq!(seen(Propagation::Both), (true, true));
}

/// V-52: a pod's own volume on the disk: the agent takes away what is left there.
#[test]
fn v_52_an_empty_dir_can_be_shared_with_the_host() {
    if !can_run() {
        return;
    }
    let mut sandbox = start();
    let host_dir = tempfile::tempdir().unwrap();
    let shared = host_dir.path().join("root");
    let _host = HostMount::new(shared.clone(), MountPropagationFlags::SHARED);
    let dir = shared.join("pods/volumes/v");
    sandbox.mounts = Mounts::default()
        .volume("v", Source::EmptyDir { dir: dir.clone() })
        .propagating("v", "/v", Propagation::Both);
    let id = sandbox.run("c");
    run(
        &sandbox,
        &id,
        "mkdir /v/m && mount -t tmpfs tmpfs /v/m && touch /v/m/file",
    );
    assert!(dir.join("m/file").exists());
    drop(sandbox);
    assert!(dir.join("m/file").exists());
    vetch::sys::mounts::unmount_below(&shared.join("pods")).unwrap();
    assert!(!is_mounted(&dir.join("m")) && is_mounted(&shared));
}

/// V-52: a pod's own volume in memory is shared by its containers only.
#[test]
fn v_52_containers_can_share_mounts_in_memory() {
    if !can_run() {
        return;
    }
    let mut sandbox = start();
    let base = Mounts::default().volume("v", Source::Memory { size_bytes: None });
    sandbox.mounts = base.clone().propagating("v", "/v", Propagation::Both);
    let first = sandbox.run("c");
    sandbox.mounts = base.propagating("v", "/v", Propagation::FromHost);
    let second = sandbox.run("d");
    run(
        &sandbox,
        &first,
        "mkdir /v/m && mount -t tmpfs tmpfs /v/m && touch /v/m/file",
    );
    assert_eq!(run(&sandbox, &second, "ls /v/m"), "file");
}

#[test]
fn v_52_what_is_not_shared_is_told() {
    if !can_run() {
        return;
    }
    let mut sandbox = start();
    let host_dir = tempfile::tempdir().unwrap();
    let place = host_dir.path().join("private");
    let _host = HostMount::new(place.clone(), MountPropagationFlags::PRIVATE);
    std::fs::create_dir(place.join("x")).unwrap();
    for (propagation, expected) in [
        (Propagation::Both, "a shared mount"),
        (Propagation::FromHost, "a shared or slave mount"),
    ] {
        sandbox.mounts = Mounts::default()
            .host_path("v", place.join("x"), HostPathKind::Directory)
            .propagating("v", "/v", propagation);
        let (path, on) = (place.join("x"), place.clone());
        let text = format!(
            "MountVolume.SetUp failed for volume \"v\": \
             path {path:?} is mounted on {on:?} but it is not {expected}; \
             `mount --make-rshared {}` on the node makes it one",
            on.display()
        );
        assert_eq!(refusal(&sandbox, "c"), text);
    }
}

/// V-50: `readOnly` is for the mount itself. V-51: recursively, for what is mounted below too. V-27: a group for the pod's
/// volumes changes nothing of the host's.
#[test]
fn v_50_read_only_is_the_mount_and_recursively_all_below() {
    if !can_run() {
        return;
    }
    let mut sandbox = start();
    let host_dir = tempfile::tempdir().unwrap();
    let below = host_dir.path().join("below");
    let _host = HostMount::new(below.clone(), MountPropagationFlags::PRIVATE);
    let owner = || [host_dir.path(), &below].map(|path| path.metadata().unwrap().gid());
    let before = owner();
    sandbox.mounts = Mounts::default()
        .host_path("v", host_dir.path(), HostPathKind::Directory)
        .mount("v", "/ro", |_| {}, &["ro"])
        .mount("v", "/rro", |_| {}, &["rro"]);
    sandbox.mounts.order.fs_group = Some(FsGroup {
        gid: 4711,
        only_on_root_mismatch: false,
    });
    let id = sandbox.run("c");
    let script =
        "for f in /ro /ro/below /rro /rro/below; do touch $f/x 2>/dev/null && echo $f; done; true";
    assert_eq!(run(&sandbox, &id, script), "/ro/below");
    assert_eq!(owner(), before);
}
