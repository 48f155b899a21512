//! Hears from the kernel (4.20 and newer) when processes wait for memory: nothing wakes up while none does.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::OwnedFd;

use async_channel::Sender;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use smol::Async;

use super::news::News;

const FILE: &str = "/proc/pressure/memory";

/// 150 ms of any two seconds; so it is said every two seconds at most.
const TRIGGER: &[u8] = b"some 150000 2000000\0";

/// Tells each time; ends at once where the kernel has nothing of the kind.
pub async fn tell(news: Sender<News>) {
    let Ok(bell) = Bell::new() else { return };
    while bell.rung().await.is_ok() {
        if news.send(News::Stalled).await.is_err() {
            return;
        }
    }
}

struct Bell {
    /// Readable when the trigger has something urgent: by itself it counts as readable at any time.
    urgent: Async<OwnedFd>,
    /// The trigger lives as long as it is open.
    _trigger: File,
}

impl Bell {
    fn new() -> io::Result<Self> {
        let mut trigger = OpenOptions::new().read(true).write(true).open(FILE)?;
        trigger.write_all(TRIGGER)?;
        let urgent = epoll::create(CreateFlags::CLOEXEC)?;
        epoll::add(&urgent, &trigger, EventData::new_u64(0), EventFlags::PRI)?;
        Ok(Self {
            urgent: Async::new(urgent)?,
            _trigger: trigger,
        })
    }

    async fn rung(&self) -> io::Result<()> {
        self.urgent.readable().await?;
        // Taking it makes it quiet again.
        let mut events = Vec::with_capacity(1);
        let buffer = rustix::buffer::spare_capacity(&mut events);
        let now = rustix::time::Timespec::default();
        epoll::wait(&self.urgent, buffer, Some(&now))?;
        Ok(())
    }
}
