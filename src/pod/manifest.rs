//! Text to pods: YAML and JSON, several documents, Pod, PodList and List.
//!
//! text → [`super::yaml`] trees with lines → [`super::decode`] to k8s-openapi types → [`super::defaults`] →
//! [`super::identity`] → [`super::validate`] and [`super::support`]. Every step reports and goes on, so that a file's
//! problems come all at once (the reasons for the YAML parser are in [`super::yaml`]).

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Pod;

use super::report::{Report, Scope};
use super::yaml::{self, Node};
use super::{Origin, ParsedFile, PodUid, Severity, StaticPod};
use super::{decode, defaults, identity, support, validate};

/// S-15.
pub const MAX_BYTES: usize = 10 << 20;
/// Objects in one file, items of lists included: far more than one machine runs, and few enough to read at once.
const MAX_OBJECTS: usize = 1000;

/// Parses a manifest file. Never fails: problems are diagnostics.
pub fn parse(file: &str, content: &[u8], node_name: &str) -> ParsedFile {
    let report = Report::new(file);
    let reader = Reader {
        file,
        node_name,
        report: &report,
    };
    let mut pods = reader.pods(content);
    let bad = report.has_errors_since(0);
    if bad {
        pods.clear();
    }
    ParsedFile {
        pods,
        objects: Vec::new(),
        diagnostics: report.finish(),
    }
}

struct Reader<'a> {
    file: &'a str,
    node_name: &'a str,
    report: &'a Report<'a>,
}

