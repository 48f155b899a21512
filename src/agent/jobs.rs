//! Slow work, off the loop: records are synced by a thread, images imported and trees removed by children. One of a kind
//! at a time.

use std::ffi::OsString;
use std::time::Duration;

use smol::Timer;

use super::news::News;
use super::state::Agent;
use super::{child, store, trash};
use crate::image::import_dir;

/// Records that change within this time are synced together.
const SYNC_DELAY: Duration = Duration::from_millis(200);

/// One kind of work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Job {
    /// None runs.
    Idle,
    /// One runs.
    Running,
}

/// Where all work stands, but for imports, which [`super::imports`] knows.
#[derive(Debug)]
pub struct Jobs {
    /// Syncing records.
    pub sync: Job,
    /// Emptying the trash.
    pub sweep: Job,
    /// Something was thrown into the trash.
    pub trash_is_dirty: bool,
}

impl Jobs {
    /// None runs. An earlier agent may have left something in the trash.
    pub fn new() -> Self {
        Self {
            sync: Job::Idle,
            sweep: Job::Idle,
            trash_is_dirty: true,
        }
    }
}

impl Agent {
    /// Starts what is wanted and does not run.
    pub fn start_jobs(&mut self) {
        self.start_import();
        self.start_sync();
        self.start_sweep();
    }

    fn start_import(&mut self) {
        if !self.imports.start() {
            return;
        }
        let news = self.news.clone();
        let args: [OsString; 2] = [
            import_dir::ROLE.into(),
            self.config.paths.root_dir.clone().into(),
        ];
        self.executor
            .spawn(async move {
                let outcome = child::run(&args).await;
                let _ = news.send(News::Imported(outcome)).await;
            })
            .detach();
    }

    /// Invariant 6.
    fn start_sync(&mut self) {
        if self.jobs.sync == Job::Running {
            return;
        }
        let paths = self.records.take_unsynced();
        if paths.is_empty() {
            return;
        }
        self.jobs.sync = Job::Running;
        let news = self.news.clone();
        self.executor
            .spawn(async move {
                Timer::after(SYNC_DELAY).await;
                let outcome = store::sync_aside(paths).await;
                let _ = news.send(News::Synced(outcome)).await;
            })
            .detach();
    }

    fn start_sweep(&mut self) {
        if self.jobs.sweep == Job::Running || !self.jobs.trash_is_dirty {
            return;
        }
        self.jobs.trash_is_dirty = false;
        let dirs = trash::full(&self.config.paths);
        if dirs.is_empty() {
            return;
        }
        self.jobs.sweep = Job::Running;
        let news = self.news.clone();
        self.executor
            .spawn(async move {
                let mut args = vec![OsString::from(trash::ROLE)];
                args.extend(dirs.into_iter().map(OsString::from));
                // What it could not remove stays for the next start; it has said why.
                let _ = child::run(&args).await;
                let _ = news.send(News::Swept).await;
            })
            .detach();
    }
}
