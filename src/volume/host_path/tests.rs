use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixListener;

use super::*;

const ALL: [HostPathKind; 8] = [
    HostPathKind::Unset,
    HostPathKind::DirectoryOrCreate,
    HostPathKind::Directory,
    HostPathKind::FileOrCreate,
    HostPathKind::File,
    HostPathKind::Socket,
    HostPathKind::CharDevice,
    HostPathKind::BlockDevice,
];

fn mode(path: &Path) -> u32 {
    path.metadata().unwrap().permissions().mode() & 0o7777
}

/// V-22, V-24, V-25: by what is there, which types take it, also through a link.
#[test]
fn v_24_what_is_there_must_have_the_type() {
    let dir = tempfile::tempdir().unwrap();
    let [sub, file, socket] = ["sub", "file", "socket"].map(|name| dir.path().join(name));
    std::fs::create_dir(&sub).unwrap();
    std::fs::File::create(&file).unwrap();
    let _listener = UnixListener::bind(&socket).unwrap();
    let cases: [(&Path, &[HostPathKind]); 4] = [
        (
            &sub,
            &[
                HostPathKind::Unset,
                HostPathKind::DirectoryOrCreate,
                HostPathKind::Directory,
            ],
        ),
        (
            &file,
            &[
                HostPathKind::Unset,
                HostPathKind::FileOrCreate,
                HostPathKind::File,
            ],
        ),
        (
            &socket,
            &[
                HostPathKind::Unset,
                HostPathKind::FileOrCreate,
                HostPathKind::File,
                HostPathKind::Socket,
            ],
        ),
        (
            Path::new("/dev/null"),
            &[
                HostPathKind::Unset,
                HostPathKind::FileOrCreate,
                HostPathKind::File,
                HostPathKind::CharDevice,
            ],
        ),
    ];
    for (index, (path, fits)) in cases.into_iter().enumerate() {
        let link = dir.path().join(format!("link-{index}"));
        symlink(path, &link).unwrap();
        for kind in ALL {
            for path in [path, &link] {
                let opened = open(path, kind);
                assert_eq!(opened.is_ok(), fits.contains(&kind), "{path:?} {kind:?}");
            }
        }
    }
    let error = open(&file, HostPathKind::Directory).unwrap_err();
    let text = format!(
        "hostPath type check failed: {} is not a directory",
        file.display()
    );
    assert_eq!(error.to_string(), text);
}

/// V-20, V-21, V-23.
#[test]
fn v_21_what_is_missing_is_made_where_the_type_says_so() {
    let dir = tempfile::tempdir().unwrap();
    for (index, kind) in ALL.into_iter().enumerate() {
        let path = dir.path().join(format!("{index}/below"));
        match kind {
            HostPathKind::Unset | HostPathKind::DirectoryOrCreate => {
                open(&path, kind).unwrap();
                assert_eq!((path.is_dir(), mode(&path)), (true, 0o755));
            }
            HostPathKind::FileOrCreate => {
                open(&path, kind).unwrap_err();
                assert!(!path.parent().unwrap().exists());
                let path = dir.path().join("file");
                open(&path, kind).unwrap();
                assert_eq!((path.is_file(), mode(&path)), (true, 0o644));
            }
            HostPathKind::Directory
            | HostPathKind::File
            | HostPathKind::Socket
            | HostPathKind::CharDevice
            | HostPathKind::BlockDevice => {
                let text = open(&path, kind).unwrap_err().to_string();
                assert!(text.starts_with("hostPath type check failed: "), "{text}");
                assert!(!path.parent().unwrap().exists());
            }
        }
    }
}

/// D-16.
#[test]
fn d_16_a_device_has_its_number() {
    let null = open(Path::new("/dev/null"), HostPathKind::CharDevice).unwrap();
    let granted = device(&null, HostPathKind::CharDevice).unwrap().unwrap();
    assert_eq!((granted.major, granted.minor), (1, 3));
    assert_eq!(device(&null, HostPathKind::Unset).unwrap(), None);
}
