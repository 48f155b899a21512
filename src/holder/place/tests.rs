use std::fs;
use std::os::fd::AsFd;
use std::os::unix::fs::symlink;

use oci_spec::runtime::MountBuilder;

use super::*;

fn mount(kind: &str, target: &str, source: &Path) -> Mount {
    MountBuilder::default()
        .typ(kind)
        .destination(target)
        .source(source)
        .build()
        .unwrap()
}

/// Makes mount points for a file at each of `targets`, after a mount on /dev.
fn make(root: &Path, targets: &[&str]) -> Result<(), (PathBuf, io::Error)> {
    let source = tempfile::NamedTempFile::new().unwrap();
    let mut mounts = vec![mount("tmpfs", "/dev", Path::new("tmpfs"))];
    mounts.extend(targets.iter().map(|t| mount("bind", t, source.path())));
    make_mount_points(fs::File::open(root).unwrap().as_fd(), &mounts)
}

#[test]
fn links_that_lead_nowhere_lead_to_a_file_inside() {
    let outside = tempfile::tempdir().unwrap();
    let root = tempfile::tempdir().unwrap();
    let at = |path: &str| root.path().join(path);
    fs::create_dir(at("etc")).unwrap();
    symlink("../tmp/resolv.conf", at("etc/resolv.conf")).unwrap();
    symlink(outside.path().join("hosts"), at("etc/hosts")).unwrap();
    symlink("../../../../run/log", at("etc/log")).unwrap();
    make(
        root.path(),
        &["/etc/resolv.conf", "/etc/hosts", "/etc/log/message"],
    )
    .unwrap();
    assert!(at("tmp/resolv.conf").is_file());
    assert!(at("run/log/message").is_file());
    let inside = outside.path().strip_prefix("/").unwrap().join("hosts");
    assert!(root.path().join(inside).is_file());
    assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 0);
}

#[test]
fn links_in_a_circle_or_into_another_mount_give_way() {
    let root = tempfile::tempdir().unwrap();
    let at = |path: &str| root.path().join(path);
    fs::create_dir(at("etc")).unwrap();
    fs::create_dir(at("dev")).unwrap();
    symlink("hosts", at("etc/hosts")).unwrap();
    symlink("/dev/shm/resolv.conf", at("etc/resolv.conf")).unwrap();
    let targets = ["/etc/hosts", "/etc/resolv.conf", "/dev/termination-log"];
    make(root.path(), &targets).unwrap();
    for made in ["etc/hosts", "etc/resolv.conf"] {
        assert!(at(made).symlink_metadata().unwrap().is_file(), "{made}");
    }
    assert_eq!(fs::read_dir(at("dev")).unwrap().count(), 0);
}

#[test]
fn what_is_there_stays_and_a_file_in_the_way_is_named() {
    let root = tempfile::tempdir().unwrap();
    let at = |path: &str| root.path().join(path);
    fs::create_dir(at("etc")).unwrap();
    fs::File::create(at("etc/real")).unwrap();
    symlink("real", at("etc/hosts")).unwrap();
    make(root.path(), &["/etc/hosts"]).unwrap();
    assert!(at("etc/hosts").symlink_metadata().unwrap().is_symlink());
    let (path, error) = make(root.path(), &["/etc/hosts/below"]).unwrap_err();
    assert_eq!(path, Path::new("/etc/hosts/below"));
    assert_eq!(error.kind(), io::ErrorKind::NotADirectory);
}

/// A volume below a volume: its mount point is made in the outer one, as the container sees it.
#[test]
fn mount_points_below_volumes_are_made_in_them() {
    let root = tempfile::tempdir().unwrap();
    let [outer, inner, reads] = [(); 3].map(|()| tempfile::tempdir().unwrap());
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::create_dir_all(root.path().join("data/sub")).unwrap();
    symlink("/etc", outer.path().join("out")).unwrap();
    symlink("loop", outer.path().join("loop")).unwrap();
    let bind = |target: &str, source: &Path, option: &str| {
        let mut mount = mount("bind", target, source);
        mount.set_options(Some(vec!["rbind".into(), option.into()]));
        mount
    };
    let make = |target: &str| {
        let mounts = [
            bind("/data", outer.path(), "rw"),
            bind("/reads", reads.path(), "ro"),
            bind(target, inner.path(), "rw"),
            bind(target, file.path(), "rw"),
            bind(&format!("{target}/deep/file"), file.path(), "rw"),
        ];
        make_mount_points(fs::File::open(root.path()).unwrap().as_fd(), &mounts[..3]).and_then(
            |()| make_mount_points(fs::File::open(root.path()).unwrap().as_fd(), &mounts[..4]),
        )
    };
    make("/data/sub").unwrap();
    assert!(outer.path().join("sub").is_dir());
    make("/data/new/newer").unwrap();
    assert!(outer.path().join("new/newer").is_dir());
    assert!(!root.path().join("data/new").exists());
    // In the container's own /etc.
    make("/data/out/x").unwrap();
    assert!(root.path().join("etc/x").is_dir());
    assert!(!Path::new("/etc/x").exists());
    let (_, error) = make("/data/loop").unwrap_err();
    assert_eq!(error.raw_os_error(), Some(libc::ELOOP));
    assert!(outer.path().join("loop").symlink_metadata().is_ok());
    let (_, error) = make("/reads/new").unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::ReadOnlyFilesystem);
    assert_eq!(fs::read_dir(reads.path()).unwrap().count(), 0);
    assert_eq!(fs::read_dir(inner.path()).unwrap().count(), 0);
}

