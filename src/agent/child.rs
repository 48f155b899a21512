//! Children for slow work: vetch itself in another role, one job, watched by pidfd so that the loop never waits.

use std::ffi::OsStr;
use std::io;
use std::os::fd::OwnedFd;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use futures_lite::{AsyncRead, AsyncReadExt, future};
use smol::{Async, Timer};

/// What is kept of a child's last words.
const MAX_WORDS: usize = 4096;

/// What is read of a child's answer.
const MAX_ANSWER: u64 = 16 << 20;

/// A pidfd of our own unreaped child: its pid cannot be anybody else's.
pub fn watch(child: &Child) -> io::Result<Async<OwnedFd>> {
    let pid = i32::try_from(child.id())
        .ok()
        .and_then(rustix::process::Pid::from_raw)
        .ok_or(io::ErrorKind::InvalidData)?;
    let pidfd = rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty())?;
    Async::new(pidfd)
}

/// Why a child did not do its work.
#[derive(Debug, thiserror::Error)]
pub enum ChildError {
    /// It could not be started, or not be watched.
    #[error("run a child")]
    Run(#[from] io::Error),
    /// It failed without a word.
    #[error("a child ended with {0}")]
    Status(ExitStatus),
    /// It was killed after so long.
    #[error("a child had no answer after {0} s")]
    Late(u64),
    /// It failed, and said this on stderr.
    #[error("{0}")]
    Words(String),
}

/// Runs `vetch ARGS…` to its end, and gives what it said on stderr, in one line.
pub async fn run<S: AsRef<OsStr>>(args: &[S]) -> Result<String, ChildError> {
    let mut child = command(args).stdout(Stdio::null()).spawn()?;
    let mut words = String::new();
    if let Some(stderr) = child.stderr.take() {
        words = last_words(Async::new(stderr)?).await;
    }
    // It closed its stderr, so that it is about to end; but that is its word only.
    let _ = watch(&child)?.readable().await;
    let status = child.wait()?;
    judge(status, &words)?;
    Ok(words)
}

/// Runs `vetch ARGS…`, not longer than `limit`, and gives what it said on stdout.
pub async fn ask<S: AsRef<OsStr>>(args: &[S], limit: Duration) -> Result<Vec<u8>, ChildError> {
    let mut child = command(args).stdout(Stdio::piped()).spawn()?;
    let talked = async {
        let (mut answer, mut words) = (Vec::new(), String::new());
        if let (Some(stdout), Some(stderr)) = (child.stdout.take(), child.stderr.take()) {
            let mut stdout = Async::new(stdout)?.take(MAX_ANSWER);
            let told = future::zip(
                stdout.read_to_end(&mut answer),
                last_words(Async::new(stderr)?),
            );
            words = told.await.1;
        }
        Ok::<_, io::Error>((answer, words))
    };
    let late = async {
        Timer::after(limit).await;
        None
    };
    let told = future::or(async { Some(talked.await) }, late).await;
    if told.is_none() {
        let _ = child.kill();
    }
    let _ = watch(&child)?.readable().await;
    let status = child.wait()?;
    let (answer, words) = told.ok_or(ChildError::Late(limit.as_secs()))??;
    judge(status, &words)?;
    Ok(answer)
}

fn command<S: AsRef<OsStr>>(args: &[S]) -> Command {
    let mut command = Command::new("/proc/self/exe");
    command
        .args(args)
        .env_clear()
        .current_dir("/")
        .stdin(Stdio::null())
        .stderr(Stdio::piped());
    command
}

fn judge(status: ExitStatus, words: &str) -> Result<(), ChildError> {
    match (status.success(), words) {
        (true, _) => Ok(()),
        (false, "") => Err(ChildError::Status(status)),
        (false, words) => Err(ChildError::Words(words.to_owned())),
    }
}

async fn last_words(mut stderr: impl AsyncRead + Unpin) -> String {
    let mut kept = Vec::new();
    let mut chunk = [0; 512];
    while let Ok(n @ 1..) = stderr.read(&mut chunk).await {
        kept.extend_from_slice(chunk.get(..n).unwrap_or_default());
        let surplus = kept.len().saturating_sub(MAX_WORDS);
        kept.drain(..surplus);
    }
    String::from_utf8_lossy(&kept).trim().replace('\n', "; ")
}
