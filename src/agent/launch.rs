//! From "start this container" to a bundle on disk and the request for its holder. Reads small files of the image and
//! writes small files of the pod; waits for nothing.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use k8s_openapi::api::core::v1::Container;
use oci_spec::runtime::Spec;

use super::cdi::{CdiError, find as find_devices};
use super::confine;
use super::older::{self, TooOld};
use super::pod_files;
use super::sandboxes::Congested;
use super::store::{self, WriteError};
use crate::config::Config;
use crate::error::chain;
use crate::holder::logs::link_name;
use crate::holder::proto::{
    ContainerRecord, CreateContainer, LinuxUser, LogSpec, PodRecord, Rootfs,
};
use crate::image::{Image, Store, StoreError};
use crate::oci::{self, ContainerInput, Launch, NodeFacts, VolumePlaces};
use crate::plan::{self, ImagePresence};
use crate::pod::objects::Objects;
use crate::pod::{StaticPod, cdi, hook, lifecycle};
use crate::volume::spec::Payload;

#[cfg(test)]
mod tests;

/// What all launches need.
#[derive(Debug, Clone, Copy)]
pub struct Ground<'a> {
    /// Settings.
    pub config: &'a Config,
    /// The node.
    pub node: &'a NodeFacts,
    /// Images.
    pub store: &'a Store,
    /// ConfigMaps and Secrets.
    pub objects: &'a Objects,
}

/// One container to be made.
#[derive(Debug, Clone, Copy)]
pub struct Order<'a> {
    /// Its sandbox.
    pub record: &'a PodRecord,
    /// The pod as it is wanted now; with a fixed UID it may differ from the record's.
    pub pod: &'a StaticPod,
    /// `containers[].name`.
    pub container: &'a str,
    /// P-47.
    pub restart_count: u32,
    /// Instances that exist; their files are kept.
    pub existing: &'a [ContainerRecord],
}

/// A container that can be made.
#[derive(Debug)]
pub struct Prepared {
    /// The request.
    pub create: CreateContainer,
    /// The contents of its volumes of files, still without generation.
    pub payload: Payload,
    /// See [`Launch::notes`].
    pub notes: Vec<String>,
}

