//! One pass of the agent, its laws, and its actions; an agent can be killed between any two of them.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::Pod;

use super::World;
use super::holder::{FakeHolder, Process};
use super::laws::Scene;
use super::machine::Machine;
use crate::agent::sandboxes::{Asked, CreateFailure};
use crate::holder::proto::{
    Confinement, ContainerRecord, CreateContainer, LogSpec, Request, Rootfs, Seccomp,
};
use crate::plan::tests::fixtures::pod_record;
use crate::plan::{
    Action, Halt, ImagePresence, Observed, Plan, Sandbox, SandboxState, container_hash, plan,
};
use crate::pod::lifecycle::{self, Role};
use crate::pod::{PodUid, hook};

impl World {
    pub(super) fn pass(&mut self) {
        let now = self.now();
        self.passes += 1;
        let agent = self.agent.as_mut().unwrap();
        agent.expire(now.boot_ms);
        agent.drop_old_problems(&self.desired);
        let observed = self.observe();
        let first = self.plan(&observed);
        if self.is_loud {
            self.tell(&observed, &first);
        }
        self.check_again(&observed, &first);
        let is_forgetting = |action: &&Action| matches!(action, Action::ForgetPod { .. });
        let forgotten = first.actions.iter().filter(is_forgetting).count();
        // The agent may be killed after any of its actions.
        let steps = if self.dice.fails(80) {
            self.dice.index(first.actions.len() + 1)
        } else {
            usize::MAX
        };
        if steps >= forgotten {
            self.laws.check(Scene {
                desired: &self.desired,
                observed: &observed,
                before: &self.history,
                rules: &self.rules,
                now,
                true_ms: self.true_ms,
                plan: &first,
            });
            self.check_later(&observed, &first);
        } else {
            self.laws.forget_some(&first, steps);
        }
        self.perform(first, steps);
    }

    /// For who looks for the cause of a failure.
    fn tell(&self, observed: &Observed, plan: &Plan) {
        println!("== {} ms, wakes {:?}", self.boot_ms, plan.wake_at_boot_ms);
        for (uid, sandbox) in &observed.sandboxes {
            match &sandbox.state {
                SandboxState::Ready {
                    containers,
                    creating,
                    leaving,
                    ..
                } => {
                    println!("{uid}: ready, creating {creating:?}, leaving {leaving}");
                    containers.iter().for_each(tell_record);
                }
                SandboxState::Starting => println!("{uid}: starting"),
                SandboxState::Dead {
                    containers,
                    cleaning,
                    ..
                } => {
                    println!("{uid}: dead, cleaning {cleaning}");
                    containers.iter().for_each(tell_record);
                }
            }
        }
        for note in &plan.notes {
            let name = note.container.as_deref().unwrap_or("-");
            println!("  note {} {name}: {}", note.uid, note.text);
        }
        for (uid, pod) in &plan.pods {
            let phase = pod.status.as_ref().and_then(|s| s.phase.as_deref());
            println!("  {uid} {phase:?} {:?}", plan.history.pods[uid].finished);
        }
        for action in &plan.actions {
            println!("  -> {action:?}");
        }
    }

    fn observe(&self) -> Observed {
        let specs = self
            .desired
            .values()
            .flat_map(|p| lifecycle::members(&p.pod));
        let names: BTreeSet<&str> = specs.filter_map(|(_, c)| c.image.as_deref()).collect();
        let look = |name: &str| {
            let presence = self.images.get(name).cloned();
            (name.to_owned(), presence.unwrap_or(ImagePresence::Absent))
        };
        Observed {
            images: names.into_iter().map(look).collect(),
            ..self.agent.as_ref().unwrap().observe()
        }
    }

    fn plan(&self, observed: &Observed) -> Plan {
        plan(
            &self.desired,
            observed,
            &self.history,
            &self.rules,
            self.now(),
        )
    }

