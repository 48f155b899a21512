//! Events of the plan and of probes: kept in the ring, and told in the log.

use super::ring::Recorded;
use super::state::Agent;
use crate::holder::proto::Stamp;
use crate::plan::Event;
use crate::pod::StaticPod;

/// When an event is also a line in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Logged {
    /// Each time.
    Always,
    /// Not when it is a repeat.
    Once,
    /// It says nothing new to a reader of the log.
    Never,
}

impl Agent {
    /// Records an event of the plan; each is a line in the log, repeats of a waiting reason are not.
    pub fn record_of_plan(&mut self, event: Event, now: Stamp) {
        let logged = if event.reason == "BackOff" {
            Logged::Once
        } else {
            Logged::Always
        };
        self.record(event, now, logged);
    }

    /// Records one event.
    pub fn record(&mut self, event: Event, now: Stamp, logged: Logged) {
        let line = line_of(&event);
        let is_warning = event.warning;
        match (logged, self.ring.record(event, now.wall)) {
            (Logged::Never, _) | (Logged::Once, Recorded::Repeat) => {}
            (Logged::Once, Recorded::New) | (Logged::Always, _) if is_warning => {
                self.log.warn(line);
            }
            (Logged::Once, Recorded::New) | (Logged::Always, _) => self.log.info(line),
        }
    }
}

/// A warning about a pod, or about one of its containers.
pub fn warning(pod: &StaticPod, container: Option<&str>, reason: &str, message: String) -> Event {
    Event {
        uid: pod.uid.clone(),
        namespace: pod.namespace().to_owned(),
        name: pod.name().to_owned(),
        container: container.map(ToOwned::to_owned),
        warning: true,
        reason: reason.to_owned(),
        message,
    }
}

/// `default/web-box main: Started: Started container main`.
fn line_of(event: &Event) -> String {
    let container = event
        .container
        .as_deref()
        .map(|name| format!(" {name}"))
        .unwrap_or_default();
    let Event {
        namespace,
        name,
        reason,
        message,
        ..
    } = event;
    format!("{namespace}/{name}{container}: {reason}: {message}")
}
