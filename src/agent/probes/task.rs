//! The life of one probe. It decides nothing but when its own work is over.

use std::time::Duration;

use async_channel::Sender;
use smol::Timer;

use super::schedule::Schedule;
use super::{Complaint, Ill, Report};
use crate::agent::news::News;
use crate::plan::{Finding, ProbeKey, ProbeOrder, ProbeVerdict, Tally};
use crate::pod::probe::ProbeSpec;
use crate::probe::{self, Outcome, Target};
use crate::sys::clock;

/// R-20, bytes.
const MAX_OUTPUT: usize = 10 * 1024;

/// A probe of a container that runs.
#[derive(Debug)]
pub struct Runner {
    key: ProbeKey,
    spec: ProbeSpec,
    target: Target,
    schedule: Schedule,
    /// No run has said so yet.
    is_assumed: bool,
    pub(super) tally: Tally,
    news: Sender<News>,
}

impl Runner {
    /// A probe that has not run yet.
    pub fn new(
        key: ProbeKey,
        order: &ProbeOrder,
        (target, schedule): (Target, Schedule),
        news: Sender<News>,
    ) -> Self {
        Self {
            key,
            spec: order.spec.clone(),
            target,
            schedule,
            is_assumed: true,
            tally: Tally::new(order.initial),
            news,
        }
    }

    /// Runs again and again until its verdict is final. Then it is over, but stays among the agent's probes: the plan
    /// takes it out when it has acted.
    pub async fn live(mut self) {
        let timeout = Duration::from_secs(u64::from(self.spec.timeout_s));
        loop {
            self.sleep().await;
            // In a box that is there only meanwhile: most of its time a probe sleeps. R-15: a run that errs has been tried
            // again already, if that could change anything.
            let outcome = Box::pin(probe::run(&self.spec.check, &self.target, timeout)).await;
            if let Some(report) = self.take_in(outcome) {
                // The loop is gone only when the process ends.
                let _ = self.news.send(News::Probe(report)).await;
            }
            if self.is_settled() {
                return;
            }
            self.schedule.advance(clock::now().boot_ms);
        }
    }

    async fn sleep(&self) {
        loop {
            let wait_ms = self.schedule.wait_ms(clock::now().boot_ms);
            if wait_ms == 0 {
                return;
            }
            Timer::after(Duration::from_millis(wait_ms)).await;
        }
    }

    /// Counts one run; gives what is worth telling of it.
    pub(super) fn take_in(&mut self, outcome: Outcome) -> Option<Report> {
        let (result, ill, text) = match outcome {
            Outcome::Success => (Some(ProbeVerdict::Success), None, String::new()),
            Outcome::Warning(text) => (Some(ProbeVerdict::Success), Some(Ill::Doubtful), text),
            Outcome::Failure(text) => (Some(ProbeVerdict::Failure), Some(Ill::Failed), text),
            Outcome::Errored(text) => (None, Some(Ill::Errored), text),
        };
        let text = shortened(text);
        let finding = result.and_then(|result| self.count(result, &text));
        let complaint = ill.map(|ill| Complaint { ill, text });
        (complaint.is_some() || finding.is_some()).then(|| Report {
            key: self.key.clone(),
            complaint,
            finding,
        })
    }

    /// The verdict, if this result changes it, or is the first failure that bears out what was only assumed: with
    /// it comes what the probe said.
    fn count(&mut self, result: ProbeVerdict, output: &str) -> Option<Finding> {
        let old = self.tally.verdict();
        let verdict = self.tally.count(&self.spec, result);
        let bears_out = self.is_assumed && result == ProbeVerdict::Failure;
        let is_news = |verdict: &ProbeVerdict| {
            Some(*verdict) != old || (bears_out && *verdict == ProbeVerdict::Failure)
        };
        let verdict = verdict.filter(is_news)?;
        self.is_assumed = false;
        Some(Finding {
            verdict,
            output: output.to_owned(),
        })
    }

    pub(super) fn is_settled(&self) -> bool {
        self.tally.is_settled(self.key.kind)
    }
}

fn shortened(mut text: String) -> String {
    text.truncate(text.floor_char_boundary(MAX_OUTPUT));
    text
}
