//! Verbs that people know from other tools, and what does that here.

use clap::error::{ContextKind, ContextValue, ErrorKind};

const START: &str = "a pod runs while its manifest is in the agent's directory (default /etc/kubernetes/manifests); to try one: vetch run FILE";
const END: &str =
    "to end a pod, remove its manifest; to end all of them and the agent: vetch stop --all";
const EDIT: &str = "edit the manifest: the pod is replaced at once";

/// Verb → advice.
const HABITS: &[(&[&str], &str)] = &[
    (&["apply", "create", "start", "up", "play", "kube"], START),
    (&["delete", "rm", "kill", "down"], END),
    (&["edit", "patch", "replace", "restart", "rollout"], EDIT),
    (&["ps", "pods", "pod", "ls", "list"], "vetch get pods"),
    (&["events"], "vetch get events"),
    (&["images"], "vetch image ls"),
    (&["import", "load"], "vetch image import FILE"),
    (
        &["pull"],
        "this version pulls no images; load an archive by: vetch image import FILE",
    ),
    (
        &["inspect"],
        "vetch describe pod NAME, or: vetch image inspect NAME",
    ),
    (
        &["attach"],
        "vetch logs -f NAME, or: vetch exec -it NAME -- sh",
    ),
    (&["validate", "lint"], "vetch check FILE"),
    (&["info"], "vetch status"),
];

/// Adds the advice to clap's refusal of such a verb, instead of a verb that is only spelled alike.
pub fn advise(mut refusal: clap::Error) -> clap::Error {
    if refusal.kind() != ErrorKind::InvalidSubcommand {
        return refusal;
    }
    let Some(ContextValue::String(verb)) = refusal.get(ContextKind::InvalidSubcommand) else {
        return refusal;
    };
    let known = HABITS
        .iter()
        .find(|(verbs, _)| verbs.contains(&verb.as_str()));
    if let Some((_, advice)) = known {
        refusal.remove(ContextKind::SuggestedSubcommand);
        let advice = ContextValue::StyledStrs(vec![(*advice).into()]);
        refusal.insert(ContextKind::Suggested, advice);
    }
    refusal
}
