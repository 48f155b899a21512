//! Devices by the Container Device Interface (D-16): what its files say, and what that changes in a container. Pure; the
//! agent finds the files, and looks up what they leave open.

use std::path::PathBuf;

use oci_spec::runtime::{
    Hook, Hooks, LinuxDeviceBuilder, LinuxDeviceCgroup, LinuxDeviceCgroupBuilder, LinuxDeviceType,
    Mount, MountBuilder, Process, Spec,
};

mod parse;

pub use parse::{Problem, parse};

#[cfg(test)]
mod tests;

/// One file.
#[derive(Debug, Clone, PartialEq)]
pub struct SpecFile {
    /// `vendor.com/class`.
    pub kind: String,
    /// For every container that has one of its devices.
    pub edits: Edits,
    /// By name, in the order of the file.
    pub devices: Vec<(String, Edits)>,
}

/// Changes to a container.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Edits {
    /// `NAME=value`, winning over what is there.
    pub env: Vec<String>,
    /// Nodes to make, and to allow.
    pub nodes: Vec<DeviceNode>,
    /// To mount, instead of what is there.
    pub mounts: Vec<CdiMount>,
    /// To run.
    pub hooks: Vec<(HookPoint, Hook)>,
    /// Supplementary groups.
    pub gids: Vec<u32>,
}

/// A device node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DeviceNode {
    /// In the container.
    pub path: PathBuf,
    /// On the node; the same if there is none.
    pub host_path: Option<PathBuf>,
    /// As the host's if not said.
    pub kind: Option<LinuxDeviceType>,
    /// Major and minor, as the host's if not said.
    pub numbers: Option<(i64, i64)>,
    /// Permissions of the node.
    pub file_mode: Option<u32>,
    /// Some of `rwm`, all if not said.
    pub access: Option<String>,
    /// Owner; that of the container's process if not said.
    pub uid: Option<u32>,
    /// Group; likewise.
    pub gid: Option<u32>,
}

/// A mount.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CdiMount {
    /// On the node.
    pub host_path: PathBuf,
    /// In the container.
    pub path: PathBuf,
    /// A bind mount if not said.
    pub kind: Option<String>,
    /// As for mount(8).
    pub options: Vec<String>,
}

impl CdiMount {
    /// Its source is a file or a directory of the node.
    pub fn is_bind(&self) -> bool {
        let kind = self.kind.as_deref().unwrap_or_default();
        matches!(kind, "" | "bind" | "none")
    }
}

/// When a hook runs. Those that libcontainer runs for us, and confined: `startContainer` hooks would run in the container
/// before it is confined, and its containers are removed without it, so that `poststop` hooks would never run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HookPoint {
    /// In the holder's namespaces, once the container's are there.
    Prestart,
    /// The same, after those.
    CreateRuntime,
    /// In the container's namespaces, before its root is changed.
    CreateContainer,
    /// In the holder's namespaces, once the program runs.
    Poststart,
}

/// Changes a specification.
pub fn apply(spec: &mut Spec, edits: &Edits) {
    if let Some(process) = spec.process_mut() {
        set_env(process, &edits.env);
        add_gids(process, &edits.gids);
    }
    let owner = spec.process().as_ref().map(|process| {
        let user = process.user();
        (user.uid(), user.gid())
    });
    for node in &edits.nodes {
        add_node(spec, node, owner.unwrap_or_default());
    }
    add_mounts(spec, &edits.mounts);
    add_hooks(spec, &edits.hooks);
}

fn set_env(process: &mut Process, wanted: &[String]) {
    let mut env = process.env().clone().unwrap_or_default();
    for entry in wanted {
        let name = |entry: &str| entry.split('=').next().map(str::to_owned);
        match env.iter_mut().find(|old| name(old) == name(entry)) {
            Some(old) => old.clone_from(entry),
            None => env.push(entry.clone()),
        }
    }
    process.set_env(Some(env));
}

