//! What a container sees beside its root: the fixed mounts (C-65…C-67), and over them the volumes (C-68).

use std::path::{Component, Path, PathBuf};

use k8s_openapi::api::core::v1::Container;
use oci_spec::runtime::{Mount, MountBuilder};

use super::security::Rights;
use super::{ContainerInput, ManagedFiles};

/// On v1: what programs read to learn their limits. The rest of the hierarchies is nobody's business.
const VISIBLE_V1_CONTROLLERS: [&str; 5] = ["cpu", "cpuacct", "cpuset", "memory", "pids"];

/// Where a volume for `/dev` waits, and what belongs below it: libcontainer makes nodes and links in `/dev`, and nothing
/// shall be made in a volume. The executor moves it onto `/dev`, which then looks as if it had been a mount like others.
pub const WAITING_DEV: &str = "/dev/.volume";

/// All mounts, parents first: those of the kernel, then by the length of their paths what the pod brings along, of which
/// `volumes` win over our own files.
pub fn mounts(input: &ContainerInput<'_>, rights: &Rights, volumes: &[Mount]) -> Vec<Mount> {
    let targets: Vec<&PathBuf> = volumes.iter().map(Mount::destination).collect();
    let mut mounts = kernel_mounts(input, rights);
    // What is covered whole cannot be mounted below either.
    mounts.retain(|mount| {
        let is_covered = targets.iter().any(|at| mount.destination().starts_with(at));
        !is_covered || mount.destination() == Path::new("/dev")
    });
    let mut ours = own_mounts(input, rights);
    ours.retain(|mount| !targets.iter().any(|at| clean(mount.destination()) == **at));
    ours.extend_from_slice(volumes);
    ours.sort_by_key(|mount| mount.destination().components().count());
    if covers_dev(input.container) {
        ours.iter_mut().for_each(wait_for_dev);
    }
    mounts.extend(ours);
    mounts
}

/// A volume is mounted on `/dev`.
pub(super) fn covers_dev(container: &Container) -> bool {
    let mut wanted = container.volume_mounts.iter().flatten();
    wanted.any(|mount| clean(Path::new(&mount.mount_path)) == Path::new("/dev"))
}

fn wait_for_dev(mount: &mut Mount) {
    let moved = mount.destination().strip_prefix("/dev");
    if let Ok(below) = moved.map(|below| Path::new(WAITING_DEV).join(below)) {
        // Joined with nothing, it would end in a slash.
        mount.set_destination(below.components().collect());
    }
}

/// V-56: below the root, whatever is written.
pub(super) fn clean(path: &Path) -> PathBuf {
    let mut target = PathBuf::from("/");
    for component in path.components() {
        match component {
            Component::Normal(name) => target.push(name),
            Component::ParentDir => {
                target.pop();
            }
            Component::RootDir | Component::CurDir | Component::Prefix(_) => {}
        }
    }
    target
}

/// C-65.
fn kernel_mounts(input: &ContainerInput<'_>, rights: &Rights) -> Vec<Mount> {
    let access = if rights.privileged { "rw" } else { "ro" };
    let mut mounts = vec![
        kernel("/proc", "proc", &["nosuid", "noexec", "nodev"]),
        // libcontainer makes the device nodes here, so it must be a mount of its own.
        kernel(
            "/dev",
            "tmpfs",
            &["nosuid", "strictatime", "mode=755", "size=65536k"],
        ),
        kernel(
            "/dev/pts",
            "devpts",
            &[
                "nosuid",
                "noexec",
                "newinstance",
                "ptmxmode=0666",
                "mode=0620",
                "gid=5",
            ],
        ),
        kernel("/dev/mqueue", "mqueue", &["nosuid", "noexec", "nodev"]),
        kernel("/sys", "sysfs", &["nosuid", "noexec", "nodev", access]),
    ];
    mounts.extend(cgroup_mounts(input, access));
    mounts
}

