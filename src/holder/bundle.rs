//! The `config.json` of a container: the agent writes it, and what only the holder knows is added before libcontainer
//! reads it.

use std::fs;
use std::io;
use std::path::Path;

use libcontainer::oci_spec::OciSpecError;
use libcontainer::oci_spec::runtime::{Linux, LinuxDevice, LinuxNamespaceType, Process, Spec};

use super::proto::{CreateContainer, Devices};
use super::runtime::{Place, WorkerError};
use super::{devices, volumes};
use crate::volume::Made;

/// Completes it, on disk too. To be called when the volumes are made.
pub(super) fn complete(
    place: &Place<'_>,
    request: &CreateContainer,
    made: &Made,
) -> Result<Spec, WorkerError> {
    let file = place.paths.bundle(&request.id).join("config.json");
    let mut spec = load(&file)?;
    let nodes = match request.confinement.devices {
        Devices::Usual => Vec::new(),
        Devices::AllOfNode => devices::of_node(spec.mounts().as_deref().unwrap_or_default()),
    };
    if let Some(linux) = spec.linux_mut() {
        linux.set_cgroups_path(Some(place.cgroup.into()));
        share_processes(linux, place);
        add_devices(linux, nodes);
        volumes::allow_devices(linux, made);
    }
    if let Some(process) = spec.process_mut() {
        adapt_process(process);
    }
    spec.save(&file).map_err(spec_error("write", &file))?;
    Ok(spec)
}

/// Reads it.
pub(super) fn load(file: &Path) -> Result<Spec, WorkerError> {
    Spec::load(file).map_err(spec_error("read", file))
}

fn spec_error(operation: &'static str, path: &Path) -> impl FnOnce(OciSpecError) -> WorkerError {
    let path = path.to_owned();
    move |source| WorkerError::Spec {
        operation,
        path,
        source,
    }
}

/// P-182: with the other containers of the pod, if it has a namespace for that.
fn share_processes(linux: &mut Linux, place: &Place<'_>) {
    let namespaces = linux.namespaces_mut().iter_mut().flatten();
    for namespace in namespaces.filter(|n| n.typ() == LinuxNamespaceType::Pid) {
        namespace.set_path(place.pid_namespace.clone());
    }
}

/// What the specification names itself stays as it is.
fn add_devices(linux: &mut Linux, nodes: Vec<LinuxDevice>) {
    let known = linux.devices().clone().unwrap_or_default();
    let is_new = |node: &LinuxDevice| known.iter().all(|known| known.path() != node.path());
    let nodes = nodes.into_iter().filter(is_new);
    let all: Vec<LinuxDevice> = nodes.chain(known.iter().cloned()).collect();
    linux.set_devices(Some(all));
}

fn adapt_process(process: &mut Process) {
    process.set_terminal(Some(false));
    let refused = |score| !try_oom_score(score);
    if process.oom_score_adj().is_some_and(refused) {
        process.set_oom_score_adj(None);
    }
}

/// libcontainer fails a create when this is refused (no CAP_SYS_RESOURCE), so it is tried before.
fn try_oom_score(score: i32) -> bool {
    fs::OpenOptions::new()
        .write(true)
        .open("/proc/self/oom_score_adj")
        .and_then(|mut file| io::Write::write_all(&mut file, score.to_string().as_bytes()))
        .is_ok()
}