fn add_gids(process: &mut Process, wanted: &[u32]) {
    let user = process.user_mut();
    let mut gids = user.additional_gids().clone().unwrap_or_default();
    for gid in wanted {
        if !gids.contains(gid) {
            gids.push(*gid);
        }
    }
    if !gids.is_empty() {
        user.set_additional_gids(Some(gids));
    }
}

fn add_node(spec: &mut Spec, node: &DeviceNode, (uid, gid): (u32, u32)) {
    let (Some(linux), Some(kind)) = (spec.linux_mut(), node.kind) else {
        return;
    };
    let (major, minor) = node.numbers.unwrap_or_default();
    let mut device = LinuxDeviceBuilder::default()
        .path(&node.path)
        .typ(kind)
        .major(major)
        .minor(minor)
        .build()
        .expect("every field has a default");
    device
        .set_file_mode(node.file_mode)
        .set_uid(Some(node.uid.unwrap_or(uid)))
        .set_gid(Some(node.gid.unwrap_or(gid)));
    let mut devices = linux.devices().clone().unwrap_or_default();
    devices.retain(|old| old.path() != &node.path);
    devices.push(device);
    linux.set_devices(Some(devices));

    if kind == LinuxDeviceType::P {
        return;
    }
    let rule: LinuxDeviceCgroup = LinuxDeviceCgroupBuilder::default()
        .allow(true)
        .typ(kind)
        .major(major)
        .minor(minor)
        .access(node.access.as_deref().unwrap_or("rwm"))
        .build()
        .expect("every field has a default");
    let mut resources = linux.resources().clone().unwrap_or_default();
    let mut rules = resources.devices().clone().unwrap_or_default();
    rules.push(rule);
    resources.set_devices(Some(rules));
    linux.set_resources(Some(resources));
}

/// Parents first, as before.
fn add_mounts(spec: &mut Spec, wanted: &[CdiMount]) {
    if wanted.is_empty() {
        return;
    }
    let mut mounts = spec.mounts().clone().unwrap_or_default();
    for new in wanted {
        mounts.retain(|old| old.destination() != &new.path);
        mounts.push(mount(new));
    }
    mounts.sort_by_key(|mount| mount.destination().components().count());
    spec.set_mounts(Some(mounts));
}

fn mount(wanted: &CdiMount) -> Mount {
    let mut options = wanted.options.clone();
    let binds = options.iter().any(|o| o == "bind" || o == "rbind");
    let kind = match wanted.kind.as_deref() {
        Some(kind) if !wanted.is_bind() => kind,
        Some(_) | None => {
            if !binds {
                options.push("rbind".to_owned());
            }
            "bind"
        }
    };
    MountBuilder::default()
        .destination(&wanted.path)
        .typ(kind)
        .source(&wanted.host_path)
        .options(options)
        .build()
        .expect("no id mappings that could contradict each other")
}

fn add_hooks(spec: &mut Spec, wanted: &[(HookPoint, Hook)]) {
    if wanted.is_empty() {
        return;
    }
    let mut hooks = spec.hooks().clone().unwrap_or_default();
    for (point, hook) in wanted {
        add_hook(&mut hooks, *point, hook.clone());
    }
    spec.set_hooks(Some(hooks));
}

fn add_hook(hooks: &mut Hooks, point: HookPoint, hook: Hook) {
    let with = |old: &Option<Vec<Hook>>| {
        let old = old.iter().flatten().cloned();
        Some(old.chain([hook]).collect())
    };
    match point {
        HookPoint::Prestart => hooks.set_prestart(with(hooks.prestart())),
        HookPoint::CreateRuntime => hooks.set_create_runtime(with(hooks.create_runtime())),
        HookPoint::CreateContainer => hooks.set_create_container(with(hooks.create_container())),
        HookPoint::Poststart => hooks.set_poststart(with(hooks.poststart())),
    };
}
