//! Signals to the agent (N-85): SIGTERM and SIGINT end it, SIGHUP makes it look again.

use std::io;

use async_signal::{Signal, Signals};
use futures_lite::StreamExt;

use super::state::Shared;

/// From here on the signals are ours.
pub fn catch() -> io::Result<Signals> {
    Signals::new([Signal::Term, Signal::Int, Signal::Hup])
}

/// Turns signals into wishes, for ever.
pub async fn obey(mut signals: Signals, agent: Shared) {
    while let Some(signal) = signals.next().await {
        let mut agent = agent.borrow_mut();
        match signal {
            Ok(Signal::Term | Signal::Int) => agent.wishes.leave = true,
            Ok(_) => agent.wishes.rescan = true,
            Err(_) => continue,
        }
        agent.look_again();
    }
}
