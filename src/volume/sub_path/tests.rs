use std::fs::{self, File};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

use super::*;

struct Volume {
    dir: tempfile::TempDir,
    root: OwnedFd,
}

impl Volume {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("volume");
        fs::create_dir(&path).unwrap();
        fs::create_dir(dir.path().join("outside")).unwrap();
        File::create(dir.path().join("outside/file")).unwrap();
        let root = File::open(&path).unwrap().into();
        Self { dir, root }
    }

    fn at(&self, path: &str) -> PathBuf {
        self.dir.path().join("volume").join(path)
    }

    fn open(&self, path: &str) -> Result<PathBuf, Problem> {
        use std::os::fd::AsRawFd;
        let file = open(self.root.as_fd(), Path::new(path), None)?;
        let link = format!("/proc/self/fd/{}", file.as_raw_fd());
        Ok(fs::read_link(link).unwrap())
    }
}

#[test]
fn v_53_files_and_directories_are_found() {
    let volume = Volume::new();
    fs::create_dir_all(volume.at("a/b")).unwrap();
    File::create(volume.at("a/file")).unwrap();
    for path in ["a", "a/b", "a/file"] {
        assert_eq!(volume.open(path).unwrap(), volume.at(path));
    }
    assert!(volume.open("a/file/below").is_err());
}

/// V-53: inside is fine, outside is an error, and nothing is made there.
#[test]
fn v_53_a_sub_path_cannot_leave_its_volume_by_a_link() {
    let volume = Volume::new();
    fs::create_dir_all(volume.at("a/b")).unwrap();
    symlink("a", volume.at("inside")).unwrap();
    symlink("../a/./b", volume.at("a/also")).unwrap();
    assert_eq!(volume.open("inside/b").unwrap(), volume.at("a/b"));
    assert_eq!(volume.open("inside/also").unwrap(), volume.at("a/b"));
    assert_eq!(volume.open("inside/new").unwrap(), volume.at("a/new"));

    symlink("../outside", volume.at("up")).unwrap();
    symlink(volume.dir.path().join("outside"), volume.at("absolute")).unwrap();
    symlink("/proc/self/root", volume.at("magic")).unwrap();
    symlink("a/../../volume/a", volume.at("out-and-in")).unwrap();
    for path in [
        "up",
        "up/file",
        "up/new",
        "absolute/file",
        "absolute/new/newer",
        "magic/etc",
        "out-and-in",
        "..",
        "a/../../outside",
        "new/../../outside/new",
        "/etc",
    ] {
        let error = volume.open(path).unwrap_err();
        assert!(matches!(error, Problem::Escape(_)), "{path}: {error:?}");
    }
    let outside = fs::read_dir(volume.dir.path().join("outside")).unwrap();
    assert_eq!(outside.count(), 1);
}

#[test]
fn a_link_that_leads_nowhere_is_an_error() {
    let volume = Volume::new();
    symlink("nowhere", volume.at("dangling")).unwrap();
    symlink("loop", volume.at("loop")).unwrap();
    for path in ["dangling", "dangling/below", "loop"] {
        let error = volume.open(path).unwrap_err();
        assert!(matches!(error, Problem::SubPath { .. }), "{error:?}");
    }
    assert!(!volume.at("nowhere").exists());
}

/// V-53: like the volume itself.
#[test]
fn v_53_missing_directories_are_made_with_the_volumes_mode_and_group() {
    let volume = Volume::new();
    fs::set_permissions(volume.at(""), fs::Permissions::from_mode(0o2770)).unwrap();
    let is_root = rustix::process::geteuid().is_root();
    let gid = if is_root {
        4711
    } else {
        rustix::process::getegid().as_raw()
    };
    open(volume.root.as_fd(), Path::new("./x/y"), Some(gid)).unwrap();
    for path in ["x", "x/y"] {
        let made = volume.at(path).metadata().unwrap();
        assert_eq!((made.mode() & 0o7777, made.gid()), (0o2770, gid));
    }
    let before = volume.at("x").metadata().unwrap();
    fs::set_permissions(volume.at("x"), fs::Permissions::from_mode(0o700)).unwrap();
    open(volume.root.as_fd(), Path::new("x"), None).unwrap();
    let after = volume.at("x").metadata().unwrap();
    assert_eq!((after.mode() & 0o7777, after.gid()), (0o700, before.gid()));
}

/// V-53: whoever exchanges a directory for a link all the time wins nothing.
#[test]
fn v_53_a_race_leads_nowhere_else() {
    use std::sync::atomic::{AtomicBool, Ordering};
    let volume = Volume::new();
    fs::create_dir_all(volume.at("dir/x")).unwrap();
    symlink("../outside", volume.at("link")).unwrap();
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                let flags = rustix::fs::RenameFlags::EXCHANGE;
                let (a, b) = (volume.at("dir"), volume.at("link"));
                rustix::fs::renameat_with(rustix::fs::CWD, a, rustix::fs::CWD, b, flags).unwrap();
            }
        });
        let (mut opened, mut refused, mut rounds) = (0, 0, 0);
        // Until each has won often: the other thread may not run for a while.
        while (opened < 100 || refused < 100) && rounds < 5_000_000 {
            match volume.open(["dir/x", "dir/new", "dir/new/newer"][rounds % 3]) {
                Ok(place) if place.starts_with(volume.at("")) => opened += 1,
                Ok(place) => {
                    over.store(true, Ordering::Relaxed);
                    panic!("{place:?}");
                }
                Err(_) => refused += 1,
            }
            rounds += 1;
        }
        over.store(true, Ordering::Relaxed);
        assert!(opened >= 100 && refused >= 100, "{opened}, {refused}");
    });
    let outside = fs::read_dir(volume.dir.path().join("outside")).unwrap();
    assert_eq!(outside.count(), 1);
}