/// C-66, C-67, P-170.
fn own_mounts(input: &ContainerInput<'_>, rights: &Rights) -> Vec<Mount> {
    let mut mounts = vec![bind(
        "/dev/shm",
        &input.files.shm,
        &["rbind", "nosuid", "nodev", "noexec", "rw"],
    )];
    mounts.extend(managed_files(input.files, rights));
    if let Some(file) = &input.files.termination_message {
        let path = input.container.termination_message_path.as_deref();
        let path = path.unwrap_or("/dev/termination-log");
        // A file for it would have to be made in the node's /dev; validation says that there is none.
        let is_in_volume =
            clean(Path::new(path)).starts_with("/dev") && covers_dev(input.container);
        if !is_in_volume {
            mounts.push(bind(path, file, &["rbind", "rw"]));
        }
    }
    mounts
}

/// C-65. On v2 libcontainer mounts the container's own view (private cgroup namespace). On v1 it would bind every
/// hierarchy writable whatever the options say, and fail on a private cgroup namespace with co-mounted controllers, so
/// the container's own directories are bound here, read-only.
fn cgroup_mounts(input: &ContainerInput<'_>, access: &str) -> Vec<Mount> {
    const ROOT: &str = "/sys/fs/cgroup";
    let options = ["nosuid", "noexec", "nodev", "relatime", access];
    if input.node.unified_cgroups {
        return vec![kernel(ROOT, "cgroup", &options)];
    }
    // `cpu,cpuacct` of systemd's are two controllers in one hierarchy; programs look for them by one name.
    let directory = |name: &str| {
        let mut directories = input.node.v1_controllers.iter();
        directories.find(|directory| directory.split(',').any(|known| known == name))
    };
    let shown: Vec<(&str, &String)> = VISIBLE_V1_CONTROLLERS
        .into_iter()
        .filter_map(|name| Some((name, directory(name)?)))
        .collect();
    if shown.is_empty() {
        return Vec::new();
    }
    let own = input
        .cgroup_path
        .strip_prefix("/")
        .unwrap_or(input.cgroup_path);
    let tmpfs = kernel(
        ROOT,
        "tmpfs",
        &["nosuid", "noexec", "nodev", "mode=755", "size=64k"],
    );
    let binds = shown.into_iter().map(|(name, directory)| {
        let source = Path::new(ROOT).join(directory).join(own);
        let target = Path::new(ROOT).join(name);
        bind(
            target,
            &source,
            &["bind", "nosuid", "noexec", "nodev", access],
        )
    });
    std::iter::once(tmpfs).chain(binds).collect()
}

/// C-67 and C-45: with a read-only root, /etc/hosts alone stays writable.
fn managed_files(files: &ManagedFiles, rights: &Rights) -> Vec<Mount> {
    let access = if rights.read_only_root { "ro" } else { "rw" };
    [
        ("/etc/hosts", &files.hosts, "rw"),
        ("/etc/hostname", &files.hostname, access),
        ("/etc/resolv.conf", &files.resolv_conf, access),
    ]
    .into_iter()
    .filter_map(|(target, file, access)| Some(bind(target, file.as_ref()?, &["rbind", access])))
    .collect()
}

/// A file system of the kernel; its source is its type.
fn kernel(target: &str, kind: &str, options: &[&str]) -> Mount {
    mount(target.into(), kind, kind.into(), options)
}

/// A bind mount. Propagation options are left out: libcontainer 0.7 ignores them (youki #3604).
pub(super) fn bind(target: impl Into<PathBuf>, source: &Path, options: &[&str]) -> Mount {
    mount(target.into(), "bind", source.into(), options)
}

fn mount(target: PathBuf, kind: &str, source: PathBuf, options: &[&str]) -> Mount {
    let options: Vec<String> = options.iter().map(|&option| option.to_owned()).collect();
    MountBuilder::default()
        .destination(target)
        .typ(kind)
        .source(source)
        .options(options)
        .build()
        .expect("no id mappings that could contradict each other")
}

#[cfg(test)]
mod tests;
