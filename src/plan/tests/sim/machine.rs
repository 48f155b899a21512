//! A holder with its wires to the agent: packets take their time, connections break, and an old agent's last requests may
//! still arrive.

use std::collections::VecDeque;

use async_channel::Receiver;

use super::dice::Dice;
use super::holder::{FakeHolder, Process};
use crate::agent::news::Fact;
use crate::agent::sandboxes::Parcel;
use crate::holder::proto::{Stamp, ToHolder};

const RECONNECT_PAUSE_MS: u64 = 1000;

#[derive(Debug)]
pub struct Machine {
    pub holder: FakeHolder,
    /// From the agent that lives.
    requests: Option<Receiver<Parcel>>,
    /// Its connection: which, from when on, and whether it was greeted.
    connection: u32,
    up_at_ms: u64,
    is_greeted: bool,
    inbox: VecDeque<(u64, u32, ToHolder)>,
    outbox: VecDeque<(u64, Fact)>,
    /// The agent gets to know of the holder's end then.
    end_told_at_ms: Option<u64>,
    never_came: bool,
}

impl Machine {
    pub fn new(holder: FakeHolder) -> Self {
        Self {
            never_came: matches!(holder.process, Process::Failing(_)),
            holder,
            requests: None,
            connection: 0,
            up_at_ms: 0,
            is_greeted: false,
            inbox: VecDeque::new(),
            outbox: VecDeque::new(),
            end_told_at_ms: None,
        }
    }

    /// An agent watches it and connects.
    pub fn attach(&mut self, requests: Receiver<Parcel>, now_ms: u64) {
        self.requests = Some(requests);
        self.connect_at(now_ms);
        self.end_told_at_ms = None;
    }

    fn connect_at(&mut self, at_ms: u64) {
        self.connection += 1;
        self.up_at_ms = at_ms;
        self.is_greeted = false;
        self.outbox.clear();
    }

    /// The connection breaks; what was sent may have arrived.
    pub fn break_connection(&mut self, now_ms: u64, dice: &mut Dice) {
        self.connect_at(now_ms + RECONNECT_PAUSE_MS);
        if dice.one_in(2) {
            self.inbox.clear();
        }
    }

    /// The agent is gone; what it sent may have arrived.
    pub fn detach(&mut self, now_ms: u64, dice: &mut Dice) {
        if let Some(requests) = self.requests.take()
            && dice.one_in(2)
        {
            self.receive(&requests, now_ms, dice);
        }
        self.connect_at(now_ms);
        if dice.one_in(3) {
            self.inbox.clear();
        }
    }

    fn is_connected(&self, now_ms: u64) -> bool {
        self.requests.is_some() && self.holder.process == Process::Up && self.up_at_ms <= now_ms
    }

    fn receive(&mut self, requests: &Receiver<Parcel>, now_ms: u64, dice: &mut Dice) {
        while let Ok(request) = requests.try_recv() {
            let last = self.inbox.back().map_or(0, |(at, ..)| *at);
            let at = last.max(now_ms + dice.delay_ms());
            self.inbox.push_back((at, self.connection, request.packet));
        }
    }

    /// Everything that is due on this side of the wire.
    pub fn turn(&mut self, now: Stamp, dice: &mut Dice) {
        if self.is_connected(now.boot_ms)
            && let Some(requests) = self.requests.clone()
        {
            self.receive(&requests, now.boot_ms, dice);
        }
        let due = |(at, ..): &mut (u64, u32, ToHolder)| *at <= now.boot_ms;
        if self.holder.process == Process::Up {
            while let Some((_, connection, request)) = self.inbox.pop_front_if(due) {
                self.holder.request(connection, request, now, dice);
            }
        }
        let facts = self.holder.turn(self.connection, now, dice);
        match self.holder.process {
            Process::Dead => {
                let told_at = now.boot_ms + dice.delay_ms();
                self.end_told_at_ms.get_or_insert(told_at);
                self.outbox.clear();
            }
            Process::Up if self.is_connected(now.boot_ms) => {
                let written = self.holder.written.clone();
                if !std::mem::replace(&mut self.is_greeted, true) {
                    let greeting = written.map(|state| Fact::State(Box::new(state)));
                    greeting
                        .into_iter()
                        .for_each(|g| self.send(g, now.boot_ms, dice));
                }
                for fact in facts {
                    self.send(fact, now.boot_ms, dice);
                }
            }
            Process::Coming(_) | Process::Failing(_) | Process::Up => {}
        }
    }

    fn send(&mut self, fact: Fact, now_ms: u64, dice: &mut Dice) {
        let last = self.outbox.back().map_or(0, |(at, _)| *at);
        let at = last.max(now_ms + dice.delay_ms());
        self.outbox.push_back((at, fact));
    }

    /// What the agent hears now.
    pub fn hear(&mut self, now_ms: u64) -> Vec<Fact> {
        if self.requests.is_none() {
            return Vec::new();
        }
        let mut facts = Vec::new();
        while let Some((_, fact)) = self.outbox.pop_front_if(|(at, _)| *at <= now_ms) {
            facts.push(fact);
        }
        if self.end_told_at_ms.is_some_and(|at| at <= now_ms) {
            // Nothing follows.
            self.requests = None;
            facts.push(if self.never_came {
                Fact::NeverCame("it gave up".into())
            } else {
                Fact::Died
            });
        }
        facts
    }

    /// When something is due, in either direction.
    pub fn wake_at_ms(&self) -> Option<u64> {
        let has_agent = self.requests.is_some();
        let serves = self.holder.process == Process::Up;
        let inbox = self.inbox.front().map(|(at, ..)| *at).filter(|_| serves);
        let outbox = self.outbox.front().map(|(at, _)| *at);
        let end = self.end_told_at_ms;
        let greeting = (serves && !self.is_greeted).then_some(self.up_at_ms);
        let asked = self.requests.as_ref().is_some_and(|r| !r.is_empty());
        let request = (serves && asked).then_some(self.up_at_ms);
        let to_agent = [outbox, end, greeting, request].into_iter().flatten();
        let own = [inbox, self.holder.wake_at_ms()].into_iter().flatten();
        to_agent.filter(|_| has_agent).chain(own).min()
    }
}
