use super::*;

/// Runs a test that mounts something: in a mount namespace of its own, out of which nothing gets, and which ends with
/// its thread.
pub(crate) fn apart(test: impl FnOnce() + Send + 'static) {
    if !rustix::process::geteuid().is_root() {
        println!("SKIPPED: mounts need root");
        return;
    }
    let thread = std::thread::Builder::new().spawn(|| {
        #[expect(
            deprecated,
            reason = "this thread shares nothing with others afterwards"
        )]
        rustix::thread::unshare(rustix::thread::UnshareFlags::NEWNS).unwrap();
        let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
        mount_change("/", private).unwrap();
        test();
    });
    thread.unwrap().join().unwrap();
}

#[test]
fn lines_of_the_kernel_are_understood() {
    let line = br"36 35 98:0 /mnt1 /mnt\0402\134 rw,noatime master:1 shared:7 - ext3 /dev/root rw,errors=continue";
    let mount = parse(line).unwrap();
    assert_eq!(
        (mount.id, mount.is_shared, mount.is_slave),
        (36, true, true)
    );
    assert_eq!(mount.point, Path::new("/mnt 2\\"));
    let mount = parse(b"36 35 98:0 / / rw - ext3 /dev/shared: rw").unwrap();
    assert!(!mount.is_shared && !mount.is_slave);
    assert_eq!(parse(b""), None);
}

#[test]
fn the_mount_of_a_file_is_found() {
    let proc = std::fs::File::open("/proc/self/status").unwrap();
    assert_eq!(of(&proc).unwrap().point, Path::new("/proc"));
    assert!(is_point(Path::new("/proc")).unwrap());
    assert!(!is_point(Path::new("/proc/self/task")).unwrap());
    assert!(!is_point(Path::new("/nonexistent/x")).unwrap());
}
