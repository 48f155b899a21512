//! Volumes and pods that mean harm: nothing outside is ever mounted, made or removed, and the holder stays as it was.

use std::os::fd::AsFd;
use std::os::unix::fs::symlink;

use vetch::holder::proto::{FailureKind, Reply, Request};
use vetch::volume::spec::{FileSet, HostPathKind, Payload, Source};

use crate::support::mounts::{Mounts, file_set, payload_file};
use crate::support::sandbox::Sandbox;
use crate::support::wait::{can_run, extent, wait_for};
use crate::volumes::run;
use crate::{LIVES, container, shell};

/// V-53: another container of the pod exchanges a directory for a link to / all the time.
#[test]
fn v_53_a_race_in_a_sub_path_mounts_nothing_from_outside() {
    if !can_run() {
        return;
    }
    let attack = "mkdir -p /v/dir/x; ln -s / /v/link; trap 'exit 0' TERM; \
                  while true; do mv /v/dir /v/aside; mv /v/link /v/dir; \
                  mv /v/dir /v/link; mv /v/aside /v/dir; done";
    let both = [container("c", LIVES), container("d", attack)].concat();
    let mut sandbox = Sandbox::start(&format!("  containers:\n{both}"));
    let dir = sandbox.dir.path().join("pod/v");
    let base = Mounts::default().volume("v", Source::EmptyDir { dir });
    sandbox.mounts = base.clone().on("v", "/v");
    sandbox.run("d");
    // Files of the host's root would be seen in the container.
    sandbox.mounts = base
        .sub_path("v", "dir", "/a")
        .sub_path("v", "dir/x", "/b")
        .sub_path("v", "dir/new", "/c");
    let mut started = 0;
    for _ in 0..extent(300, 30) {
        let (id, reply) = sandbox.create("c");
        match reply {
            Reply::Started { .. } => {
                let seen = run(
                    &sandbox,
                    &id,
                    "ls -d /a/etc /b/etc /c/etc 2>/dev/null; true",
                );
                assert_eq!(seen, "");
                started += 1;
                assert_eq!(sandbox.stop(&id, 0), Reply::Done);
                sandbox.exit(&id);
                assert_eq!(sandbox.remove(&id, true), Reply::Done);
            }
            Reply::Failed { kind, message } => {
                assert_eq!(kind, FailureKind::Volume, "{message}");
            }
            Reply::Done => panic!("{reply:?}"),
        }
    }
    println!("started {started} times");
    assert!(!std::path::Path::new("/new").exists());
}

/// Where a volume may be mounted, and where not; nothing of it harms anybody else.
#[test]
fn strange_targets_are_refused_or_stay_in_the_container() {
    if !can_run() {
        return;
    }
    let mut sandbox = Sandbox::start(&shell(LIVES));
    let (host, file) = (
        sandbox.dir.path().join("host"),
        sandbox.dir.path().join("file"),
    );
    std::fs::create_dir(&host).unwrap();
    std::fs::File::create(&file).unwrap();
    let layer = sandbox.dir.path().join("layer");
    symlink("nowhere/file", layer.join("etc/dangling")).unwrap();
    symlink("/", layer.join("etc/root")).unwrap();
    std::fs::File::create(layer.join("etc/passwd")).unwrap();
    let base = Mounts::default()
        .host_path("dir", &host, HostPathKind::Directory)
        .host_path("file", &file, HostPathKind::File);
    for (volume, target, check) in [
        ("dir", "/proc/x", None),
        ("dir", "/proc/self/fd", None),
        ("file", "/proc/sysrq-trigger", None),
        ("dir", "/etc/passwd", None),
        ("file", "/etc", None),
        ("dir", "/../../../a", Some("touch /a/made")),
        ("dir", "/etc/root/c", Some("touch /c/made")),
        // libcontainer makes its node there afterwards, and refuses.
        ("file", "/dev/null", None),
        ("file", "/etc/passwd", Some("echo made > /etc/passwd")),
        (
            "file",
            "/etc/dangling",
            Some("echo made > /etc/nowhere/file"),
        ),
        ("file", "/new/deep/file", Some("echo made > /new/deep/file")),
    ] {
        let _ = std::fs::remove_file(host.join("made"));
        std::fs::File::create(&file).unwrap();
        sandbox.mounts = base.clone().on(volume, target);
        let (id, reply) = sandbox.create("c");
        let Some(check) = check else {
            let Reply::Failed { message, .. } = reply else {
                panic!("{volume} on {target}: {reply:?}");
            };
            assert!(!message.is_empty());
            println!("{volume} on {target}: {message}");
            continue;
        };
        assert!(
            matches!(reply, Reply::Started { .. }),
            "{target}: {reply:?}"
        );
        run(&sandbox, &id, check);
        let made = host.join("made").exists() || file.metadata().unwrap().len() > 0;
        assert!(made, "{volume} on {target}");
        assert_eq!(sandbox.stop(&id, 0), Reply::Done);
        sandbox.exit(&id);
        assert_eq!(sandbox.remove(&id, true), Reply::Done);
    }
    assert!(!sandbox.proc_text("mountinfo").contains("/mounts/"));
}

