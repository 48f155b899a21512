//! What a [`TestAgent`] shows, and waiting for it.

#![expect(clippy::unwrap_used, reason = "test code outside #[test] functions")]

use std::time::SystemTime;

use k8s_openapi::api::core::v1::{ContainerStatus, Pod};
use serde_json::Value;

use super::agent::TestAgent;
use super::wait::{DEADLINE, look_until, wait_for};

impl TestAgent {
    /// The pod of this name (without node suffix), if the agent shows it. One that is on its way out does not count
    /// beside its successor.
    pub fn pod(&self, name: &str) -> Option<Pod> {
        let full = format!("{name}-box");
        let mut pods = self.client().pods().ok()?;
        pods.retain(|pod| pod.metadata.name.as_deref() == Some(&full));
        pods.sort_by_key(|pod| pod.metadata.deletion_timestamp.is_some());
        pods.into_iter().next()
    }

    /// Waits until the pod satisfies `test`.
    pub fn wait_for_pod<T>(&self, name: &str, mut test: impl FnMut(&Pod) -> Option<T>) -> T {
        let mut seen = None;
        let found = look_until(DEADLINE, || {
            seen = self.pod(name);
            seen.as_ref().and_then(&mut test)
        });
        found.unwrap_or_else(|| panic!("waited in vain: pod {name}: {seen:#?}"))
    }

    /// The `status` of a pod as `vetch get pod -o json` prints it; null when there is no such pod.
    pub fn status(&self, pod: &str) -> Value {
        let status = self.pod(pod).and_then(|pod| pod.status);
        serde_json::to_value(status).unwrap()
    }

    /// Waits until `test` gives something for the status of a pod; `what` is for the message otherwise.
    pub fn wait_for_status<T>(
        &self,
        pod: &str,
        what: &str,
        mut test: impl FnMut(&Value) -> Option<T>,
    ) -> T {
        let mut seen = Value::Null;
        let found = look_until(DEADLINE, || {
            seen = self.status(pod);
            test(&seen)
        });
        found.unwrap_or_else(|| panic!("waited in vain: {what} of pod {pod}: {seen:#}"))
    }

    /// Waits until the pod's first container waits for this reason; gives the message.
    pub fn wait_for_waiting(&self, pod: &str, reason: &str) -> String {
        self.wait_for_status(pod, reason, |status| {
            let waiting = &status["containerStatuses"][0]["state"]["waiting"];
            let message = || waiting["message"].as_str().unwrap_or_default().to_owned();
            (waiting["reason"] == reason).then(message)
        })
    }

    /// Waits until the pod's container `main` has said this.
    pub fn wait_for_words(&self, pod: &str, words: &str) {
        let mut log = String::new();
        let found = look_until(DEADLINE, || {
            log = self.logs(pod, "main");
            log.contains(words).then_some(())
        });
        assert!(found.is_some(), "{pod} never said {words:?}: {log}");
    }

    /// Pids of all that runs in a container, what was executed in it included; none when it does not run.
    pub fn pids_of(&self, pod: &str, name: &str) -> Vec<i32> {
        let Some(uid) = self.pod(pod).and_then(|pod| pod.metadata.uid) else {
            return Vec::new();
        };
        let status = self.status(pod);
        let id = container_status(&status, name)["containerID"].as_str();
        let id = id.and_then(|id| id.strip_prefix("vetch://"));
        id.map(|id| self.pids_below(&format!("/pod{uid}/{id}")))
            .unwrap_or_default()
    }

    /// How often an event of this reason came, about this pod.
    pub fn event_count(&self, pod: &str, reason: &str) -> u32 {
        let mut events = self.client().events().unwrap();
        let name = format!("{pod}-box");
        events.retain(|e| e.event.name == name && e.event.reason == reason);
        events.iter().map(|e| e.count).sum()
    }

    /// Waits until no pod is shown.
    pub fn wait_for_no_pods(&self) {
        self.wait_for_pod_count(0);
    }

    /// Waits until so many pods are shown.
    pub fn wait_for_pod_count(&self, count: usize) {
        wait_for(&format!("there are {count} pods"), || {
            (self.client().pods().ok()?.len() == count).then_some(())
        });
    }

    /// Waits until the only container of the pod runs; gives its status.
    pub fn wait_until_running(&self, name: &str) -> ContainerStatus {
        self.wait_for_pod(name, |pod| {
            let status = container(pod)?.clone();
            status.state.as_ref()?.running.is_some().then_some(status)
        })
    }

    /// Text and time of a pod's durable record.
    pub fn record(&self, pod: &str) -> (String, SystemTime) {
        let uid = self.pod(pod).unwrap().metadata.uid.unwrap();
        let path = self.paths.pods().join(uid).join("record.json");
        let modified = std::fs::metadata(&path).unwrap().modified().unwrap();
        (std::fs::read_to_string(path).unwrap(), modified)
    }

    /// Text of the pod's log directory, all files of one container in order of restarts.
    pub fn logs(&self, pod: &str, container: &str) -> String {
        let mut texts = Vec::new();
        let dirs = std::fs::read_dir(self.paths.log_dir.join("pods")).unwrap();
        for dir in dirs.flatten() {
            let name = dir.file_name().to_string_lossy().into_owned();
            if !name.starts_with(&format!("default_{pod}-box_")) {
                continue;
            }
            for file in std::fs::read_dir(dir.path().join(container))
                .into_iter()
                .flatten()
                .flatten()
            {
                let number: u32 = file
                    .path()
                    .file_stem()
                    .and_then(|stem| stem.to_str()?.parse().ok())
                    .unwrap_or(u32::MAX);
                texts.push((number, std::fs::read_to_string(file.path()).unwrap()));
            }
        }
        texts.sort();
        texts.into_iter().map(|(_, text)| text).collect()
    }
}

/// Status of a pod's first container.
pub fn container(pod: &Pod) -> Option<&ContainerStatus> {
    pod.status.as_ref()?.container_statuses.as_ref()?.first()
}

/// Status of the named container or init container in a pod's status; null when there is none.
pub fn container_status<'a>(status: &'a Value, name: &str) -> &'a Value {
    let lists = ["initContainerStatuses", "containerStatuses"];
    let mut all = lists
        .iter()
        .filter_map(|list| status[list].as_array())
        .flatten();
    all.find(|one| one["name"] == name).unwrap_or(&Value::Null)
}

/// How the named container ended, this time or the last time.
pub fn last_end(status: &Value, name: &str) -> Option<Value> {
    let status = container_status(status, name);
    let ends = [
        &status["state"]["terminated"],
        &status["lastState"]["terminated"],
    ];
    ends.into_iter().find(|end| !end.is_null()).cloned()
}