/// Also by a link of the image: /proc is how a container is confined.
#[test]
fn nothing_is_mounted_below_proc_but_what_may_be() {
    let root = tempfile::tempdir().unwrap();
    symlink("/proc/self", root.path().join("me")).unwrap();
    let file = tempfile::NamedTempFile::new().unwrap();
    let make = |target: &str| {
        let proc = mount("proc", "/proc", Path::new("proc"));
        let mounts = [proc, mount("bind", target, file.path())];
        make_mount_points(fs::File::open(root.path()).unwrap().as_fd(), &mounts)
    };
    for target in ["/proc/self/attr", "/proc/x", "/me/attr", "/proc/sys/kernel"] {
        let (_, error) = make(target).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::PermissionDenied, "{target}");
    }
    make("/proc/cpuinfo").unwrap();
    assert!(!root.path().join("proc/cpuinfo").exists());
}

/// libcontainer would make its links in the directory of the host that such a link leads to.
#[test]
fn links_where_a_file_system_of_the_kernel_goes_give_way() {
    let outside = tempfile::tempdir().unwrap();
    let root = tempfile::tempdir().unwrap();
    let at = |path: &str| root.path().join(path);
    symlink(outside.path(), at("dev")).unwrap();
    symlink("dev", at("sys")).unwrap();
    let kernel = |target| mount("tmpfs", target, Path::new("tmpfs"));
    let mounts = ["/proc", "/dev", "/dev/pts", "/sys", "/sys/fs/cgroup"].map(kernel);
    make_mount_points(fs::File::open(root.path()).unwrap().as_fd(), &mounts).unwrap();
    for made in ["proc", "dev", "sys"] {
        assert!(at(made).symlink_metadata().unwrap().is_dir(), "{made}");
        assert_eq!(fs::read_dir(at(made)).unwrap().count(), 0, "{made}");
    }
    assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 0);
}

#[test]
fn a_link_to_the_root_gives_way() {
    let root = tempfile::tempdir().unwrap();
    let data = root.path().join("data");
    symlink("/", &data).unwrap();
    make(root.path(), &["/data"]).unwrap();
    assert!(data.symlink_metadata().unwrap().is_file());
}

/// Another container of the pod may have put it there.
#[test]
fn a_link_in_a_volume_leads_nothing_over_what_is_the_kernels() {
    let root = tempfile::tempdir().unwrap();
    let volume = tempfile::tempdir().unwrap();
    symlink("/dev", volume.path().join("link")).unwrap();
    let mounts = [
        mount("tmpfs", "/dev", Path::new("tmpfs")),
        mount("bind", "/v", volume.path()),
        mount("bind", "/v/link", volume.path()),
    ];
    let made = make_mount_points(fs::File::open(root.path()).unwrap().as_fd(), &mounts);
    assert_eq!(made.unwrap_err().0, Path::new("/v/link"));
    assert!(
        volume
            .path()
            .join("link")
            .symlink_metadata()
            .unwrap()
            .is_symlink()
    );
}

/// What waits in /dev for its place there is looked at like any volume.
#[test]
fn a_volume_in_an_empty_mount_is_seen() {
    let root = tempfile::tempdir().unwrap();
    let volume = tempfile::tempdir().unwrap();
    symlink("/proc", volume.path().join("log")).unwrap();
    let make = |target| {
        let mounts = [
            mount("proc", "/proc", Path::new("proc")),
            mount("tmpfs", "/dev", Path::new("tmpfs")),
            mount("bind", "/dev/.volume", volume.path()),
            mount("bind", target, volume.path()),
        ];
        make_mount_points(fs::File::open(root.path()).unwrap().as_fd(), &mounts)
    };
    make("/dev/.volume/shm").unwrap();
    assert!(volume.path().join("shm").is_dir());
    assert!(make("/dev/.volume/log").is_err(), "a link into /proc");
    assert!(!root.path().join("dev/.volume").exists());
}
