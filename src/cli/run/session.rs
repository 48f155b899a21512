//! The time between start and Ctrl-C: one loop over what the agent reports, signals, and the agent's end.

use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::Duration;

use smol::future;
use smol::{Async, Task, Timer};

use super::super::ending::Grace;
use super::super::{output, select};
use super::CliError;
use super::follow::Followers;
use super::home::Home;
use crate::api::client::{Client, ClientError};
use crate::api::types::{Changes, EventRecord};
use crate::sys::{process, signals};

/// Pause before an agent that does not answer (yet, or any longer) is asked again.
const RETRY: Duration = Duration::from_millis(20);
/// What is shown of the agent's own log when it fails.
const LAST_LINES: usize = 5;

/// What can happen.
enum News {
    Changed(Result<Changes, ClientError>),
    Signal,
    AgentEnded,
}

/// Runs the agent and shows what happens, until it is told to end. Says how long what still runs may take to end.
pub fn run(home: &Home, manifests: &Path, signals: OwnedFd) -> Result<Grace, CliError> {
    let log = home.agent_log();
    let mut agent = Agent::start(home, manifests).map_err(|source| CliError::Io {
        operation: "start the agent with",
        path: log.clone(),
        source,
    })?;
    let run_dir = home.paths().run_dir;
    output::say(&format!(
        "running; look at it by: {} get pods --run-dir {}",
        super::own_name(),
        run_dir.display()
    ));
    let mut followers = Followers::new(home.paths());
    let ended = watch(home, &agent, signals, &mut followers)?;
    match (ended, agent.end()) {
        (Ended::InHaste, _) => Ok(Grace::Shortest),
        (Ended::Unasked, _) => Ok(Grace::Recorded),
        // It was asked to end, by us or by `vetch stop`.
        (Ended::OnRequest, _) | (Ended::ByItself, Some(true)) => {
            smol::block_on(followers.finish());
            Ok(Grace::Recorded)
        }
        (Ended::ByItself, _) => Err(CliError::AgentEnded {
            last_words: last_words(&log),
        }),
    }
}

/// How the session ended.
enum Ended {
    /// By the agent, with all pods.
    OnRequest,
    /// Told twice: pods still run.
    InHaste,
    /// Told, but the agent could not be asked (it may not be up yet): pods may still run.
    Unasked,
    /// Nobody told us.
    ByItself,
}

fn watch(
    home: &Home,
    agent: &Agent,
    signals: OwnedFd,
    followers: &mut Followers,
) -> Result<Ended, CliError> {
    let client = Client::new(&home.paths());
    let signals = Async::new(signals).map_err(CliError::Signals)?;
    let gone = Async::new(agent.gone.try_clone().map_err(CliError::Signals)?)
        .map_err(CliError::Signals)?;
    let mut shown = 0;
    let mut finished = BTreeSet::new();
    let mut stopping = false;
    let mut generation = 0;
    let mut changes = ask(&client, generation, Duration::ZERO);
    loop {
        match smol::block_on(next(&mut changes, &signals, &gone)) {
            News::Changed(Ok(change)) => {
                generation = change.generation;
                shown = show_events(&client, shown);
                followers.look();
                show_finished(&client, &mut finished);
                changes = ask(&client, generation, Duration::ZERO);
            }
            News::Changed(Err(_)) => changes = ask(&client, generation, RETRY),
            News::Signal if stopping => return Ok(Ended::InHaste),
            News::Signal => {
                output::say("ending all pods; Ctrl-C again gives them two seconds");
                stopping = true;
                if client.stop().is_err() {
                    return Ok(Ended::Unasked);
                }
            }
            News::AgentEnded if stopping => return Ok(Ended::OnRequest),
            News::AgentEnded => return Ok(Ended::ByItself),
        }
    }
}

async fn next(
    changes: &mut Task<Result<Changes, ClientError>>,
    signals: &Async<OwnedFd>,
    gone: &Async<OwnedFd>,
) -> News {
    let changed = async { News::Changed(changes.await) };
    let signal = async {
        while signals::next(signals).is_none() {
            if signals.readable().await.is_err() {
                return future::pending().await;
            }
        }
        News::Signal
    };
    let ended = async {
        // A pidfd is readable when its process has ended.
        let _ = gone.readable().await;
        News::AgentEnded
    };
    future::or(signal, future::or(changed, ended)).await
}

fn ask(client: &Client, after: u64, pause: Duration) -> Task<Result<Changes, ClientError>> {
    let client = client.clone();
    smol::unblock(move || {
        smol::block_on(Timer::after(pause));
        client.changes(after)
    })
}

/// Says each event above `shown`; gives the highest one.
fn show_events(client: &Client, shown: u64) -> u64 {
    // An agent that is on its way out has nothing more to say.
    let events = client.events().unwrap_or_default();
    for record in events.iter().filter(|record| record.sequence > shown) {
        output::say(&event_line(record));
    }
    events
        .iter()
        .map(|record| record.sequence)
        .fold(shown, u64::max)
}

/// Says of each pod, once, that it has ended for good.
fn show_finished(client: &Client, told: &mut BTreeSet<String>) {
    for pod in client.pods().unwrap_or_default() {
        let phase = pod
            .status
            .as_ref()
            .and_then(|status| status.phase.as_deref());
        if let Some(phase @ ("Succeeded" | "Failed")) = phase
            && told.insert(pod.metadata.uid.clone().unwrap_or_default())
        {
            let name = select::name(&pod);
            output::say(&format!("* {name}: {phase}: all containers have ended"));
        }
    }
}

fn event_line(record: &EventRecord) -> String {
    let event = &record.event;
    let kind = if event.warning { "warning: " } else { "" };
    let subject = match &event.container {
        Some(container) => format!("{}/{container}", event.name),
        None => event.name.clone(),
    };
    format!("* {subject}: {kind}{}: {}", event.reason, event.message)
}

/// The agent, ended at the latest when this is dropped.
struct Agent {
    child: Child,
    gone: OwnedFd,
}

impl Agent {
    /// In its own process group: Ctrl-C is for us, not for the agent or the pods.
    fn start(home: &Home, manifests: &Path) -> io::Result<Self> {
        let log = File::create(home.agent_log())?;
        let mut child = home
            .agent_command(manifests)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .process_group(0)
            .spawn()?;
        let pid = i32::try_from(child.id()).map_err(io::Error::other)?;
        // Not waited for yet, so the pid is still its own, even if it has ended already.
        match process::of(pid).and_then(process::pidfd_open) {
            Ok(gone) => Ok(Self { child, gone }),
            Err(error) => {
                let _ = child.kill();
                let _ = child.wait();
                Err(error)
            }
        }
    }

    /// Does nothing to an agent that has ended; says whether it ended well.
    fn end(&mut self) -> Option<bool> {
        let _ = self.child.kill();
        Some(self.child.wait().ok()?.success())
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.end();
    }
}

/// The end of the agent's log.
fn last_words(log: &Path) -> String {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    let start = lines.len().saturating_sub(LAST_LINES);
    lines.get(start..).unwrap_or_default().join("\n")
}
