//! Doing what the plan says. Each action either asks something of a holder, starts a task, or does a small thing at once;
//! none waits, and the outcome comes back as news.

use std::rc::Rc;

use k8s_openapi::api::core::v1::PodSpec;

use super::clean::Remains;
use super::events::{Logged, warning};
use super::launch::{self, Ground, LaunchError, Order, Prepared};
use super::link::{Link, Seed};
use super::news::SandboxId;
use super::sandboxes::{Asked, CreateFailure, Errand, Holding, MAX_WAITING};
use super::state::Agent;
use super::store::{self, WriteError};
use super::{trash, volumes};
use crate::config::HolderPaths;
use crate::error::chain;
use crate::holder::cgroup::CgroupError;
use crate::holder::limits::LimitError;
use crate::holder::proto::{PROTO_VERSION, PidNamespace, PodRecord, Request, SandboxSpec, Stamp};
use crate::network::{self, TooLong};
use crate::plan::{self, Action, Event};
use crate::pod::{PodUid, StaticPod, sysctl};
use crate::sys::remove;

/// Why a sandbox could not be made.
#[derive(Debug, thiserror::Error)]
enum SandboxError {
    #[error(transparent)]
    Write(#[from] WriteError),
    #[error(transparent)]
    Cgroup(#[from] CgroupError),
    #[error(transparent)]
    Limit(#[from] LimitError),
}

impl Agent {
    /// Performs one action.
    pub fn apply(&mut self, action: Action, now: Stamp) {
        match action {
            Action::StartSandbox { uid, attempt } => self.start_sandbox(&uid, attempt, now),
            Action::StartContainer {
                uid,
                container,
                restart_count,
            } => self.start_container(&uid, container, restart_count, now),
            Action::StopContainer { uid, order } => {
                let asked = Asked::stop(&order);
                self.ask(&uid, asked, order.into_request(), now);
            }
            Action::RemoveContainer { uid, id, with_logs } => {
                let request = Request::Remove {
                    id: id.clone(),
                    with_logs,
                };
                self.ask(&uid, Asked::Remove { id }, request, now);
            }
            Action::StopSandbox { uid } => self.ask(&uid, Asked::Leave, Request::Shutdown, now),
            Action::CleanSandbox { uid } => self.clean(&uid),
            Action::ForgetPod {
                uid,
                namespace,
                name,
            } => self.forget(&uid, &namespace, &name),
        }
    }

    fn ask(&mut self, uid: &PodUid, asked: Asked, request: Request, now: Stamp) {
        let Some(holding) = self.sandboxes.get_mut(uid) else {
            return;
        };
        if holding.is_open(&asked) {
            return;
        }
        // Congested: the plan says it again at the next pass.
        let _ = holding.ask(asked, request, now.boot_ms);
    }

    fn start_sandbox(&mut self, uid: &PodUid, attempt: u32, now: Stamp) {
        let Some(pod) = self.desired.get(uid).cloned() else {
            return;
        };
        if self.sandboxes.contains_key(uid) {
            return;
        }
        let record = match self.sandbox_record(pod, attempt) {
            Ok(record) => record,
            Err(error) => return self.sandbox_failed(uid, chain(&error), now),
        };
        if let Err(error) = self.prepare_sandbox(&record) {
            return self.sandbox_failed(uid, chain(&error), now);
        }
        let id = self.new_sandbox_id(uid.clone());
        self.hold(id.clone(), record, Seed::Spawn);
        self.note_limits(&id, now);
    }

    fn sandbox_record(&self, pod: StaticPod, attempt: u32) -> Result<PodRecord, TooLong> {
        let root = self.config.cgroup_root.trim_end_matches('/');
        let spec = pod.pod.spec.as_ref();
        let has = |field: fn(&PodSpec) -> Option<bool>| spec.and_then(field) == Some(true);
        Ok(PodRecord {
            version: PROTO_VERSION,
            attempt,
            sandbox: SandboxSpec {
                holder_cgroup: format!("{root}/holders/{}", pod.uid),
                pod_cgroup: plan::pod_cgroup(root, &pod),
                host_network: pod.is_host_network(),
                hostname: network::hostname(&pod, &self.config.node_name)?,
                host_ipc: has(|spec| spec.host_ipc),
                pid: match (
                    has(|spec| spec.host_pid),
                    has(|spec| spec.share_process_namespace),
                ) {
                    (true, _) => PidNamespace::Host,
                    (false, true) => PidNamespace::Pod,
                    (false, false) => PidNamespace::Container,
                },
                sysctls: sysctl::of_pod(&pod.pod),
                trash: self.config.paths.trash(),
            },
            pod,
        })
    }

    /// N-81: the record is there before the holder is.
    fn prepare_sandbox(&self, record: &PodRecord) -> Result<(), SandboxError> {
        let paths = self.config.paths.holder(&record.pod.uid);
        // Whatever lies there is of no living holder.
        let _ = remove::tree(paths.dir());
        store::make_private_dir(paths.dir())?;
        store::write_json(&paths.pod_record(), record)?;
        self.cgroups.create(&record.sandbox.holder_cgroup)?;
        self.cgroups.create(&record.sandbox.pod_cgroup)?;
        self.limit_new_pod(record)?;
        Ok(())
    }

    /// S-155: a pod that was edited in place ends as its present document says, also when its manifest is gone, and whoever
    /// ends it.
    pub fn renew_sandbox_records(&mut self) -> Result<(), WriteError> {
        for (uid, holding) in &mut self.sandboxes {
            let pod = self.desired.get(uid);
            let Some(pod) = pod.filter(|pod| holding.is_outdated(pod)) else {
                continue;
            };
            let record = PodRecord {
                pod: pod.clone(),
                ..holding.record.clone()
            };
            let path = self.config.paths.holder(uid).pod_record();
            store::write_json(&path, &record)?;
            holding.record = record;
        }
        Ok(())
    }

    /// Takes a sandbox into the table and starts the task that talks to its holder.
    pub fn hold(&mut self, id: SandboxId, record: PodRecord, seed: Seed) {
        let (requests, asked) = async_channel::bounded(MAX_WAITING);
        let link = Link {
            id: id.clone(),
            paths: HolderPaths::new(self.config.paths.holder(&id.uid).dir().to_path_buf()),
            requests: asked,
            news: self.news.clone(),
        };
        self.executor.spawn(link.run(seed)).detach();
        let uid = id.uid.clone();
        self.sandboxes
            .insert(uid, Holding::new(id, record, requests));
    }

    fn start_container(&mut self, uid: &PodUid, container: String, count: u32, now: Stamp) {
        let Some(holding) = self.sandboxes.get(uid) else {
            return;
        };
        let order = Order {
            record: &holding.record,
            pod: self.desired.get(uid).unwrap_or(&holding.record.pod),
            container: &container,
            restart_count: count,
            existing: holding.containers(),
        };
        let ground = Ground {
            config: &self.config,
            node: &self.node,
            store: &self.store,
            objects: &self.objects,
        };
        let prepared = launch::prepare(ground, order);
        if let Ok(prepared) = &prepared {
            self.note_confinement((uid, &container), &prepared.notes, now);
        }
        let asked = prepared.and_then(|prepared| self.ask_for_container(uid, prepared, now));
        if let Err(error) = asked {
            // The image may have gone.
            self.images.clear();
            let failure = CreateFailure {
                container,
                reason: error.reason(),
                message: error.message(),
            };
            self.container_failed(uid, failure, now);
        }
    }

    fn ask_for_container(
        &mut self,
        uid: &PodUid,
        prepared: Prepared,
        now: Stamp,
    ) -> Result<(), LaunchError> {
        let Some(holding) = self.sandboxes.get_mut(uid) else {
            return Ok(());
        };
        let Prepared {
            create, payload, ..
        } = prepared;
        let asked = Asked::Create {
            container: create.name.clone(),
            id: create.id.clone(),
        };
        let errand = Errand {
            payload: volumes::sealed(payload, now).map_err(LaunchError::Payload)?,
            request: Request::Create(Box::new(create)),
        };
        holding.ask(asked, errand, now.boot_ms)?;
        Ok(())
    }

    /// Tells what a container's confinement lacks, in the log only once.
    fn note_confinement(
        &mut self,
        (uid, container): (&PodUid, &str),
        notes: &[String],
        now: Stamp,
    ) {
        let Some(pod) = self.desired.get(uid).filter(|_| !notes.is_empty()) else {
            return;
        };
        let event =
            |message: &String| warning(pod, Some(container), "Confinement", message.clone());
        let events: Vec<Event> = notes.iter().map(event).collect();
        for event in events {
            self.record(event, now, Logged::Once);
        }
    }

    /// Starts cleaning up after a dead holder.
    pub fn clean(&mut self, uid: &PodUid) {
        if self.start_cleaning(uid) {
            self.start_remains(uid);
        }
    }

    /// Starts the task that leaves nothing of a sandbox.
    pub fn start_remains(&mut self, uid: &PodUid) {
        let Some(holding) = self.sandboxes.get(uid) else {
            return;
        };
        let memory = self.history.pods.get(uid);
        let remains = Remains {
            is_evicted: memory.is_some_and(|memory| memory.evicted.is_some()),
            id: holding.id.clone(),
            spec: holding.record.sandbox.clone(),
            paths: self.config.paths.clone(),
            cgroups: Rc::clone(&self.cgroups),
            news: self.news.clone(),
        };
        self.executor.spawn(remains.clean()).detach();
    }

    /// G-17, N-43. Renames only; the trees are removed by a child.
    fn forget(&mut self, uid: &PodUid, namespace: &str, name: &str) {
        let paths = &self.config.paths;
        let [trash, log_trash] = trash::dirs(paths);
        let logs = paths.pod_logs(namespace, name, uid);
        let thrown = trash::throw(&trash, &paths.pod(uid)).and(trash::throw(&log_trash, &logs));
        if let Err(error) = thrown {
            self.log.warn(chain(&error));
        }
        let links = std::fs::read_dir(paths.container_log_links());
        for link in links.into_iter().flatten().flatten() {
            let is_ours = std::fs::read_link(link.path()).is_ok_and(|to| to.starts_with(&logs));
            if is_ours {
                // Dangling now; a stray one harms nobody.
                let _ = std::fs::remove_file(link.path());
            }
        }
        self.records.forget(uid);
        self.jobs.trash_is_dirty = true;
    }
}
