//! A directory watched by inotify: any event is a hint to look, never more. A watch that cannot be had, or dies with its
//! directory, is tried again; the periodic rescan is the safety net meanwhile.

use std::io;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::time::Duration;

use async_channel::Sender;
use futures_lite::FutureExt;
use inotify::{EventMask, Inotify, WatchMask};
use smol::{Async, Timer};

use super::news::News;
use super::sources::Watch;

/// Pause before a lost watch is made again.
const RETRY: Duration = Duration::from_secs(20);

/// Tells when a manifest may have changed, for ever.
pub async fn watch_manifests(mut watch: Watch, news: Sender<News>) {
    loop {
        // The timer has a lost watch made again; the periodic rescan has a timer of its own.
        let changed = async {
            watch.changed().await;
            true
        };
        let is_changed = changed
            .or(async {
                Timer::after(RETRY).await;
                false
            })
            .await;
        if is_changed {
            let _ = news.send(News::Manifests).await;
        }
    }
}

/// Tells `hint()` for each burst of events in `dir`, for ever.
pub async fn watch(dir: PathBuf, news: Sender<News>, hint: fn() -> News) {
    loop {
        // Missing directory, no watches left, no descriptors: all may pass.
        let _ = watch_once(&dir, &news, hint).await;
        Timer::after(RETRY).await;
        let _ = news.send(hint()).await;
    }
}

async fn watch_once(dir: &PathBuf, news: &Sender<News>, hint: fn() -> News) -> io::Result<()> {
    let mut inotify = Inotify::init()?;
    let mask = WatchMask::CLOSE_WRITE
        | WatchMask::CREATE
        | WatchMask::DELETE
        | WatchMask::MOVED_FROM
        | WatchMask::MOVED_TO
        | WatchMask::DELETE_SELF
        | WatchMask::MOVE_SELF
        | WatchMask::ONLYDIR;
    inotify.watches().add(dir, mask)?;
    let ready = Async::new(inotify.as_fd().try_clone_to_owned()?)?;
    let mut buffer = [0; 4096];
    loop {
        let mut is_lost = false;
        match inotify.read_events(&mut buffer) {
            Ok(events) => {
                for event in events {
                    is_lost |= event.mask.intersects(
                        EventMask::IGNORED | EventMask::DELETE_SELF | EventMask::MOVE_SELF,
                    );
                }
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                ready.readable().await?;
                continue;
            }
            Err(error) => return Err(error),
        }
        if news.send(hint()).await.is_err() || is_lost {
            return Ok(());
        }
    }
}