    /// Planning twice without news says the same, and announces nothing.
    fn check_again(&self, observed: &Observed, first: &Plan) {
        let now = self.now();
        let again = plan(&self.desired, observed, &first.history, &self.rules, now);
        assert_eq!(again.events, [], "an event was repeated");
        assert_eq!(again.history, first.history, "history moved without news");
        let is_new_pod = first
            .actions
            .iter()
            .any(|a| matches!(a, Action::ForgetPod { .. }));
        if !is_new_pod {
            assert_eq!(again.actions, first.actions, "changed its mind");
            assert_eq!(again.notes, first.notes);
            for (uid, pod) in &first.pods {
                assert_eq!(status(&again.pods[uid]), status(pod), "{uid}");
            }
            assert_eq!(again.probes, first.probes);
        }
    }

    /// Until the next pass that was asked for, time alone changes nothing that is shown. Where an answer is awaited anyway
    /// (of a source, of a sandbox that comes or goes), none is asked for.
    fn check_later(&self, observed: &Observed, first: &Plan) {
        let is_awaited = |sandbox: &Sandbox| match &sandbox.state {
            SandboxState::Ready { leaving, .. } => *leaving,
            SandboxState::Starting | SandboxState::Dead { .. } => true,
        };
        let is_quiet = observed.sources_ready
            && observed.halt == Halt::No
            && first.actions.is_empty()
            && !observed.sandboxes.values().any(is_awaited);
        if !is_quiet {
            return;
        }
        let later_ms = first.wake_at_boot_ms.unwrap_or(self.boot_ms + 1_000_000) - 1;
        let later = self.at(later_ms);
        let shown = plan(&self.desired, observed, &first.history, &self.rules, later).pods;
        let has_sandbox = |(uid, _): &(&PodUid, &Pod)| observed.sandboxes.contains_key(*uid);
        for (uid, pod) in first.pods.iter().filter(has_sandbox) {
            assert_eq!(status(&shown[uid]), status(pod), "{uid} moved by itself");
        }
    }

    /// What the agent does after planning, in its order. It may be killed at any point.
    fn perform(&mut self, plan: Plan, mut steps_left: usize) {
        let is_forgetting = |action: &Action| matches!(action, Action::ForgetPod { .. });
        let (forgetting, actions): (Vec<_>, Vec<_>) =
            plan.actions.into_iter().partition(is_forgetting);
        for action in &forgetting {
            if steps_left == 0 {
                return self.kill_agent(500);
            }
            steps_left -= 1;
            self.apply(action);
        }
        self.history = plan.history;
        self.wake_at_ms = plan.wake_at_boot_ms;
        let agent = self.agent.as_ref().unwrap();
        let is_over =
            agent.halt == Halt::AgentStop && agent.sandboxes.is_empty() && actions.is_empty();
        for action in &actions {
            if steps_left == 0 {
                return self.kill_agent(500);
            }
            steps_left -= 1;
            self.apply(action);
        }
        if is_over {
            return self.kill_agent(60_000);
        }
        let agent = self.agent.as_mut().unwrap();
        agent.reconcile_probes(plan.probes, self.boot_ms);
        if !self.has_news {
            self.check_after();
        }
    }

    /// What was asked for is not asked for again.
    fn check_after(&self) {
        let after = self.plan(&self.observe());
        assert_eq!(after.events, [], "announced again without news");
        let agent = self.agent.as_ref().unwrap();
        for action in &after.actions {
            let Action::StopContainer { uid, order } = action else {
                panic!("planned again without news: {action:?}");
            };
            let asked = Asked::stop(order);
            assert!(agent.is_open(uid, &asked), "asked again: {action:?}");
        }
    }

    fn apply(&mut self, action: &Action) {
        match action {
            Action::StartSandbox { uid, attempt } => self.start_sandbox(uid, *attempt),
            Action::StartContainer {
                uid,
                container,
                restart_count,
            } => self.start_container(uid, container, *restart_count),
            Action::StopContainer { uid, order } => {
                self.ask(uid, Asked::stop(order), order.clone().into_request());
            }
            Action::RemoveContainer { uid, id, with_logs } => {
                let id = id.clone();
                let request = Request::Remove {
                    id: id.clone(),
                    with_logs: *with_logs,
                };
                self.ask(uid, Asked::Remove { id }, request);
            }
            Action::StopSandbox { uid } => self.ask(uid, Asked::Leave, Request::Shutdown),
            Action::CleanSandbox { uid } => {
                let agent = self.agent.as_mut().unwrap();
                agent.clean(uid, self.boot_ms, &mut self.dice);
            }
            Action::ForgetPod { uid, .. } => {
                // Its record goes with its directory.
                self.history.pods.remove(uid);
                self.made.retain(|(pod, _), _| pod != uid);
            }
        }
    }

