//! One task per holder: starts or adopts it, talks to it, notices its death. It decides nothing.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use async_channel::{Receiver, Sender};
use futures_lite::{AsyncReadExt, FutureExt};
use smol::{Async, Timer};

use super::child::watch;
use super::news::{Fact, News, SandboxId};
use super::sandboxes::Parcel;
use crate::config::HolderPaths;
use crate::error::chain;
use crate::holder::client::{ClientError, HolderConnection};
use crate::holder::proto::{FailureKind, FromHolder, ProcessId, Reply};
use crate::sys;

/// A holder that is not ready after this never will be; generous for a busy device.
const READY_DEADLINE: Duration = Duration::from_secs(30);
/// Pause before connecting again to a holder that closed the connection but lives.
const RECONNECT_PAUSE: Duration = Duration::from_secs(1);
/// Longest first line read from a holder.
const MAX_READY_LINE: usize = 4096;
/// Bytes of a dead holder's last words.
const MAX_WORDS: u64 = 4096;

/// Where a holder comes from.
#[derive(Debug)]
pub enum Seed {
    /// To be started by us; we are its parent and reap it.
    Spawn,
    /// Started by an earlier agent; init reaps it.
    Adopt(Async<OwnedFd>),
}

/// The ends a link works with.
#[derive(Debug)]
pub struct Link {
    /// Which sandbox.
    pub id: SandboxId,
    /// Its files.
    pub paths: HolderPaths,
    /// What to ask it.
    pub requests: Receiver<Parcel>,
    /// Where to tell.
    pub news: Sender<News>,
}

