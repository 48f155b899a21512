//! Volumes of every kind, as the holder makes them and containers see them.

use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;

use vetch::holder::proto::{FailureKind, Reply, Request};
use vetch::volume::spec::{FsGroup, HostPathKind, Payload, Source};

use crate::support::mounts::{Mounts, file_set, payload_file};
use crate::support::sandbox::Sandbox;
use crate::support::wait::can_run;
use crate::{LIVES, container, shell};

/// Output of a script in a container, which must succeed.
pub(crate) fn run(sandbox: &Sandbox, id: &str, script: &str) -> String {
    let (code, _, output) = sandbox.exec(id, &["/bin/sh", "-c", script]);
    assert_eq!(code, 0, "{script}: {output}");
    output.trim_end().to_owned()
}

/// The message of a create that fails because of a volume.
pub(crate) fn refusal(sandbox: &Sandbox, name: &str) -> String {
    let (id, reply) = sandbox.create(name);
    let Reply::Failed { kind, message } = reply else {
        panic!("{reply:?}");
    };
    assert_eq!(kind, FailureKind::Volume, "{message}");
    assert!(sandbox.record(&id).is_none());
    message
}

/// V-20, V-21, V-23, V-24, V-27, V-28.
#[test]
fn v_20_host_paths_are_mounted_and_their_data_stays() {
    if !can_run() {
        return;
    }
    let mut sandbox = Sandbox::start(&shell(LIVES));
    let host = sandbox.dir.path().join("host");
    std::fs::create_dir(&host).unwrap();
    sandbox.mounts = Mounts::default()
        .host_path("made", host.join("made/below"), HostPathKind::Unset)
        .host_path("file", host.join("file"), HostPathKind::FileOrCreate)
        .host_path("null", "/dev/null", HostPathKind::CharDevice)
        .on("made", "/a")
        .on("file", "/etc/deep/file")
        .on("null", "/b/null");
    let id = sandbox.run("c");
    run(
        &sandbox,
        &id,
        "echo x > /a/x; echo y > /etc/deep/file; echo z > /b/null",
    );
    assert_eq!(sandbox.stop(&id, 2000), Reply::Done);
    sandbox.exit(&id);
    assert_eq!(sandbox.remove(&id, true), Reply::Done);
    let read = |path: &str| std::fs::read_to_string(host.join(path)).unwrap();
    assert_eq!(
        (read("made/below/x"), read("file")),
        ("x\n".into(), "y\n".into())
    );
}

/// V-25.
#[test]
fn v_25_a_wrong_type_is_told_and_leaves_nothing() {
    if !can_run() {
        return;
    }
    let mut sandbox = Sandbox::start(&shell(LIVES));
    sandbox.mounts = Mounts::default()
        .host_path("v", "/dev/null", HostPathKind::Directory)
        .on("v", "/a");
    let before = sandbox.proc_text("mountinfo");
    let message = refusal(&sandbox, "c");
    let text = "MountVolume.SetUp failed for volume \"v\": \
                hostPath type check failed: /dev/null is not a directory";
    assert_eq!(message, text);
    assert_eq!(sandbox.proc_text("mountinfo"), before);
    assert!(!sandbox.dir.path().join("holder/mounts/0").exists());
}

/// V-10, V-11, V-16: it is the same for all containers, and survives each of them. V-54: a container's binds go with it.
#[test]
fn v_10_an_empty_dir_is_open_to_all_and_outlives_containers() {
    if !can_run() {
        return;
    }
    let both = [container("c", LIVES), container("d", LIVES)].concat();
    let mut sandbox = Sandbox::start(&format!("  containers:\n{both}"));
    let dir = sandbox
        .dir
        .path()
        .join("pod/volumes/kubernetes.io~empty-dir/v");
    sandbox.mounts = Mounts::default()
        .volume("v", Source::EmptyDir { dir: dir.clone() })
        .on("v", "/v");
    let first = sandbox.run("c");
    assert_eq!(dir.metadata().unwrap().mode() & 0o7777, 0o777);
    run(&sandbox, &first, "echo kept > /v/file");
    assert!(sandbox.proc_text("mountinfo").contains(&first));
    assert_eq!(sandbox.stop(&first, 2000), Reply::Done);
    sandbox.exit(&first);
    assert_eq!(sandbox.remove(&first, true), Reply::Done);
    assert!(!sandbox.proc_text("mountinfo").contains(&first));
    let (again, other) = (sandbox.run("c"), sandbox.run("d"));
    for id in [&again, &other] {
        assert_eq!(run(&sandbox, id, "cat /v/file"), "kept");
    }
}

