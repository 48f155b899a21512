//! One pod and its containers.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Volume;

use super::cgroup::Group;
use super::disk::{self, Budget, Used};
use super::node;
use super::summary::{ContainerStats, FsStats, PodReference, PodStats, ProcessStats, VolumeStats};
use super::{Depth, Meter};
use crate::config::Paths;
use crate::holder::found::Found;
use crate::holder::proto::ContainerRecord;
use crate::sys::process;

/// What the trees of a pod use, as far as it was looked at: by path.
pub type Trees = BTreeMap<PathBuf, Used>;

/// A pod with its holder.
#[derive(Debug, Clone, Copy)]
pub struct Seen<'a> {
    /// Where things are.
    pub paths: &'a Paths,
    /// Its holder.
    pub found: &'a Found,
}

impl<'a> Seen<'a> {
    /// Containers that run.
    pub fn live(self) -> impl Iterator<Item = &'a ContainerRecord> {
        let containers = self.found.state.iter().flat_map(|state| &state.containers);
        containers.filter(|container| container.state.is_live())
    }

    /// The pod's cgroup, and those of its containers.
    pub fn cgroups(self) -> impl Iterator<Item = String> {
        let own = self.found.record.sandbox.pod_cgroup.clone();
        let inner = self.live().map(move |container| self.cgroup_of(container));
        std::iter::once(own).chain(inner)
    }

    fn cgroup_of(self, container: &ContainerRecord) -> String {
        format!("{}/{}", self.found.record.sandbox.pod_cgroup, container.id)
    }

    /// Adds what its trees use. Of what is not there, or too large, nothing is known.
    pub fn measure(self, budget: &mut Budget, trees: &mut Trees) {
        for path in self.trees() {
            if let Some(used) = budget.used(&path) {
                trees.insert(path, used);
            }
        }
    }

    fn trees(self) -> Vec<PathBuf> {
        let containers = self.found.state.iter().flat_map(|state| &state.containers);
        let layers = containers.map(|container| self.layer(container));
        let volumes = self.volumes().filter(|volume| is_on_disk(volume));
        let volumes = volumes.map(|volume| self.empty_dir(&volume.name));
        layers.chain(volumes).chain([self.logs()]).collect()
    }

    fn layer(self, container: &ContainerRecord) -> PathBuf {
        let uid = &self.found.record.pod.uid;
        self.paths.writable_layer(uid, &container.id)
    }

    fn empty_dir(self, volume: &str) -> PathBuf {
        self.paths.empty_dir(&self.found.record.pod.uid, volume)
    }

    fn logs(self) -> PathBuf {
        let pod = &self.found.record.pod;
        self.paths.pod_logs(pod.namespace(), pod.name(), &pod.uid)
    }

    fn volumes(self) -> impl Iterator<Item = &'a Volume> {
        let spec = self.found.record.pod.pod.spec.as_ref();
        spec.and_then(|spec| spec.volumes.as_ref())
            .into_iter()
            .flatten()
    }
}

/// The pod's figures.
pub fn stats(seen: Seen<'_>, meter: &Meter<'_>, trees: &Trees) -> PodStats {
    let pod = &seen.found.record.pod;
    let containers: Vec<ContainerStats> = seen
        .live()
        .map(|record| container(seen, record, (meter, trees)))
        .collect();
    let groups = seen
        .live()
        .map(|c| Group::new(meter.cgroups, &seen.cgroup_of(c)));
    let process_count = groups.map(|group| group.processes()).sum();
    let is_deep = meter.depth == Depth::Everything;
    PodStats {
        pod_ref: PodReference {
            name: pod.name().to_owned(),
            namespace: pod.namespace().to_owned(),
            uid: pod.uid.to_string(),
        },
        start_time: containers.iter().filter_map(|c| c.start_time).min(),
        usage: meter.usage(&seen.found.record.sandbox.pod_cgroup),
        network: is_deep.then(|| network(seen, meter.time)).flatten(),
        volumes: if is_deep {
            volumes(seen, meter.time, trees)
        } else {
            Vec::new()
        },
        ephemeral_storage: is_deep
            .then(|| ephemeral(seen, meter.time, trees))
            .flatten(),
        processes: ProcessStats { process_count },
        containers,
    }
}

