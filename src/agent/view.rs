//! What clients see: the outcome of the last pass, and that it has changed.

use std::collections::BTreeMap;
use std::convert::Infallible;

use async_channel::{Receiver, Sender};
use k8s_openapi::api::core::v1::Pod;

use crate::plan::Note;
use crate::pod::PodUid;

/// What the last pass showed.
#[derive(Debug, Default, PartialEq)]
pub struct Shown {
    /// With full status.
    pub pods: BTreeMap<PodUid, Pod>,
    /// Reasons; kept to tell clients when they change.
    pub notes: Vec<Note>,
    /// When waiting containers are due, CLOCK_BOOTTIME ms.
    pub restarts: BTreeMap<(PodUid, String), u64>,
    /// Node conditions.
    pub conditions: Vec<String>,
}

/// For the API.
#[derive(Debug)]
pub struct View {
    /// The newest.
    pub shown: Shown,
    generation: u64,
    /// Closed and replaced at each rise.
    gate: (Sender<Infallible>, Receiver<Infallible>),
}

impl View {
    /// Before the first pass.
    pub fn new() -> Self {
        Self {
            shown: Shown::default(),
            generation: 0,
            gate: async_channel::bounded(1),
        }
    }

    /// Rises with each visible change.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// A channel that closes with the next visible change.
    pub fn changed(&self) -> Receiver<Infallible> {
        self.gate.1.clone()
    }

    /// A client can see something new.
    pub fn rise(&mut self) {
        self.generation += 1;
        self.gate = async_channel::bounded(1);
    }

    /// Takes over what a pass shows; a rise if it is new.
    pub fn show(&mut self, shown: Shown) {
        if shown != self.shown {
            self.shown = shown;
            self.rise();
        }
    }
}