/// V-13, V-60.
#[test]
fn v_13_memory_has_its_size_and_its_group() {
    if !can_run() {
        return;
    }
    let both = [container("c", LIVES), container("d", LIVES)].concat();
    let mut sandbox = Sandbox::start(&format!("  containers:\n{both}"));
    let memory = |size_bytes| Source::Memory { size_bytes };
    sandbox.mounts = Mounts::default()
        .volume("small", memory(Some(1 << 20)))
        .volume("large", memory(None))
        .on("small", "/small")
        .on("large", "/large");
    sandbox.mounts.order.fs_group = Some(FsGroup {
        gid: 4711,
        only_on_root_mismatch: false,
    });
    let (id, other) = (sandbox.run("c"), sandbox.run("d"));
    let fill = "dd if=/dev/zero of=/small/x bs=1k count=2k 2>&1 | tail -n 1 >/dev/null";
    run(&sandbox, &id, fill);
    let size = run(
        &sandbox,
        &id,
        "cat /small/x | dd of=/dev/null bs=1k 2>&1 | head -n 1",
    );
    assert_eq!(size, "1024+0 records in");
    run(
        &sandbox,
        &id,
        "dd if=/dev/zero of=/large/x bs=1k count=2k 2>/dev/null; ls /large/x",
    );
    // One tmpfs for the pod.
    assert_eq!(run(&sandbox, &other, "ls /small"), "x");
    let root = sandbox.proc(&format!("../{}/root/small", sandbox.container_pid(&id)));
    let meta = root.metadata().unwrap();
    assert_eq!((meta.gid(), meta.mode() & 0o7777), (4711, 0o3777));
}

/// V-30, V-31, V-32, V-34: files follow, those that were mounted by subPath do not.
#[test]
fn v_31_files_are_exchanged_under_a_running_container() {
    if !can_run() {
        return;
    }
    let mut sandbox = Sandbox::start(&shell(LIVES));
    let first = file_set(&[("a", "one", 0o640), ("x/b", "one", 0o444)]);
    sandbox.mounts = Mounts::default()
        .files("f", 5, first.clone())
        .on("f", "/f")
        .sub_path("f", "a", "/alone")
        .sub_path("f", "x/b", "/sub");
    let id = sandbox.run("c");
    let all = "cat /f/a /f/x/b /alone /sub";
    assert_eq!(run(&sandbox, &id, all), "oneoneoneone");
    let hash = || sandbox.wire.state.borrow().as_ref().unwrap().volumes["f"].clone();
    assert_eq!(hash(), first.hash);

    let write = |generation, set: &vetch::volume::spec::FileSet| {
        let volumes = [
            ("f".to_owned(), set.clone()),
            ("other".to_owned(), set.clone()),
        ]
        .into();
        let file = payload_file(&Payload {
            generation,
            volumes,
        });
        let number = sandbox.wire.send(Request::WriteVolumes, &[file.as_fd()]);
        sandbox.wire.reply(number).0
    };
    let second = file_set(&[("a", "two", 0o600), ("x/b", "two", 0o444)]);
    assert_eq!(write(6, &second), Reply::Done);
    assert_eq!(run(&sandbox, &id, all), "twotwooneone");
    assert_eq!(hash(), second.hash);
    assert_eq!(write(5, &first), Reply::Done);
    assert_eq!(hash(), second.hash);
    // Not mounted by anybody, so not made.
    let state = sandbox.wire.state.borrow();
    assert_eq!(state.as_ref().unwrap().volumes.len(), 1);
}