/// Why no holder came.
#[derive(Debug, thiserror::Error)]
enum ArriveError {
    #[error("start the holder")]
    Start(#[source] io::Error),
    #[error("hear from the holder")]
    Hear(#[source] io::Error),
    #[error("watch the holder")]
    Watch(#[source] io::Error),
    #[error("the holder was not ready within {} s", READY_DEADLINE.as_secs())]
    Late,
    #[error("the holder ended before it was ready")]
    Ended,
    /// Its own words.
    #[error("{0}")]
    Told(String),
}

/// A holder process that is watched.
struct Watched {
    pidfd: Async<OwnedFd>,
    /// None when it is not our child.
    child: Option<Child>,
}

/// A pidfd of a holder that an earlier agent started, if that very process still lives.
pub fn adopt(process: ProcessId) -> io::Result<Option<Async<OwnedFd>>> {
    match sys::process::pidfd_open(process) {
        Ok(pidfd) => Async::new(pidfd).map(Some),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

impl Link {
    /// Runs until the holder is dead; the last word is [`Fact::Died`] or [`Fact::NeverCame`].
    pub async fn run(self, seed: Seed) {
        let fact = match self.arrive(seed).await {
            Ok(mut holder) => {
                self.talk_until_death(&holder).await;
                holder.reap();
                Fact::Died
            }
            Err(error) => {
                let why = chain(&error);
                let words = last_words(&self.paths);
                Fact::NeverCame(
                    words.map_or_else(|| why.clone(), |words| format!("{why}: {words}")),
                )
            }
        };
        self.tell(fact).await;
    }

    async fn tell(&self, fact: Fact) {
        // The loop is gone only when the process ends.
        let _ = self.news.send(News::Holder(self.id.clone(), fact)).await;
    }

    async fn arrive(&self, seed: Seed) -> Result<Watched, ArriveError> {
        let mut child = match seed {
            Seed::Adopt(pidfd) => return Ok(Watched { pidfd, child: None }),
            Seed::Spawn => spawn(&self.paths).map_err(ArriveError::Start)?,
        };
        let pidfd = async {
            ready(child.stdout.take()).await?;
            watch(&child).map_err(ArriveError::Watch)
        };
        match pidfd.await {
            Ok(pidfd) => Ok(Watched {
                pidfd,
                child: Some(child),
            }),
            Err(error) => {
                end(child).await;
                Err(error)
            }
        }
    }

    async fn talk_until_death(&self, holder: &Watched) {
        let death = async {
            // An error means the pidfd is of no use; the connection's end tells then, and the pass after it looks.
            let _ = holder.pidfd.readable().await;
        };
        let talk = async {
            loop {
                // Closed, or broken: connect again. A holder that merely hangs keeps its connection.
                let _ = self.converse().await;
                Timer::after(RECONNECT_PAUSE).await;
            }
        };
        death.or(talk).await;
    }

    /// One connection, until it breaks.
    async fn converse(&self) -> Result<(), ClientError> {
        let connection = HolderConnection::connect(&self.paths)?;
        let connection = Async::new(connection).map_err(ClientError::Transport)?;
        self.listen(&connection).or(self.ask(&connection)).await
    }

    async fn listen(&self, connection: &Async<HolderConnection>) -> Result<(), ClientError> {
        loop {
            match connection.get_ref().recv() {
                Ok((FromHolder::State(state), _)) => self.tell(Fact::State(state)).await,
                Ok((FromHolder::Reply { id, reply }, _)) => {
                    self.tell(Fact::Reply { id, reply }).await;
                }
                // We start no execs.
                Ok((FromHolder::ExecExited { .. }, _)) => {}
                Err(error) if error.would_block() => {
                    connection
                        .readable()
                        .await
                        .map_err(ClientError::Transport)?;
                }
                Err(error) => return Err(error),
            }
        }
    }

    async fn ask(&self, connection: &Async<HolderConnection>) -> Result<(), ClientError> {
        while let Ok(Parcel { packet, payload }) = self.requests.recv().await {
            let payload: Vec<BorrowedFd<'_>> = payload.iter().map(AsFd::as_fd).collect();
            loop {
                match connection.get_ref().send(&packet, &payload) {
                    Ok(()) => break,
                    Err(error) if error.would_block() => {
                        connection
                            .writable()
                            .await
                            .map_err(ClientError::Transport)?;
                    }
                    Err(error @ ClientError::TooLong(_)) => {
                        let message = format!("{error}; mount fewer volumes");
                        let kind = FailureKind::Refused;
                        let (id, reply) = (packet.id, Reply::Failed { kind, message });
                        self.tell(Fact::Reply { id, reply }).await;
                        break;
                    }
                    Err(error) => return Err(error),
                }
            }
        }
        // The sandbox was forgotten; death ends the link.
        futures_lite::future::pending().await
    }
}

impl Watched {
    fn reap(&mut self) {
        if let Some(child) = &mut self.child {
            // Dead already: this does not wait.
            let _ = child.wait();
        }
    }
}

fn spawn(paths: &HolderPaths) -> io::Result<Child> {
    // Panics of the holder land beside its state: small, and gone with it.
    let words = File::create(paths.dir().join("holder.err"))?;
    Command::new("/proc/self/exe")
        .arg("holder")
        .arg(paths.dir())
        .env_clear()
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(words)
        .spawn()
}

/// Waits for the `ready` line.
async fn ready(stdout: Option<ChildStdout>) -> Result<(), ArriveError> {
    let stdout = stdout.ok_or(ArriveError::Ended)?;
    let line = async { first_line(stdout).await.map_err(ArriveError::Hear) };
    let late = async {
        Timer::after(READY_DEADLINE).await;
        Err(ArriveError::Late)
    };
    let line = line.or(late).await?;
    match line.trim() {
        "ready" => Ok(()),
        "" => Err(ArriveError::Ended),
        other => {
            let why = other.strip_prefix("error: ").unwrap_or(other);
            Err(ArriveError::Told(why.to_owned()))
        }
    }
}

async fn first_line(stdout: ChildStdout) -> io::Result<String> {
    let mut stdout = Async::new(stdout)?;
    let mut bytes = Vec::new();
    let mut chunk = [0; 256];
    while !bytes.contains(&b'\n') && bytes.len() < MAX_READY_LINE {
        match stdout.read(&mut chunk).await? {
            0 => break,
            n => bytes.extend_from_slice(chunk.get(..n).unwrap_or_default()),
        }
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Ends a holder that did not come up, and reaps it.
async fn end(mut child: Child) {
    let _ = child.kill();
    if let Ok(pidfd) = watch(&child) {
        let _ = pidfd.readable().await;
    }
    let _ = child.wait();
}

/// What a dead holder said last, for the log.
pub fn last_words(paths: &HolderPaths) -> Option<String> {
    let mut words = Vec::new();
    let file = File::open(paths.dir().join("holder.err")).ok()?;
    file.take(MAX_WORDS).read_to_end(&mut words).ok()?;
    let text = String::from_utf8_lossy(&words).trim().to_owned();
    (!text.is_empty()).then_some(text)
}