/// Volumes below volumes, and their mount points.
#[test]
fn volumes_are_mounted_below_volumes() {
    if !can_run() {
        return;
    }
    let mut sandbox = Sandbox::start(&shell(LIVES));
    let at = |name: &str| sandbox.dir.path().join(name);
    let base = Mounts::default()
        .host_path("outer", at("outer"), HostPathKind::DirectoryOrCreate)
        .host_path("inner", at("inner"), HostPathKind::DirectoryOrCreate)
        .files("files", 1, file_set(&[("key", "value", 0o644)]));
    let mounts = base
        .clone()
        .on("outer", "/data")
        .on("inner", "/data/inner")
        .on("files", "/data/inner/files")
        .sub_path("files", "key", "/data/inner/alone");
    sandbox.mounts = mounts;
    let id = sandbox.run("c");
    run(&sandbox, &id, "touch /data/o /data/inner/i");
    assert_eq!(
        run(&sandbox, &id, "cat /data/inner/files/key /data/inner/alone"),
        "valuevalue"
    );
    assert!(at("outer/o").exists() && at("inner/i").exists());
    assert!(at("outer/inner").is_dir() && at("inner/alone").is_file());
    assert!(!at("outer/inner/i").exists());
    assert_eq!(sandbox.stop(&id, 2000), Reply::Done);
    sandbox.exit(&id);
    // A volume that is only read does not get new directories.
    sandbox.mounts = base
        .mount("outer", "/data", |_| {}, &["ro"])
        .on("inner", "/data/missing");
    let (_, reply) = sandbox.create("c");
    let Reply::Failed { message, .. } = reply else {
        panic!("{reply:?}");
    };
    assert!(message.contains("/data/missing"), "{message}");
    assert!(!at("outer/missing").exists());
}

/// Large ones, whose values agree in each generation.
fn generation(number: u32, size: usize) -> FileSet {
    let text = format!("{number} ").repeat(size / 4);
    file_set(&[("a", &text, 0o644), ("deep/b", &text, 0o644)])
}