/// V-57.
#[test]
fn v_57_images_are_mounted_read_only() {
    if !can_run() {
        return;
    }
    let mut sandbox = Sandbox::start(&shell(LIVES));
    let layer = |name: &str| sandbox.dir.path().join(name);
    for (name, file) in [("l1", "one"), ("l2", "two")] {
        std::fs::create_dir(layer(name)).unwrap();
        std::fs::File::create(layer(name).join(file)).unwrap();
    }
    let image = |layers: &[&str]| Source::Image {
        layers: layers.iter().map(|name| layer(name)).collect(),
    };
    sandbox.mounts = Mounts::default()
        .volume("single", image(&["l1"]))
        .volume("double", image(&["l2", "l1"]))
        .volume("base", image(&["layer"]))
        .on("single", "/single")
        .on("double", "/double")
        .on("base", "/base")
        .sub_path("double", "two", "/file");
    let id = sandbox.run("c");
    assert_eq!(
        run(&sandbox, &id, "ls /single /double"),
        "/double:\none\ntwo\n\n/single:\none"
    );
    for script in [
        "touch /single/x",
        "touch /double/x",
        "/base/bin/busybox true",
        "echo > /file",
    ] {
        let (code, _, output) = sandbox.exec(&id, &["/bin/sh", "-c", script]);
        assert_ne!(code, 0, "{script}: {output}");
    }
}

/// D-16: a device is granted with its mount, and only then.
#[test]
fn d_16_a_mounted_device_may_be_used() {
    const DEVICE: &str = "/dev/fuse";
    if !can_run() {
        return;
    }
    if std::fs::File::open(DEVICE).is_err() {
        println!("SKIPPED: {DEVICE} cannot be opened here");
        return;
    }
    for (kind, is_granted) in [
        (HostPathKind::CharDevice, true),
        (HostPathKind::File, false),
    ] {
        let mut sandbox = Sandbox::start(&shell(LIVES));
        sandbox.mounts = Mounts::default()
            .host_path("v", DEVICE, kind)
            .on("v", "/dev/mine");
        let id = sandbox.run("c");
        let (code, _, output) = sandbox.exec(&id, &["/bin/sh", "-c", "exec 3<>/dev/mine"]);
        assert_eq!(code == 0, is_granted, "{kind:?} {output}");
    }
}

/// V-53.
#[test]
fn v_53_sub_paths_are_found_made_and_kept_inside() {
    if !can_run() {
        return;
    }
    let mut sandbox = Sandbox::start(&shell(LIVES));
    let host = sandbox.dir.path().join("host");
    std::fs::create_dir_all(host.join("dir")).unwrap();
    std::fs::File::create(host.join("dir/file")).unwrap();
    std::os::unix::fs::symlink("/etc", host.join("out")).unwrap();
    let base = Mounts::default().host_path("v", &host, HostPathKind::Directory);
    sandbox.mounts = base
        .clone()
        .sub_path("v", "dir", "/dir")
        .sub_path("v", "dir/file", "/file")
        .sub_path("v", "new/newer", "/new");
    let id = sandbox.run("c");
    run(
        &sandbox,
        &id,
        "echo x > /file; touch /new/here; test -s /dir/file",
    );
    assert!(host.join("new/newer/here").exists());
    assert_eq!(sandbox.stop(&id, 2000), Reply::Done);
    sandbox.exit(&id);
    sandbox.mounts = base.sub_path("v", "out/passwd", "/passwd");
    let message = refusal(&sandbox, "c");
    let text = "MountVolume.SetUp failed for volume \"v\": \
                subPath \"out/passwd\" leads out of the volume";
    assert_eq!(message, text);
}
