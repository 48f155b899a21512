//! a command in the container, run by the pod's holder, which also kills it when its time is over.

use std::fs::File;
use std::io::{self, PipeReader, Read};
use std::os::fd::AsFd;
use std::time::Duration;

use futures_lite::{FutureExt, future};
use smol::{Async, Timer};

use super::{Outcome, Target};
use crate::error;
use crate::holder::client::{ClientError, HolderConnection};
use crate::holder::proto::{ExecCommand, FailureKind, FromHolder, Reply, Request, ToHolder};

/// How much of the output is kept; the rest is read and forgotten, so that the command does not wait.
const MAX_OUTPUT: usize = 10 * 1024;
///
const TRIES: usize = 3;
/// How long a holder may take beyond the timeout to start the command and to end it.
const MARGIN: Duration = Duration::from_secs(2);

/// Why a command was not run.
#[derive(Debug, thiserror::Error)]
enum ExecError {
    #[error(transparent)]
    Holder(#[from] ClientError),
    #[error("make a pipe for the command")]
    Pipe(#[from] io::Error),
    #[error("{message}")]
    Refused { kind: FailureKind, message: String },
}

/// How a command ended.
struct Ended {
    code: i32,
    timed_out: bool,
}

pub(super) async fn run(args: &[String], target: &Target, timeout: Duration) -> Outcome {
    let timed_out = || {
        let command = args.join(" ");
        Outcome::Failure(format!(
            "command timed out: {command:?} timed out after {timeout:?}"
        ))
    };
    let tried = async {
        for _ in 1..TRIES {
            match exec(args, target, timeout).await {
                Err(error) if !is_final(&error) => {}
                other => return other,
            }
        }
        exec(args, target, timeout).await
    };
    let late = async {
        Timer::after(timeout.saturating_add(MARGIN)).await;
        let ended = Ended {
            code: -1,
            timed_out: true,
        };
        Ok((ended, Vec::new()))
    };
    match tried.or(late).await {
        Ok((ended, _)) if ended.timed_out => timed_out(),
        Ok((ended, _)) if ended.code == 0 => Outcome::Success,
        Ok((_, output)) => Outcome::Failure(String::from_utf8_lossy(&output).trim_end().to_owned()),
        Err(error) => Outcome::Errored(error::chain(&error)),
    }
}

/// What another try would not change.
fn is_final(error: &ExecError) -> bool {
    matches!(
        error,
        ExecError::Refused {
            kind: FailureKind::NotFound | FailureKind::Start | FailureKind::Refused,
            ..
        }
    )
}

async fn exec(
    args: &[String],
    target: &Target,
    timeout: Duration,
) -> Result<(Ended, Vec<u8>), ExecError> {
    let (connection, output) = start(args, target, timeout)?;
    let mut kept = Vec::new();
    let pumped = async {
        pump(&output, &mut kept).await?;
        // Closed outputs are not the end of the command.
        future::pending().await
    };
    let ended = wait(&connection).or(pumped).await?;
    // A command left in the background may hold the pipe for ever: only what is there already.
    take_rest(output.get_ref(), &mut kept);
    Ok((ended, kept))
}

/// Sends the command with its descriptors: no input, and one pipe for both outputs.
fn start(
    args: &[String],
    target: &Target,
    timeout: Duration,
) -> Result<(Async<HolderConnection>, Async<PipeReader>), ExecError> {
    let request = ToHolder {
        id: 1,
        request: Request::Exec(ExecCommand {
            container: target.container_id.clone(),
            args: args.to_vec(),
            tty: false,
            timeout_ms: Some(u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX)),
        }),
    };
    let input = File::open("/dev/null")?;
    let (output, theirs) = io::pipe()?;
    let connection = HolderConnection::connect(&target.holder)?;
    // New and in blocking mode: it has room for one packet, and nothing waits.
    connection.send(&request, &[input.as_fd(), theirs.as_fd(), theirs.as_fd()])?;
    let connection = Async::new(connection).map_err(ClientError::Transport)?;
    Ok((connection, Async::new(output)?))
}

/// Until the command has ended; the holder's states in between are for others.
async fn wait(connection: &Async<HolderConnection>) -> Result<Ended, ExecError> {
    loop {
        match connection.get_ref().recv() {
            Ok((FromHolder::ExecExited { code, timed_out }, _)) => {
                return Ok(Ended { code, timed_out });
            }
            Ok((
                FromHolder::Reply {
                    reply: Reply::Failed { kind, message },
                    ..
                },
                _,
            )) => {
                return Err(ExecError::Refused { kind, message });
            }
            Ok((
                FromHolder::State(_)
                | FromHolder::Reply {
                    reply: Reply::Done | Reply::Started { .. },
                    ..
                },
                _,
            )) => {}
            Err(error) if error.would_block() => connection.readable().await?,
            Err(error) => return Err(error.into()),
        }
    }
}

/// Reads to the end and keeps the begin.
async fn pump(output: &Async<PipeReader>, kept: &mut Vec<u8>) -> io::Result<()> {
    let mut chunk = [0; 4096];
    loop {
        match output.read_with(|mut pipe| pipe.read(&mut chunk)).await? {
            0 => return Ok(()),
            n => keep(kept, chunk.get(..n).unwrap_or_default()),
        }
        // A pipe that is never empty must not hold the thread of all others.
        future::yield_now().await;
    }
}

fn take_rest(mut output: &PipeReader, kept: &mut Vec<u8>) {
    let mut chunk = [0; 4096];
    while kept.len() < MAX_OUTPUT {
        match output.read(&mut chunk) {
            Ok(n) if n > 0 => keep(kept, chunk.get(..n).unwrap_or_default()),
            _ => break,
        }
    }
}

fn keep(kept: &mut Vec<u8>, chunk: &[u8]) {
    let room = MAX_OUTPUT.saturating_sub(kept.len());
    kept.extend(chunk.iter().take(room));
}
