//! The last events, with repeats counted. In memory only: an idle node writes nothing.

use std::collections::VecDeque;

use crate::api::types::EventRecord;
use crate::plan::Event;

#[cfg(test)]
mod tests;

/// Events kept.
const CAPACITY: usize = 1000;
/// Bytes of their messages: outputs of probes may be long.
const MAX_BYTES: usize = 1 << 20;
/// Different messages kept of the same pod, container and reason. A probe whose output has the time in it must not push
/// everything else out.
const MAX_ALIKE: usize = 10;

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
        self.make_room(&record.event);
        self.records.push_back(record);
        outcome
    }

    fn make_room(&mut self, event: &Event) {
        let is_alike = |old: &EventRecord| {
            (&old.event.uid, &old.event.container, &old.event.reason)
                == (&event.uid, &event.container, &event.reason)
        };
        let mut alike = self.records.iter().enumerate().filter(|(_, r)| is_alike(r));
        let oldest = alike.next().map(|(index, _)| index);
        if let Some(oldest) = oldest.filter(|_| alike.count() + 1 >= MAX_ALIKE) {
            self.records.remove(oldest);
        }
        let mut bytes: usize = self.records.iter().map(|r| r.event.message.len()).sum();
        bytes += event.message.len();
        while self.records.len() >= CAPACITY || bytes > MAX_BYTES {
            let Some(gone) = self.records.pop_front() else {
                return;
            };
            bytes -= gone.event.message.len();
        }
    }

    /// Oldest first.
    pub fn iter(&self) -> impl Iterator<Item = &EventRecord> {
        self.records.iter()
    }
}