fn container(
    seen: Seen<'_>,
    record: &ContainerRecord,
    (meter, trees): (&Meter<'_>, &Trees),
) -> ContainerStats {
    let is_deep = meter.depth == Depth::Everything;
    let fs =
        |base: &Path, used: Option<Used>| is_deep.then(|| part(base, used, meter.time)).flatten();
    let layer = seen.layer(record);
    let logs = record.log.parent().unwrap_or(&record.log);
    let of_logs = is_deep.then(|| Budget::new(MAX_LOG_FILES).used(logs));
    ContainerStats {
        name: record.name.clone(),
        start_time: record.state.live().map(|(_, started)| started.wall),
        usage: meter.usage(&seen.cgroup_of(record)),
        rootfs: fs(&layer, trees.get(&layer).copied()),
        logs: fs(logs, of_logs.flatten()),
    }
}

/// Log files of one container: they are bounded by its rotation.
const MAX_LOG_FILES: u64 = 10_000;

/// Of a pod in the host's network nothing is told, as kubelet does: it would be the host's.
fn network(seen: Seen<'_>, time: Timestamp) -> Option<super::summary::NetworkStats> {
    let holder = seen.found.state.as_ref()?.process;
    if seen.found.record.sandbox.host_network || !process::is_alive(holder) {
        return None;
    }
    node::network(&holder.pid.to_string(), time)
}

fn ephemeral(seen: Seen<'_>, time: Timestamp, trees: &Trees) -> Option<FsStats> {
    let known = seen
        .trees()
        .into_iter()
        .map(|tree| trees.get(&tree).copied());
    let used = known.flatten().fold(Used::default(), Used::plus);
    part(&seen.paths.root_dir, Some(used), time)
}

/// V-61. Of volumes that are not the pod's own nothing is told.
fn volumes(seen: Seen<'_>, time: Timestamp, trees: &Trees) -> Vec<VolumeStats> {
    let of = |volume: &Volume| {
        let dir = seen.empty_dir(&volume.name);
        let fs = if is_on_disk(volume) {
            part(&dir, trees.get(&dir).copied(), time)
        } else if is_own(volume) {
            disk::file_system(&inside(seen, &volume.name)?, time)
        } else {
            None
        };
        fs.map(|fs| VolumeStats {
            fs,
            name: volume.name.clone(),
        })
    };
    seen.volumes().filter_map(of).collect()
}

/// Where a volume is that only the holder has mounted.
fn inside(seen: Seen<'_>, volume: &str) -> Option<PathBuf> {
    let holder = seen.found.state.as_ref()?.process;
    let path = seen.found.paths.volume(volume);
    let path = path.strip_prefix("/").ok()?;
    let root = PathBuf::from(format!("/proc/{}/root", holder.pid));
    process::is_alive(holder).then(|| root.join(path))
}

fn is_on_disk(volume: &Volume) -> bool {
    let medium = volume.empty_dir.as_ref().map(|dir| dir.medium.as_deref());
    matches!(medium, Some(None | Some("")))
}

fn is_own(volume: &Volume) -> bool {
    volume.empty_dir.is_some()
        || volume.config_map.is_some()
        || volume.secret.is_some()
        || volume.downward_api.is_some()
        || volume.projected.is_some()
}

/// A file system, with what something uses of it.
fn part(base: &Path, used: Option<Used>, time: Timestamp) -> Option<FsStats> {
    let whole = disk::file_system(base, time)?;
    Some(FsStats {
        used_bytes: used.map(|used| used.bytes),
        inodes_used: used.map(|used| used.inodes),
        ..whole
    })
}
