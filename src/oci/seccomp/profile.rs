//! Profiles of administrators (C-51): JSON as the OCI's runtime specification has it, and as Docker, which adds conditions
//! on the machine and the container (`archMap`, `includes`, `excludes`).
//!
//! What libseccomp would do decides, but for two things: of several rules for a call the first one that holds counts, and
//! without a list of architectures the 32-bit one is filtered like the native one instead of being killed.

use std::collections::HashMap;

use serde::Deserialize;
use serde::de::IgnoredAny;

use super::arch::{self, Arch};
use super::policy::{Action, Comparison, Condition, ENOSYS, EPERM, Policy, Rule, Verdict};
use super::{Instruction, MAX_INSTRUCTIONS, program};

/// The largest errno that the kernel hands out.
const MAX_ERRNO: u16 = 4095;

/// Why a profile cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ProfileError {
    /// Not JSON, or not such a profile; says where.
    #[error("understand the seccomp profile")]
    Syntax(#[source] serde_json::Error),
    /// A value that makes no sense.
    #[error("seccomp profile: {field}: {problem}")]
    Value {
        /// `syscalls[3].args[0].index`.
        field: String,
        /// What is wrong.
        problem: String,
    },
    /// More than the kernel takes.
    #[error(
        "seccomp profile: {0} instructions as a program, and the kernel takes {MAX_INSTRUCTIONS}"
    )]
    TooLong(usize),
}

fn wrong(field: impl Into<String>, problem: impl Into<String>) -> ProfileError {
    ProfileError::Value {
        field: field.into(),
        problem: problem.into(),
    }
}

/// What Docker's form asks about.
#[derive(Debug, Clone, Copy)]
pub struct Circumstances<'a> {
    /// The container's (`CAP_SYS_ADMIN`, …).
    pub capabilities: &'a [String],
    /// Version of the kernel: `(6, 1)`.
    pub kernel: (u32, u32),
}

/// A profile as it was read.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Profile {
    default_action: Kind,
    default_errno_ret: Option<u16>,
    #[serde(default)]
    architectures: Option<Vec<String>>,
    #[serde(default)]
    arch_map: Option<Vec<Family>>,
    #[serde(default)]
    syscalls: Option<Vec<Calls>>,
    /// Options of libseccomp, which is not here.
    #[serde(default, rename = "flags")]
    _flags: IgnoredAny,
    /// The name of what `defaultErrnoRet` is, in Podman's form.
    #[serde(default, rename = "defaultErrno")]
    _default_errno: IgnoredAny,
}