impl Reader<'_> {
    fn pods(&self, content: &[u8]) -> Vec<StaticPod> {
        let Some(text) = self.text(content) else {
            return Vec::new();
        };
        let (documents, problems) = yaml::read(text);
        for problem in &problems {
            self.report.error(problem.line, "", &problem.message);
        }
        if documents.is_empty() && problems.is_empty() {
            self.refuse(
                "empty; delete the file, or write a PodList with `items: []`, to have no pods",
            );
        }
        let mut pods = Vec::new();
        if documents.iter().map(objects_in).sum::<usize>() > MAX_OBJECTS {
            self.refuse(&format!("more than {MAX_OBJECTS} objects"));
            return pods;
        }
        for document in &documents {
            self.document(document, &mut pods);
        }
        self.refuse_doubles(&pods);
        pods
    }

    fn text<'t>(&self, content: &'t [u8]) -> Option<&'t str> {
        if content.len() > MAX_BYTES {
            self.refuse("larger than 10 MiB");
            return None;
        }
        match std::str::from_utf8(content) {
            Ok(text) => Some(text.strip_prefix('\u{feff}').unwrap_or(text)),
            Err(error) => {
                let before = &content[..error.valid_up_to()];
                let line = before.iter().filter(|b| **b == b'\n').count() + 1;
                let line = u32::try_from(line).unwrap_or(u32::MAX);
                self.report.error(line, "", "not UTF-8 text");
                None
            }
        }
    }

    fn refuse(&self, message: &str) {
        self.report.add(Severity::Error, None, "", message);
    }

    fn document(&self, root: &Node, pods: &mut Vec<StaticPod>) {
        if !matches!(root.value, yaml::Value::Mapping(_)) {
            let message = "not a Kubernetes object, which begins with apiVersion and kind";
            return self.report.error(root.line, "", message);
        }
        self.check_version(root, "", None);
        match self.kind(root) {
            Some(kind @ ("PodList" | "List")) => self.list(root, kind, pods),
            kind => pods.extend(self.object(root, "", kind)),
        }
    }

    /// S-63. `implied` is what a missing version stands for: items of a PodList need none.
    fn check_version(&self, node: &Node, prefix: &str, implied: Option<&str>) {
        let version = node.get("apiVersion").and_then(|e| e.node.text());
        let field = format!("{prefix}apiVersion");
        match version.or(implied) {
            Some("v1") => {}
            Some(other) => {
                let message = format!("must be v1, not {other:?}");
                self.report
                    .error(node.line_of("apiVersion"), &field, &message);
            }
            None => self
                .report
                .error(node.line, &field, "missing; write apiVersion: v1"),
        }
    }

    fn kind<'n>(&self, node: &'n Node) -> Option<&'n str> {
        node.get("kind").and_then(|e| e.node.text())
    }

    fn list(&self, root: &Node, kind: &str, pods: &mut Vec<StaticPod>) {
        let Some(items) = root.get("items") else {
            let message = "missing; write `items: []` to have no pods";
            return self.report.error(root.line, "items", message);
        };
        if !matches!(items.node.value, yaml::Value::Sequence(_)) {
            return self.report.error(items.line, "items", "must be a list");
        }
        let (version, implied) = match kind {
            "PodList" => (Some("v1"), Some("Pod")),
            _ => (None, None),
        };
        for (index, item) in items.node.items().iter().enumerate() {
            let prefix = format!("items[{index}].");
            self.check_version(item, &prefix, version);
            pods.extend(self.object(item, &prefix, self.kind(item).or(implied)));
        }
    }

    /// A document, or an item of a list, that is no list itself.
    fn object(&self, node: &Node, prefix: &str, kind: Option<&str>) -> Option<StaticPod> {
        let field = format!("{prefix}kind");
        let line = node.line_of("kind");
        match kind {
            Some("Pod") => return self.pod(node, prefix),
            Some(kind @ ("ConfigMap" | "Secret")) => {
                let message = format!("a {kind} has no effect in this version");
                self.report.warn(line, &field, &message);
            }
            Some(other) => {
                let message = format!("{other:?} is not supported; use Pod, PodList or List");
                self.report.error(line, &field, &message);
            }
            None => self.report.error(line, &field, "missing; write kind: Pod"),
        }
        None
    }

    fn pod(&self, node: &Node, prefix: &str) -> Option<StaticPod> {
        let mark = self.report.mark();
        let scope = Scope {
            report: self.report,
            node,
            prefix,
        };
        let decoded = decode::decode::<Pod>(scope);
        support::check(scope);
        let mut pod = decoded?;
        defaults::apply(&mut pod);
        let document_hash = identity::document_hash(node, self.node_name);
        let uid = self.uid(&pod, &document_hash, scope)?;
        validate::before_completion(&pod, scope);
        identity::complete(&mut pod, uid.as_str(), self.node_name);
        validate::pod(&pod, scope);
        Some(StaticPod {
            uid,
            pod,
            document_hash,
            origin: Origin {
                file: self.file.to_owned(),
                line: node.line,
            },
            diagnostics: self.report.since(mark),
        })
    }

    /// S-68: the manifest's own uid, else the document's hash.
    fn uid(&self, pod: &Pod, hash: &str, scope: Scope<'_>) -> Option<PodUid> {
        let own = pod.metadata.uid.clone().filter(|uid| !uid.is_empty());
        match PodUid::try_from(own.unwrap_or_else(|| hash.to_owned())) {
            Ok(uid) => Some(uid),
            Err(error) => {
                scope.error("metadata.uid", &error.to_string());
                None
            }
        }
    }

    /// Two pods of one file that could not both run.
    fn refuse_doubles(&self, pods: &[StaticPod]) {
        let mut names = BTreeMap::new();
        let mut uids = BTreeMap::new();
        for pod in pods {
            let line = pod.origin.line;
            if let Some(first) = names.insert(pod.full_name(), line) {
                let message = format!("pod {} is already on line {first}", pod.full_name());
                self.report.error(line, "metadata.name", &message);
            } else if let Some(first) = uids.insert(pod.uid.clone(), line) {
                let message = format!("the pod on line {first} has the same uid");
                self.report.error(line, "metadata.uid", &message);
            }
        }
    }
}

/// The items of a list, or one.
fn objects_in(document: &Node) -> usize {
    document.get("items").map_or(1, |e| e.node.items().len())
}

#[cfg(test)]
mod tests;
