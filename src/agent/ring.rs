//! The last events, with repeats counted. In memory only: an idle node writes nothing.

use std::collections::VecDeque;

use crate::api::types::EventRecord;
use crate::plan::Event;

#[cfg(test)]
mod tests;

/// Events kept.
const CAPACITY: usize = 1000;

/// What recording an event did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recorded {
    /// Not seen before, or long forgotten.
    New,
    /// The same pod, container, reason and message again.
    Repeat,
}

/// The last 1,000 different events, ordered by their newest occurrence.
#[derive(Debug, Default)]
pub struct Ring {
    records: VecDeque<EventRecord>,
    sequence: u64,
}

impl Ring {
    /// Adds an event, or counts its repeat and makes it the newest.
    pub fn record(&mut self, event: Event, now: jiff::Timestamp) -> Recorded {
        self.sequence += 1;
        // Repeats are usually recent.
        let seen = self.records.iter().rposition(|old| old.event == event);
        let known = seen.and_then(|index| self.records.remove(index));
        let (record, outcome) = match known {
            Some(mut record) => {
                record.sequence = self.sequence;
                record.count = record.count.saturating_add(1);
                record.last = now;
                (record, Recorded::Repeat)
            }
            None => (
                EventRecord {
                    sequence: self.sequence,
                    event,
                    count: 1,
                    first: now,
                    last: now,
                },
                Recorded::New,
            ),
        };
        if self.records.len() == CAPACITY {
            self.records.pop_front();
        }
        self.records.push_back(record);
        outcome
    }

    /// Oldest first.
    pub fn iter(&self) -> impl Iterator<Item = &EventRecord> {
        self.records.iter()
    }
}