/// V-31: the writer is killed at any point; readers never see a mixture, and the next one goes on.
#[test]
fn v_31_killed_writers_leave_one_generation_or_the_other() {
    if !can_run() {
        return;
    }
    let mut sandbox = Sandbox::start(&shell(LIVES));
    sandbox.mounts = Mounts::default()
        .files("f", 1, generation(1, 1 << 20))
        .on("f", "/f");
    let id = sandbox.run("c");
    let children = format!("task/{}/children", sandbox.pid());
    let container = sandbox.container_pid(&id);
    let root = sandbox.proc(&format!("../{container}/root/f"));
    let read = |name: &str| std::fs::read_to_string(root.join(name));
    let (mut killed, mut done) = (0, 0);
    for number in 2..extent(300, 40) {
        let payload = Payload {
            generation: u64::from(number),
            volumes: [("f".to_owned(), generation(number, 1 << 18))].into(),
        };
        let file = payload_file(&payload);
        let request = sandbox.wire.send(Request::WriteVolumes, &[file.as_fd()]);
        // A different moment each time.
        for _ in 0..number % 30 {
            let current = root.join(std::fs::read_link(root.join("..data")).unwrap());
            let pair = ["a", "deep/b"].map(|name| std::fs::read_to_string(current.join(name)));
            if let [Ok(a), Ok(b)] = pair {
                assert!(a == b && !a.is_empty());
            }
        }
        let workers = sandbox.proc_text(&children);
        let workers = workers
            .split_whitespace()
            .filter_map(|pid| pid.parse().ok());
        for worker in workers.filter(|&pid| pid != container) {
            let _ = vetch::sys::signals::send(worker, libc::SIGKILL);
        }
        match sandbox.wire.reply(request).0 {
            Reply::Done => done += 1,
            Reply::Failed { kind, message } => {
                assert_eq!(kind, FailureKind::Volume, "{message}");
                killed += 1;
            }
            Reply::Started { .. } => panic!("started"),
        }
    }
    println!("killed {killed}, done {done}");
    assert!(killed > 0);
    let last = generation(1000, 1 << 20);
    let payload = Payload {
        generation: 1000,
        volumes: [("f".to_owned(), last.clone())].into(),
    };
    let file = payload_file(&payload);
    let request = sandbox.wire.send(Request::WriteVolumes, &[file.as_fd()]);
    assert_eq!(sandbox.wire.reply(request).0, Reply::Done);
    assert_eq!(read("a").unwrap().as_bytes(), last.files["a"].data);
    assert_eq!(
        read("deep/b").unwrap().as_bytes(),
        last.files["deep/b"].data
    );
    let names = std::fs::read_dir(&root).unwrap().count();
    // ..1000, ..data, a and deep.
    assert_eq!(names, 4);
    wait_for("no workers", || {
        (sandbox.proc_text(&children).trim() == container.to_string()).then_some(())
    });
}

/// Requests that do not fit are refused, and harm nothing.
#[test]
fn bad_payloads_are_refused() {
    if !can_run() {
        return;
    }
    let mut sandbox = Sandbox::start(&shell(LIVES));
    let ask = |file: std::os::fd::OwnedFd| {
        let request = sandbox.wire.send(Request::WriteVolumes, &[file.as_fd()]);
        sandbox.wire.reply(request).0
    };
    let is_failure = |reply: &Reply, expected: FailureKind| match reply {
        Reply::Failed { kind, .. } => *kind == expected,
        Reply::Done | Reply::Started { .. } => false,
    };
    let none = sandbox.wire.ask(Request::WriteVolumes);
    assert!(is_failure(&none, FailureKind::Refused), "{none:?}");
    let memory = |text: &str| {
        let flags = rustix::fs::MemfdFlags::CLOEXEC;
        let mut file = std::fs::File::from(rustix::fs::memfd_create("x", flags).unwrap());
        std::io::Write::write_all(&mut file, text.as_bytes()).unwrap();
        file.into()
    };
    for text in ["", "{", "null", "{\"generation\": \"secret\"}"] {
        let reply = ask(memory(text));
        assert!(is_failure(&reply, FailureKind::Volume), "{reply:?}");
        assert!(!format!("{reply:?}").contains("secret"));
    }
    // Nothing is mounted there.
    let payload = Payload {
        generation: 1,
        volumes: [("f".to_owned(), file_set(&[("../x", "", 0o644)]))].into(),
    };
    assert_eq!(ask(payload_file(&payload)), Reply::Done);
    // Without its files, or with bad ones, a volume cannot be mounted.
    sandbox.mounts = Mounts::default().volume("f", Source::Files).on("f", "/f");
    let message = crate::volumes::refusal(&sandbox, "c");
    assert!(
        message.contains("\"f\": its files did not come"),
        "{message}"
    );
    sandbox.mounts = Mounts::default()
        .files("f", 1, file_set(&[("../x", "", 0o644)]))
        .on("f", "/f");
    let message = crate::volumes::refusal(&sandbox, "c");
    assert!(message.contains("leads out of the volume"), "{message}");
    sandbox.mounts = Mounts::default()
        .files("f", 1, file_set(&[("x", "1", 0o644)]))
        .on("f", "/f");
    let id = sandbox.run("c");
    assert_eq!(run(&sandbox, &id, "cat /f/x"), "1");
}
