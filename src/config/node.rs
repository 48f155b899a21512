//! What the node offers its pods, how soon it restarts them, and how it goes down.

use std::collections::BTreeMap;
use std::time::Duration;

use super::file::File;
use super::place::{ConfigError, Place};
use super::{BackoffCurve, Config, Reserved, ShutdownTurn};
use crate::pod::quantity::{self, Unit};
use crate::pod::{CRITICAL_PRIORITY, duration, names, sysctl};

/// What can be kept from pods.
const RESERVED: [&str; 2] = ["cpu", "memory"];
const BAD_START: &str = "must be between 1s and the longest back-off";
const BAD_ENFORCED: &str = "must be [pods], or [] for nothing; other cgroups are not ours";
const BAD_SWAP: &str = "must be NoSwap: containers do not swap";
const BAD_SYSCTL: &str = "must be a sysctl of its own in each pod (kernel.shm…, kernel.msg…, kernel.sem, fs.mqueue.…, net.…), or the beginning of some with * behind it";
const BAD_LABEL: &str = "must be a label, written like example.com/disk=ssd";

impl Place<'_> {
    /// The file's settings of this kind.
    pub(super) fn apply_node(&self, file: &File, config: &mut Config) -> Result<(), ConfigError> {
        config.backoff = self.backoff(file)?;
        if let Some(max) = file.max_pods {
            config.max_pods = max;
        }
        for (field, amounts) in [
            ("systemReserved", &file.system_reserved),
            ("kubeReserved", &file.kube_reserved),
        ] {
            self.reserve(field, amounts, &mut config.reserved)?;
        }
        for (key, value) in &file.vetch.node_labels {
            let field = format!("vetch.nodeLabels[{key}]");
            check_label(key, value).map_err(|why| self.refuse(&field, why))?;
            config.node_labels.insert(key.clone(), value.clone());
        }
        config.shutdown = self.turns(file)?;
        self.sysctls(file, config)?;
        config.eviction = self.eviction(file)?;
        self.limits(file, config)
    }

    /// C-72, C-74, C-75, C-77, C-85.
    fn limits(&self, file: &File, config: &mut Config) -> Result<(), ConfigError> {
        config.cpu_period_us = self.cpu_period(file)?;
        config.pod_pids = match file.pod_pids_limit {
            None | Some(-1) => None,
            Some(limit) => Some(
                u64::try_from(limit)
                    .ok()
                    .filter(|&limit| limit > 0)
                    .ok_or_else(|| {
                        self.refuse("podPidsLimit", "must be above 0, or -1 for no limit")
                    })?,
            ),
        };
        config.single_process_oom_kill = file.single_process_oom_kill == Some(true);
        if let Some(groups) = &file.enforce_node_allocatable {
            config.enforces_allocatable =
                match groups.iter().map(String::as_str).collect::<Vec<_>>()[..] {
                    [] | ["none"] => false,
                    ["pods"] => true,
                    _ => return Err(self.refuse("enforceNodeAllocatable", BAD_ENFORCED)),
                };
        }
        match file.memory_swap.swap_behavior.as_deref() {
            None | Some("" | "NoSwap") => Ok(()),
            Some(_) => Err(self.refuse("memorySwap.swapBehavior", BAD_SWAP)),
        }
    }

    /// C-61.
    fn sysctls(&self, file: &File, config: &mut Config) -> Result<(), ConfigError> {
        for text in &file.allowed_unsafe_sysctls {
            let pattern = sysctl::pattern(text).ok_or_else(|| {
                self.refuse("allowedUnsafeSysctls", format!("{text:?} {BAD_SYSCTL}"))
            })?;
            config.allowed_unsafe_sysctls.push(pattern);
        }
        Ok(())
    }

    fn cpu_period(&self, file: &File) -> Result<Option<u64>, ConfigError> {
        let field = "cpuCFSQuotaPeriod";
        let period = match &file.cpu_cfs_quota_period {
            Some(text) => self.duration(field, text)?,
            None => Duration::from_millis(100),
        };
        if !(Duration::from_millis(1)..=Duration::from_secs(1)).contains(&period) {
            return Err(self.refuse(field, "must be between 1ms and 1s"));
        }
        let us = u64::try_from(period.as_micros()).unwrap_or(u64::MAX);
        Ok((file.cpu_cfs_quota != Some(false)).then_some(us))
    }

    /// P-67: a cap below the usual start becomes the start, too.
    fn backoff(&self, file: &File) -> Result<BackoffCurve, ConfigError> {
        let mut curve = BackoffCurve::default();
        if let Some(text) = &file.crash_loop_back_off.max_container_restart_period {
            let field = "crashLoopBackOff.maxContainerRestartPeriod";
            let max = self.duration(field, text)?;
            if !(Duration::from_secs(1)..=curve.max).contains(&max) {
                return Err(self.refuse(field, "must be between 1s and 300s"));
            }
            curve.max = max;
            curve.start = curve.start.min(max);
        }
        if let Some(text) = &file.vetch.initial_container_restart_period {
            let field = "vetch.initialContainerRestartPeriod";
            let start = self.duration(field, text)?;
            if !(Duration::from_secs(1)..=curve.max).contains(&start) {
                return Err(self.refuse(field, BAD_START));
            }
            curve.start = start;
        }
        Ok(curve)
    }

    /// What is accepted, since it does no harm, but does nothing.
    pub(super) fn without_effect(&self, file: &File) -> Vec<String> {
        let reserved = [
            ("systemReserved", &file.system_reserved),
            ("kubeReserved", &file.kube_reserved),
        ];
        let fields = reserved.into_iter().flat_map(|(field, amounts)| {
            let others = amounts
                .keys()
                .filter(|name| !RESERVED.contains(&name.as_str()));
            others.map(move |name| format!("{field}.{name}"))
        });
        let path = self.path.display();
        let why = "is not reserved here, it has no effect";
        fields
            .map(|field| format!("{path}: {field}: {why}"))
            .collect()
    }

    /// N-20. What is no matter of ours (pid, ephemeral-storage) is accepted.
    fn reserve(
        &self,
        field: &str,
        amounts: &BTreeMap<String, String>,
        reserved: &mut Reserved,
    ) -> Result<(), ConfigError> {
        for (resource, text) in amounts {
            let (kept, unit) = match resource.as_str() {
                "cpu" => (Some(&mut reserved.cpu_milli), Unit::Milli),
                "memory" => (Some(&mut reserved.memory), Unit::One),
                _ => (None, Unit::One),
            };
            let amount = amount(text, unit).ok_or_else(|| {
                let field = format!("{field}.{resource}");
                self.refuse(&field, "must be an amount, written like 500m or 100Mi")
            })?;
            if let Some(kept) = kept {
                *kept = kept.saturating_add(amount);
            }
        }
        Ok(())
    }

    /// N-26.
    fn turns(&self, file: &File) -> Result<Vec<ShutdownTurn>, ConfigError> {
        let period = self.grace("shutdownGracePeriod", file.shutdown_grace_period.as_ref())?;
        let critical = self.grace(
            "shutdownGracePeriodCriticalPods",
            file.shutdown_grace_period_critical_pods.as_ref(),
        )?;
        if critical > period {
            return Err(self.refuse(
                "shutdownGracePeriodCriticalPods",
                "is a part of shutdownGracePeriod and cannot be longer",
            ));
        }
        if !file.shutdown_grace_period_by_pod_priority.is_empty() {
            return self.turns_by_priority(file, period);
        }
        if period == 0 {
            return Ok(default_turns());
        }
        Ok(usual_turns(period - critical, critical))
    }

    fn turns_by_priority(
        &self,
        file: &File,
        period: u64,
    ) -> Result<Vec<ShutdownTurn>, ConfigError> {
        let field = "shutdownGracePeriodByPodPriority";
        if period > 0 {
            return Err(self.refuse(field, "cannot be set together with shutdownGracePeriod"));
        }
        let table = &file.shutdown_grace_period_by_pod_priority;
        let turns: BTreeMap<i32, u64> = table
            .iter()
            .map(|t| {
                let grace_ms = u64::from(t.shutdown_grace_period_seconds) * 1000;
                (t.priority, grace_ms)
            })
            .collect();
        if turns.len() < table.len() {
            return Err(self.refuse(field, "must name each priority once"));
        }
        let turns = turns
            .into_iter()
            .map(|(priority, grace_ms)| ShutdownTurn { priority, grace_ms });
        Ok(turns.collect())
    }

    /// Milliseconds; 0 is off.
    fn grace(&self, field: &str, text: Option<&String>) -> Result<u64, ConfigError> {
        let Some(text) = text else { return Ok(0) };
        let grace = duration::parse(text).map_err(|error| self.refuse(field, error))?;
        let ms = u64::try_from(grace.as_millis()).unwrap_or(u64::MAX);
        if (1..1000).contains(&ms) {
            return Err(self.refuse(field, "must be 0 or at least 1s"));
        }
        Ok(ms)
    }
}

/// Without a setting: critical pods last, each pod with its own grace.
pub(super) fn default_turns() -> Vec<ShutdownTurn> {
    usual_turns(u64::MAX, u64::MAX)
}

fn usual_turns(normal_ms: u64, critical_ms: u64) -> Vec<ShutdownTurn> {
    let turns = [(0, normal_ms), (CRITICAL_PRIORITY, critical_ms)];
    turns
        .map(|(priority, grace_ms)| ShutdownTurn { priority, grace_ms })
        .into()
}

/// A quantity that is not negative, rounded up to whole units.
pub(super) fn amount(text: &str, unit: Unit) -> Option<u64> {
    unit.count(quantity::nanos(text)?)
}

/// `key=value`.
pub(super) fn label(text: &str) -> Result<(String, String), &'static str> {
    let (key, value) = text.trim().split_once('=').ok_or(BAD_LABEL)?;
    check_label(key, value)?;
    Ok((key.to_owned(), value.to_owned()))
}

fn check_label(key: &str, value: &str) -> Result<(), &'static str> {
    if names::is_qualified_name(key) && names::is_label_value(value) {
        Ok(())
    } else {
        Err(BAD_LABEL)
    }
}
