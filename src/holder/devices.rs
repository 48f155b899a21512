//! The node's devices, for containers that get all of them (C-43): what is in /dev when the container starts, as other
//! runtimes have it.

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

use oci_spec::runtime::{LinuxDevice, LinuxDeviceBuilder, LinuxDeviceType, Mount};

/// Most nodes that a container gets. A machine with every port of a terminal server has some hundreds.
const MAX_NODES: usize = 4096;
/// Levels of directories below /dev.
const MAX_DEPTH: u32 = 8;
/// Permission bits of a node.
const MODE: u32 = 0o777;

/// Directories that are mounts of the container's own, or of others that manage containers.
const PASSED_OVER: [&str; 7] = ["pts", "shm", "fd", "mqueue", ".lxc", ".lxd-mounts", ".udev"];
/// Nodes that a container has of its own, or none of.
const OWN: [&str; 2] = ["console", "ptmx"];

/// The node's devices, but for those below the target of a mount other than /dev itself: there it is the mount that says
/// what is seen.
pub(super) fn of_node(mounts: &[Mount]) -> Vec<LinuxDevice> {
    let dev = Path::new("/dev");
    let mut nodes = Vec::new();
    walk(dev, 0, &mut nodes);
    let is_covered = |path: &Path| {
        let targets = mounts.iter().map(Mount::destination);
        let mut below = targets.filter(|target| target.starts_with(dev) && *target != dev);
        below.any(|target| path.starts_with(target))
    };
    nodes.retain(|node| !is_covered(node.path()));
    nodes
}

/// What vanishes meanwhile is not there.
fn walk(dir: &Path, depth: u32, nodes: &mut Vec<LinuxDevice>) {
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let path = entry.path();
        let name = entry.file_name();
        // Links are not followed.
        let Ok(metadata) = fs::symlink_metadata(&path) else {
            continue;
        };
        if metadata.is_dir() {
            let is_passed_over = PASSED_OVER.iter().any(|other| name == *other);
            if !is_passed_over && depth < MAX_DEPTH {
                walk(&path, depth + 1, nodes);
            }
        } else if nodes.len() < MAX_NODES && !OWN.iter().any(|own| name == *own) {
            nodes.extend(device(&path, &metadata));
        }
    }
}

fn device(path: &Path, metadata: &fs::Metadata) -> Option<LinuxDevice> {
    let kind = metadata.file_type();
    let typ = if kind.is_char_device() {
        LinuxDeviceType::C
    } else if kind.is_block_device() {
        LinuxDeviceType::B
    } else {
        return None;
    };
    LinuxDeviceBuilder::default()
        .path(path)
        .typ(typ)
        .major(i64::from(rustix::fs::major(metadata.rdev())))
        .minor(i64::from(rustix::fs::minor(metadata.rdev())))
        .file_mode(metadata.mode() & MODE)
        .uid(metadata.uid())
        .gid(metadata.gid())
        .build()
        .ok()
}
