//! What happens to a dead sandbox: everything in its cgroup is killed, then its cgroups, its run directory and its
//! writable layers go, and the volumes of a pod that was evicted. A task of its own: a process in uninterruptible sleep delays only its own pod.

use std::rc::Rc;
use std::time::Duration;

use async_channel::Sender;
use smol::Timer;

use super::news::{News, SandboxId};
use super::trash;
use crate::config::Paths;
use crate::holder::cgroup::Cgroups;
use crate::holder::proto::SandboxSpec;
use crate::sys::{mounts, remove};

/// First pause between two looks; doubles up to [`MAX_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_millis(2);
/// A kill that does not work at once may take for ever: look once a second then.
const MAX_PAUSE: Duration = Duration::from_secs(1);
/// Looks until the trouble is told: 2 ms doubling to 1 s gives about 30 s.
const LOOKS_UNTIL_STUCK: u32 = 38;
/// Looks at a sandbox whose holder never wrote a state, about half a second: the agent that started it was killed, and
/// the holder may be on its way into its cgroup.
const LOOKS_AT_HALF_MADE: u32 = 8;
/// Tries to remove a cgroup that is empty but still busy.
const REMOVE_TRIES: u32 = 8;

/// A dead sandbox.
#[derive(Debug)]
pub struct Remains {
    /// Which.
    pub id: SandboxId,
    /// Its cgroups.
    pub spec: SandboxSpec,
    /// Where things live.
    pub paths: Paths,
    /// To kill and to remove.
    pub cgroups: Rc<Cgroups>,
    /// D-8: its pod was evicted, and gives up what it has on the disk.
    pub is_evicted: bool,
    /// Where to tell.
    pub news: Sender<News>,
}

impl Remains {
    /// Runs until nothing is left; the last word is [`News::Cleaned`].
    pub async fn clean(self) {
        self.kill().await;
        self.remove_cgroups().await;
        self.throw_layers();
        if self.is_evicted {
            // As with layers, what cannot be moved stays.
            let volumes = self.paths.pod_volumes(&self.id.uid);
            let _ = trash::throw(&self.paths.trash(), &volumes);
        }
        // V-52: what its containers mounted for the host, and no new one shall find.
        let _ = mounts::unmount_below(&self.paths.pod(&self.id.uid));
        // What stays (never seen) is taken away before the next sandbox of this pod, or at the next start.
        let _ = remove::tree(self.paths.holder(&self.id.uid).dir());
        let _ = self.news.send(News::Cleaned(self.id.clone())).await;
    }

    fn groups(&self) -> [&str; 2] {
        [&self.spec.pod_cgroup, &self.spec.holder_cgroup]
    }

    fn is_populated(&self) -> bool {
        let mut groups = self.groups().into_iter();
        groups.any(|group| self.cgroups.is_populated(group))
    }

    /// Until no process is left.
    async fn kill(&self) {
        let mut pause = FIRST_PAUSE;
        let mut looks = 0_u32;
        let is_half_made = !self.paths.holder(&self.id.uid).state().exists();
        let least = if is_half_made { LOOKS_AT_HALF_MADE } else { 0 };
        while looks < least || self.is_populated() {
            for group in self.groups() {
                self.cgroups.kill(group);
            }
            Timer::after(pause).await;
            pause = (pause * 2).min(MAX_PAUSE);
            looks = looks.saturating_add(1);
            if looks == LOOKS_UNTIL_STUCK {
                let stuck = News::CleaningStuck(self.id.clone());
                let _ = self.news.send(stuck).await;
            }
        }
    }

    /// A cgroup stays busy for a moment after its last process.
    async fn remove_cgroups(&self) {
        for group in self.groups() {
            let mut pause = FIRST_PAUSE;
            for _ in 0..REMOVE_TRIES {
                if self.cgroups.remove(group).is_ok() {
                    break;
                }
                Timer::after(pause).await;
                pause *= 2;
            }
        }
    }

    fn throw_layers(&self) {
        let layers = self.paths.pod(&self.id.uid).join("layers");
        for layer in std::fs::read_dir(layers).into_iter().flatten().flatten() {
            // On a full or read-only disk they stay until the next start or the pod's end.
            let _ = trash::throw(&self.paths.trash(), &layer.path());
        }
    }
}
