//! Which pod a person means: names with and without the node suffix, in one namespace or in all.

use k8s_openapi::api::core::v1::Pod;

use super::CliError;
use crate::api::client::Client;
use crate::pod::PodUid;

/// Namespace flags, as kubectl has them. Without one, every namespace is looked at: a device has few pods and no
/// "current namespace".
#[derive(Debug, Clone, Default, clap::Args)]
pub struct Scope {
    /// Only this namespace [default: all]
    #[arg(short, long, value_name = "NS")]
    pub namespace: Option<String>,
}

impl Scope {
    /// All pods of the agent that are in scope.
    pub fn pods(&self, client: &Client) -> Result<Vec<Pod>, CliError> {
        let mut pods = client.pods()?;
        pods.retain(|pod| self.contains(pod));
        pods.sort_by(|a, b| key(a).cmp(&key(b)));
        Ok(pods)
    }

    /// In the wanted namespace.
    pub fn contains(&self, pod: &Pod) -> bool {
        self.namespace
            .as_deref()
            .is_none_or(|wanted| namespace(pod) == wanted)
    }

    /// The pod of this name.
    pub fn pod(&self, client: &Client, name: &str) -> Result<Pod, CliError> {
        find(self.pods(client)?, name)
    }
}

/// Picks the one pod that `name` (or `pod/name`, or `namespace/name`) can mean. Of an edited pod's two instances, the
/// one that is not ending.
pub fn find(pods: Vec<Pod>, name: &str) -> Result<Pod, CliError> {
    let (namespace_wanted, bare) = split(name);
    let mut fits: Vec<Pod> = pods
        .into_iter()
        .filter(|pod| namespace_wanted.is_none_or(|wanted| namespace(pod) == wanted))
        .filter(|pod| is_called(pod, bare))
        .collect();
    // An exact name beats one that fits only without its suffix.
    if fits.iter().any(|pod| self::name(pod) == bare) {
        fits.retain(|pod| self::name(pod) == bare);
    }
    fits.sort_by_key(is_ending);
    let first = fits.first().map(key);
    if fits.iter().any(|pod| Some(key(pod)) != first) {
        let names: Vec<String> = fits.iter().map(full_name).collect();
        return Err(CliError::NotFound(format!(
            "{name:?} can mean several pods: {}",
            names.join(", ")
        )));
    }
    fits.into_iter()
        .next()
        .ok_or_else(|| CliError::NotFound(format!("pod {bare:?} not found")))
}

/// `pod/web` → web; `kube-system/web` → web in kube-system.
fn split(name: &str) -> (Option<&str>, &str) {
    match name.split_once('/') {
        Some((kind, bare)) if is_pods(kind) => (None, bare),
        Some((namespace, bare)) => (Some(namespace), bare),
        None => (None, name),
    }
}

fn is_called(pod: &Pod, wanted: &str) -> bool {
    let full = name(pod);
    full == wanted
        || full
            .strip_suffix(node(pod))
            .and_then(|n| n.strip_suffix('-'))
            == Some(wanted)
}

fn key(pod: &Pod) -> (&str, &str) {
    (namespace(pod), name(pod))
}

/// `metadata.name`.
pub fn name(pod: &Pod) -> &str {
    pod.metadata.name.as_deref().unwrap_or_default()
}

/// `metadata.namespace`.
pub fn namespace(pod: &Pod) -> &str {
    pod.metadata.namespace.as_deref().unwrap_or("default")
}

/// `namespace/name`.
pub fn full_name(pod: &Pod) -> String {
    format!("{}/{}", namespace(pod), name(pod))
}

/// `spec.nodeName`.
pub fn node(pod: &Pod) -> &str {
    pod.spec
        .as_ref()
        .and_then(|spec| spec.node_name.as_deref())
        .unwrap_or_default()
}

/// On its way out.
pub fn is_ending(pod: &Pod) -> bool {
    pod.metadata.deletion_timestamp.is_some()
}

/// `metadata.uid`; every pod of the agent has a good one.
pub fn uid(pod: &Pod) -> Result<PodUid, CliError> {
    PodUid::try_from(pod.metadata.uid.clone().unwrap_or_default())
        .map_err(|error| CliError::NotFound(error.to_string()))
}

/// Whether this word is kubectl's for pods.
pub fn is_pods(kind: &str) -> bool {
    matches!(kind, "pod" | "pods" | "po")
}
