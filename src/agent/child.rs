//! Children for slow work: vetch itself in another role, one job, watched by pidfd so that the loop never waits.

use std::ffi::OsStr;
use std::io;
use std::os::fd::OwnedFd;
use std::process::{Child, Command, Stdio};

use futures_lite::AsyncReadExt;
use smol::Async;

/// What is kept of a child's last words.
const MAX_WORDS: usize = 4096;

/// A pidfd of our own unreaped child: its pid cannot be anybody else's.
pub fn watch(child: &Child) -> io::Result<Async<OwnedFd>> {
    let pid = i32::try_from(child.id())
        .ok()
        .and_then(rustix::process::Pid::from_raw)
        .ok_or(io::ErrorKind::InvalidData)?;
    let pidfd = rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty())?;
    Async::new(pidfd)
}

/// Runs `vetch ARGS…` to its end; a failure is what it said on stderr, in one line.
pub async fn run<S: AsRef<OsStr>>(args: &[S]) -> Result<(), String> {
    run_child(args)
        .await
        .unwrap_or_else(|error| Err(error.to_string()))
}

async fn run_child<S: AsRef<OsStr>>(args: &[S]) -> io::Result<Result<(), String>> {
    let mut child = Command::new("/proc/self/exe")
        .args(args)
        .env_clear()
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()?;
    let mut words = String::new();
    if let Some(stderr) = child.stderr.take() {
        words = last_words(Async::new(stderr)?).await;
    }
    // It closed its stderr, so that it is about to end; but that is its word only.
    let _ = watch(&child)?.readable().await;
    let status = child.wait()?;
    Ok(if status.success() {
        Ok(())
    } else if words.is_empty() {
        Err(status.to_string())
    } else {
        Err(words)
    })
}

async fn last_words(mut stderr: Async<std::process::ChildStderr>) -> String {
    let mut kept = Vec::new();
    let mut chunk = [0; 512];
    while let Ok(n @ 1..) = stderr.read(&mut chunk).await {
        kept.extend_from_slice(chunk.get(..n).unwrap_or_default());
        let surplus = kept.len().saturating_sub(MAX_WORDS);
        kept.drain(..surplus);
    }
    String::from_utf8_lossy(&kept).trim().replace('\n', "; ")
}