    fn ask(&mut self, uid: &PodUid, asked: Asked, request: Request) {
        let holding = self.agent.as_mut().unwrap().sandboxes.get_mut(uid).unwrap();
        if !holding.is_open(&asked) {
            holding.ask(asked, request, self.boot_ms).unwrap();
        }
    }

    fn start_sandbox(&mut self, uid: &PodUid, attempt: u32) {
        let now_ms = self.boot_ms;
        let agent = self.agent.as_mut().unwrap();
        assert!(!self.machines.contains_key(uid), "two holders of one pod");
        if self.dice.fails(20) {
            self.has_news = true;
            return agent.sandbox_failed(uid, now_ms);
        }
        let at_ms = now_ms + self.dice.delay_ms();
        let process = if self.dice.fails(10) {
            Process::Failing(at_ms)
        } else {
            Process::Coming(at_ms)
        };
        let record = pod_record(&self.desired[uid], attempt);
        let mut machine = Machine::new(FakeHolder::new(record.clone(), process));
        agent.hold(record, &mut machine, now_ms);
        self.machines.insert(uid.clone(), machine);
    }

    fn start_container(&mut self, uid: &PodUid, name: &str, planned: u32) {
        let key = (uid.clone(), name.to_owned());
        let image = lifecycle::member(&self.desired[uid].pod, name)
            .and_then(|(_, c)| c.image.clone())
            .unwrap();
        let is_there = self.images.contains_key(&image);
        if !is_there || self.dice.fails(30) {
            self.has_news = true;
            let failure = CreateFailure {
                container: name.to_owned(),
                reason: "CreateContainerError",
                message: "disk full".into(),
            };
            let agent = self.agent.as_mut().unwrap();
            return agent.container_failed(uid, failure, self.boot_ms);
        }
        // P-47: logs tell of counts that the history has lost.
        let restart_count = match (planned, self.made.get(&key)) {
            (0, Some(highest)) => highest + 1,
            (planned, _) => planned,
        };
        let create = self.create(&key, restart_count, &image);
        if let Some((Role::Init, _)) = lifecycle::member(&self.desired[uid].pod, name) {
            let machine = self.machines.get_mut(uid).unwrap();
            machine.holder.short_lived.insert(create.id.clone());
        }
        let asked = Asked::Create {
            container: name.to_owned(),
            id: create.id.clone(),
        };
        self.made.insert(key, restart_count);
        self.ask(uid, asked, Request::Create(Box::new(create)));
    }

    fn create(
        &mut self,
        (uid, name): &(PodUid, String),
        restart_count: u32,
        image: &str,
    ) -> CreateContainer {
        self.next_id += 1;
        let (_, spec) = lifecycle::member(&self.desired[uid].pod, name).unwrap();
        CreateContainer {
            user: None,
            program: None,
            id: format!("id{}", self.next_id),
            name: name.clone(),
            restart_count,
            hash: container_hash(name, image),
            image: image.to_owned(),
            image_id: format!("sha256:{image}"),
            rootfs: Rootfs {
                lower: Vec::new(),
                writable: "/w".into(),
                cwd: "/".into(),
                uid: 0,
                gid: 0,
            },
            confinement: Confinement {
                seccomp: Seccomp::Unconfined,
                capabilities: Vec::new(),
                no_new_privileges: false,
                devices: Default::default(),
                apparmor: None,
            },
            log: LogSpec {
                file: "/log".into(),
                link: "/link".into(),
                max_size: 1,
                max_files: 2,
            },
            termination_message: None,
            termination_message_from_logs: false,
            stop_signal: 15,
            resources: spec.resources.clone().unwrap_or_default(),
            post_start: hook::post_start(spec),
            volumes: Default::default(),
        }
    }
}

fn tell_record(record: &ContainerRecord) {
    let ContainerRecord {
        name,
        id,
        restart_count,
        post_start,
        state,
        ..
    } = record;
    println!("  {name} {restart_count} {id}: {state:?}, postStart {post_start:?}");
}

fn status(pod: &Pod) -> String {
    serde_json::to_string(&pod.status).unwrap()
}