/// What is done, without its number. Nobody would answer a notification, so there is no SCMP_ACT_NOTIFY.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
enum Kind {
    #[serde(rename = "SCMP_ACT_ALLOW")]
    Allow,
    #[default]
    #[serde(rename = "SCMP_ACT_ERRNO")]
    Errno,
    #[serde(rename = "SCMP_ACT_KILL", alias = "SCMP_ACT_KILL_THREAD")]
    KillThread,
    #[serde(rename = "SCMP_ACT_KILL_PROCESS")]
    KillProcess,
    #[serde(rename = "SCMP_ACT_LOG")]
    Log,
    #[serde(rename = "SCMP_ACT_TRACE")]
    Trace,
    #[serde(rename = "SCMP_ACT_TRAP")]
    Trap,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Family {
    architecture: String,
    #[serde(default)]
    sub_architectures: Option<Vec<String>>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Calls {
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    names: Option<Vec<String>>,
    action: Kind,
    #[serde(default)]
    errno_ret: Option<u16>,
    #[serde(default)]
    args: Option<Vec<Argument>>,
    #[serde(default)]
    includes: Option<Filter>,
    #[serde(default)]
    excludes: Option<Filter>,
    #[serde(default, rename = "comment")]
    _comment: IgnoredAny,
    #[serde(default, rename = "errno")]
    _errno: IgnoredAny,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Argument {
    index: u8,
    value: u64,
    #[serde(default)]
    value_two: Option<u64>,
    op: Op,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
enum Op {
    #[serde(rename = "SCMP_CMP_EQ")]
    Equal,
    #[serde(rename = "SCMP_CMP_NE")]
    NotEqual,
    #[serde(rename = "SCMP_CMP_LT")]
    Less,
    #[serde(rename = "SCMP_CMP_LE")]
    AtMost,
    #[serde(rename = "SCMP_CMP_GT")]
    Greater,
    #[serde(rename = "SCMP_CMP_GE")]
    AtLeast,
    #[serde(rename = "SCMP_CMP_MASKED_EQ")]
    Masked,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Filter {
    #[serde(default)]
    caps: Option<Vec<String>>,
    #[serde(default)]
    arches: Option<Vec<String>>,
    #[serde(default)]
    min_kernel: Option<String>,
}

impl Profile {
    /// Reads a profile. Errors name line and column, or the field.
    pub fn parse(text: &str) -> Result<Self, ProfileError> {
        let profile: Self = serde_json::from_str(text).map_err(ProfileError::Syntax)?;
        if has_some(profile.architectures.as_deref()) && has_some(profile.arch_map.as_deref()) {
            return Err(wrong("archMap", "there is a list of architectures already"));
        }
        action(profile.default_action, profile.default_errno_ret, "default")?;
        for (index, calls) in profile.calls().enumerate() {
            calls.check(&format!("syscalls[{index}]"))?;
        }
        Ok(profile)
    }

    fn calls(&self) -> impl Iterator<Item = &Calls> {
        self.syscalls.iter().flatten()
    }

    /// The filter for a container. At most 4096 instructions, the kernel's limit. Deterministic.
    pub fn program(&self, around: Circumstances<'_>) -> Result<Vec<Instruction>, ProfileError> {
        self.program_of(arch::NATIVE, around)
    }

    pub(super) fn program_of(
        &self,
        family: &[Arch],
        around: Circumstances<'_>,
    ) -> Result<Vec<Instruction>, ProfileError> {
        let is_covered = |arch: &&Arch| self.covers(arch.name);
        let family: Vec<&Arch> = family.iter().filter(is_covered).collect();
        let program = program(&family, &self.policy(around)?);
        if program.len() > MAX_INSTRUCTIONS {
            return Err(ProfileError::TooLong(program.len()));
        }
        Ok(program)
    }

    /// Names that are no call on any machine that this version knows: newer than it, or misspelled. As with libseccomp,
    /// nothing comes of them.
    pub fn unknown_names(&self) -> Vec<&str> {
        let known = arch::all_names();
        let names = self.calls().flat_map(Calls::names);
        let mut unknown: Vec<&str> = names.filter(|name| !known.contains(name)).collect();
        unknown.sort_unstable();
        unknown.dedup();
        unknown
    }

    fn covers(&self, name: &str) -> bool {
        let (own, _) = arch::OWN;
        let lists = |list: &Option<Vec<String>>| list.iter().flatten().any(|known| known == name);
        if has_some(self.architectures.as_deref()) {
            return name == own || lists(&self.architectures);
        }
        if has_some(self.arch_map.as_deref()) {
            let mut map = self.arch_map.iter().flatten();
            let entry = map.find(|family| family.architecture == own);
            return name == own || entry.is_some_and(|family| lists(&family.sub_architectures));
        }
        true
    }

    fn policy(&self, around: Circumstances<'_>) -> Result<Policy<'_>, ProfileError> {
        let other = action(self.default_action, self.default_errno_ret, "default")?;
        let mut rules: HashMap<&str, Vec<Rule>> = HashMap::new();
        let mut plain: HashMap<&str, Action> = HashMap::new();
        for (index, calls) in self.calls().enumerate() {
            if !calls.apply(around) {
                continue;
            }
            let field = format!("syscalls[{index}]");
            let action = action(calls.action, calls.errno_ret, &field)?;
            let conditional = calls.rules(action);
            for name in calls.names() {
                if !conditional.is_empty() {
                    rules
                        .entry(name)
                        .or_default()
                        .extend_from_slice(&conditional);
                } else if *plain.entry(name).or_insert(action) != action {
                    return Err(wrong(field, format!("{name} has another action above")));
                }
            }
        }
        let mut verdicts: HashMap<&str, Verdict> = plain
            .into_iter()
            .map(|(name, action)| (name, action.into()))
            .collect();
        for (name, rules) in rules {
            verdicts.entry(name).or_insert_with(|| other.into()).rules = rules;
        }
        Ok(Policy {
            verdicts,
            other,
            newer: self.newer(other),
        })
    }

    /// As runc does it: a profile that allows what it does not know allows new calls, too, and any other says that they do
    /// not exist.
    fn newer(&self, other: Action) -> Action {
        match self.default_action {
            Kind::Allow | Kind::Log | Kind::Trace => other,
            Kind::Errno | Kind::KillThread | Kind::KillProcess | Kind::Trap => Action::fail(ENOSYS),
        }
    }
}

fn has_some<T>(list: Option<&[T]>) -> bool {
    list.is_some_and(|list| !list.is_empty())
}

fn action(kind: Kind, errno: Option<u16>, field: &str) -> Result<Action, ProfileError> {
    let number = errno.unwrap_or(EPERM);
    Ok(match kind {
        Kind::Allow => Action::ALLOW,
        Kind::KillThread => Action::KILL_THREAD,
        Kind::KillProcess => Action::KILL_PROCESS,
        Kind::Log => Action::LOG,
        Kind::Trap => Action::TRAP,
        Kind::Trace => Action::trace(number),
        Kind::Errno if number > MAX_ERRNO => {
            return Err(wrong(field, format!("an errno is at most {MAX_ERRNO}")));
        }
        Kind::Errno => Action::fail(number),
    })
}

impl Calls {
    fn check(&self, field: &str) -> Result<(), ProfileError> {
        match (&self.name, has_some(self.names.as_deref())) {
            (Some(name), true) if !name.is_empty() => {
                return Err(wrong(field, "has both name and names"));
            }
            (None, false) => return Err(wrong(field, "names no call")),
            (Some(_) | None, _) => {}
        }
        action(self.action, self.errno_ret, field)?;
        for (index, argument) in self.args.iter().flatten().enumerate() {
            if argument.index > 5 {
                let field = format!("{field}.args[{index}].index");
                return Err(wrong(field, "must be from 0 to 5"));
            }
        }
        for filter in [&self.includes, &self.excludes].into_iter().flatten() {
            if let Some(version) = &filter.min_kernel
                && kernel_version(version).is_none()
            {
                let problem = format!("minKernel {version:?} is not a version such as 4.8");
                return Err(wrong(field, problem));
            }
        }
        Ok(())
    }

    fn names(&self) -> impl Iterator<Item = &str> {
        let all = self.name.iter().chain(self.names.iter().flatten());
        all.map(String::as_str).filter(|name| !name.is_empty())
    }

    /// One condition of `includes` that does not hold, or one of `excludes` that does, and the entry is not there.
    fn apply(&self, around: Circumstances<'_>) -> bool {
        let (_, own) = arch::OWN;
        let has_cap = |cap: &String| around.capabilities.contains(cap);
        let is_since =
            |version: &String| kernel_version(version).is_some_and(|v| around.kernel >= v);
        let is_own = |arch: &String| arch == own;
        let included = self.includes.as_ref().is_none_or(|filter| {
            let arches = filter.arches.as_deref().unwrap_or_default();
            (arches.is_empty() || arches.iter().any(is_own))
                && filter.caps.iter().flatten().all(has_cap)
                && filter.min_kernel.as_ref().is_none_or(is_since)
        });
        let excluded = self.excludes.as_ref().is_some_and(|filter| {
            filter.arches.iter().flatten().any(is_own)
                || filter.caps.iter().flatten().any(has_cap)
                || filter.min_kernel.as_ref().is_some_and(is_since)
        });
        included && !excluded
    }

    /// All conditions have to hold; but where two are about the same argument, any of them, as runc has it.
    fn rules(&self, action: Action) -> Vec<Rule> {
        let conditions: Vec<Condition> = self
            .args
            .iter()
            .flatten()
            .map(Argument::condition)
            .collect();
        let mut indexes: Vec<u8> = conditions.iter().map(|c| c.argument).collect();
        indexes.sort_unstable();
        indexes.dedup();
        if indexes.len() < conditions.len() {
            let each = conditions.into_iter().map(|condition| Rule {
                conditions: vec![condition],
                action,
            });
            return each.collect();
        }
        let is_conditional = !conditions.is_empty();
        let rule = is_conditional.then_some(Rule { conditions, action });
        rule.into_iter().collect()
    }
}

impl Argument {
    fn condition(&self) -> Condition {
        let comparison = match self.op {
            Op::Equal | Op::Masked => Comparison::Equal,
            Op::NotEqual => Comparison::NotEqual,
            Op::Less => Comparison::Less,
            Op::AtMost => Comparison::AtMost,
            Op::Greater => Comparison::Greater,
            Op::AtLeast => Comparison::AtLeast,
        };
        let (mask, value) = if self.op == Op::Masked {
            (self.value, self.value_two.unwrap_or_default())
        } else {
            (u64::MAX, self.value)
        };
        Condition {
            argument: self.index,
            mask,
            comparison,
            value,
        }
    }
}

/// `4.8`
fn kernel_version(text: &str) -> Option<(u32, u32)> {
    let (major, minor) = text.split_once('.')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}