/// Why a container cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    /// The plan was made for another pod.
    #[error("the pod has no container {0:?}")]
    NoContainer(String),
    /// It was removed since the plan looked.
    #[error("image {0:?} is not in the local store")]
    NoImage(String),
    /// The store cannot be read.
    #[error("read the image")]
    Store(#[from] StoreError),
    /// The manifest and the image do not go together.
    #[error(transparent)]
    Config(#[from] oci::ConfigError),
    /// A file of the pod.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// C-51.
    #[error(transparent)]
    Seccomp(#[from] confine::ProfileFileError),
    /// Its holder was started by an older version.
    #[error(transparent)]
    TooOld(#[from] TooOld),
    /// The memory file for the contents of its volumes.
    #[error("hand the content of volumes over")]
    Payload(#[source] std::io::Error),
    /// The holder's link takes no more.
    #[error(transparent)]
    Congested(#[from] Congested),
    /// D-16: its devices.
    #[error(transparent)]
    Cdi(#[from] CdiError),
    /// No randomness: never on a supported kernel.
    #[error("get random bytes for the container id")]
    Random(#[source] std::io::Error),
}

impl LaunchError {
    /// P-153: waiting reason.
    pub fn reason(&self) -> &'static str {
        match self {
            // As with kubelet, whose runtime finds these out.
            Self::Config(
                oci::ConfigError::Seccomp(_)
                | oci::ConfigError::NoAppArmor
                | oci::ConfigError::NoAppArmorProfile(_),
            )
            | Self::Seccomp(_) => "CreateContainerError",
            Self::Config(_) | Self::NoContainer(_) => "CreateContainerConfigError",
            Self::NoImage(_)
            | Self::Store(_)
            | Self::Write(_)
            | Self::TooOld(_)
            | Self::Payload(_)
            | Self::Congested(_)
            | Self::Cdi(_)
            | Self::Random(_) => "CreateContainerError",
        }
    }
    /// For people.
    pub fn message(&self) -> String {
        chain(self)
    }
}

/// Writes everything the container needs and gives the request that makes it.
pub fn prepare(ground: Ground<'_>, order: Order<'_>) -> Result<Prepared, LaunchError> {
    let container = find(order)?;
    let order = Order {
        restart_count: restart_count(&log_dir(ground.config, order), order.restart_count),
        ..order
    };
    let name = container.image.as_deref().unwrap_or_default();
    let image = look_up(ground.store, name)?;
    let devices = cdi::devices(&order.pod.pod, order.container);
    let devices = find_devices(&ground.config.cdi_spec_dirs, &devices)?;
    let id = new_id()?;
    let files = pod_files::write(ground, order, &Instance { container, id: &id })?;
    let cgroup = format!("{}/{id}", order.record.sandbox.pod_cgroup);
    let seccomp = confine::seccomp_profile(&ground.config.paths, &order.pod.pod, container)?;
    let mut launch = oci::launch(ContainerInput {
        pod: order.pod,
        container,
        image: &image.config,
        passwd: &ground.store.read_file(&image, "etc/passwd")?,
        group: &ground.store.read_file(&image, "etc/group")?,
        cgroup_path: Path::new(&cgroup),
        node: &older::node(ground.node, order.record.version),
        files: &files,
        seccomp: seccomp.as_ref(),
        apparmor: confine::apparmor_profiles(ground.node).as_deref(),
        objects: ground.objects,
        places: &volume_places(ground, order, &Instance { container, id: &id })?,
    })?;
    older::check(&launch, order.record.version)?;
    for edits in &devices {
        oci::cdi::apply(&mut launch.spec, edits);
    }
    let rootfs = write_bundle(ground, order.pod, &id, (&image, &launch))?;
    let create = CreateContainer {
        name: order.container.to_owned(),
        restart_count: order.restart_count,
        hash: plan::container_hash(order.container, name),
        image: name.to_owned(),
        rootfs,
        confinement: launch.confinement,
        log: log_spec(ground.config, order, &id),
        termination_message: files.termination_message,
        termination_message_from_logs: container.termination_message_policy.as_deref()
            == Some("FallbackToLogsOnError"),
        stop_signal: oci::stop_signal(container, &image.config),
        image_id: image.id,
        resources: container.resources.clone().unwrap_or_default(),
        post_start: hook::post_start(container),
        volumes: launch.volumes,
        program: launch.program,
        user: process_user(&launch.spec),
        id,
    };
    Ok(Prepared {
        create,
        payload: launch.payload,
        notes: launch.notes,
    })
}

/// C-36.
fn process_user(spec: &Spec) -> Option<LinuxUser> {
    let user = spec.process().as_ref()?.user();
    Some(LinuxUser {
        uid: user.uid(),
        gid: user.gid(),
        groups: user.additional_gids().clone().unwrap_or_default(),
    })
}

fn volume_places(
    ground: Ground<'_>,
    order: Order<'_>,
    instance: &Instance<'_>,
) -> Result<VolumePlaces, LaunchError> {
    let paths = &ground.config.paths;
    let uid = &order.pod.uid;
    let mut places = VolumePlaces {
        mounts: paths.holder(uid).volume_mounts(instance.id),
        ..VolumePlaces::default()
    };
    for volume in lifecycle::mounted_volumes(&order.pod.pod, instance.container) {
        let name = &volume.name;
        if volume.empty_dir.is_some() {
            let dir = paths.empty_dir(uid, name);
            places.empty_dirs.insert(name.clone(), dir);
        } else if let Some(source) = &volume.image {
            let reference = source.reference.as_deref().unwrap_or_default();
            let layers = look_up(ground.store, reference)?.layers;
            places.images.insert(name.clone(), layers);
        }
    }
    Ok(places)
}

fn find<'a>(order: Order<'a>) -> Result<&'a Container, LaunchError> {
    lifecycle::member(&order.pod.pod, order.container)
        .map(|(_, container)| container)
        .ok_or_else(|| LaunchError::NoContainer(order.container.to_owned()))
}

fn look_up(store: &Store, name: &str) -> Result<Image, LaunchError> {
    let missing = || LaunchError::NoImage(name.to_owned());
    match store.presence(name) {
        ImagePresence::Present(id) => store.image(&id)?.ok_or_else(missing),
        ImagePresence::Absent | ImagePresence::InvalidName(_) => Err(missing()),
    }
}

/// 64 hex digits.
fn new_id() -> Result<String, LaunchError> {
    let mut bytes = [0_u8; 32];
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())
        .map_err(|error| LaunchError::Random(error.into()))?;
    let mut id = String::with_capacity(64);
    for byte in bytes {
        // Writing to a string cannot fail.
        let _ = write!(id, "{byte:02x}");
    }
    Ok(id)
}

/// An instance in the making.
pub struct Instance<'a> {
    /// Its container.
    pub container: &'a Container,
    /// 64 hex digits.
    pub id: &'a str,
}

fn write_bundle(
    ground: Ground<'_>,
    pod: &StaticPod,
    id: &str,
    (image, launch): (&Image, &Launch),
) -> Result<Rootfs, LaunchError> {
    let writable = ground.config.paths.writable_layer(&pod.uid, id);
    store::make_dir(&writable.join("upper"))?;
    store::make_dir(&writable.join("work"))?;
    let bundle = ground.config.paths.holder(&pod.uid).bundle(id);
    store::make_dir(&bundle)?;
    store::write_json(&bundle.join("config.json"), &launch.spec)?;
    if let Some(filter) = &launch.filter {
        let bytes: Vec<u8> = filter.iter().flat_map(|i| i.to_bytes()).collect();
        let file = ground.config.paths.holder(&pod.uid).seccomp_filter(id);
        store::rewrite(&file, &bytes, 0o600)?;
    }
    let process = launch.spec.process().as_ref();
    let user = process.map(|process| process.user());
    Ok(Rootfs {
        lower: image.layers.clone(),
        writable,
        cwd: process.map_or_else(|| "/".into(), |process| process.cwd().clone()),
        uid: user.map_or(0, oci_spec::runtime::User::uid),
        gid: user.map_or(0, oci_spec::runtime::User::gid),
    })
}

/// P-47: a container that seems to be new, and has logs, was started before: its history was lost. Counts go on, so
/// that no old log is continued.
fn restart_count(log_dir: &Path, planned: u32) -> u32 {
    if planned > 0 {
        return planned;
    }
    let number = |entry: std::fs::DirEntry| -> Option<u32> {
        let name = entry.file_name().into_string().ok()?;
        name.split_once(".log")?.0.parse().ok()
    };
    let entries = std::fs::read_dir(log_dir).into_iter().flatten().flatten();
    let highest = entries.filter_map(number).max();
    highest.map_or(0, |highest| highest.saturating_add(1))
}

/// G-1.
fn log_dir(config: &Config, order: Order<'_>) -> PathBuf {
    let pod = order.pod;
    config
        .paths
        .pod_logs(pod.namespace(), pod.name(), &pod.uid)
        .join(order.container)
}

/// G-2, G-3.
fn log_spec(config: &Config, order: Order<'_>, id: &str) -> LogSpec {
    let pod = order.pod;
    let dir = log_dir(config, order);
    let link = link_name(pod.name(), pod.namespace(), order.container, id);
    LogSpec {
        file: dir.join(format!("{}.log", order.restart_count)),
        link: config.paths.container_log_links().join(link),
        max_size: config.container_log_max_size,
        max_files: config.container_log_max_files,
    }
}
