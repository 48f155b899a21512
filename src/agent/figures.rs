//! Resource figures for clients: read by a child when they are asked for, since that takes time and memory that a loop
//! does not have.

use std::time::Duration;

use async_channel::Receiver;

use super::child;
use super::state::Agent;
use crate::error::chain;
use crate::figures::{Ask, Depth, INTERVAL};

/// Children at once; who comes later waits.
const MAX_CHILDREN: usize = 2;

/// Longest life of a child. A client's connection lasts a little longer.
const LIMIT: Duration = Duration::from_secs(45);

/// The right to start a child: as many as there are in the channel.
#[derive(Debug)]
pub struct Turns {
    free: (async_channel::Sender<()>, Receiver<()>),
}

impl Turns {
    /// All free.
    pub fn new() -> Self {
        let free = async_channel::bounded(MAX_CHILDREN);
        for _ in 0..MAX_CHILDREN {
            // There is room for just as many.
            let _ = free.0.try_send(());
        }
        Self { free }
    }
}

impl Agent {
    /// What a child is asked.
    pub fn question(&self, depth: Depth) -> Ask {
        Ask {
            paths: self.config.paths.clone(),
            node_name: self.config.node_name.clone(),
            cgroup_root: Some(self.config.cgroup_root.clone()),
            depth,
            interval: INTERVAL,
        }
    }

    /// Starts a child; its answer comes by the channel.
    pub fn summarize(&self, depth: Depth) -> Receiver<Result<Vec<u8>, String>> {
        let (tell, told) = async_channel::bounded(1);
        let args = self.question(depth).args();
        let (give_back, turn) = self.figures.free.clone();
        self.executor
            .spawn(async move {
                let _ = turn.recv().await;
                // A client that went away meanwhile needs nothing any more.
                if !tell.is_closed() {
                    let answer = child::ask(&args, LIMIT).await;
                    let _ = tell.send(answer.map_err(|error| chain(&error))).await;
                }
                let _ = give_back.send(()).await;
            })
            .detach();
        told
    }
}
