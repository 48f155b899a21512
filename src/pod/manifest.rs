//! Text to pods and the objects beside them: YAML and JSON, several documents, Pod, ConfigMap, Secret and lists of them.
//!
//! text → [`super::yaml`] trees with lines → [`super::decode`] to k8s-openapi types → [`super::defaults`] →
//! [`super::identity`] → [`super::validate`] and [`super::support`]; for objects, [`super::objects`]. Every step reports and goes on, so that a file's
//! problems come all at once (the reasons for the YAML parser are in [`super::yaml`]).

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Pod;

use super::objects::{LocalObject, ObjectKind};
use super::report::{Report, Scope};
use super::yaml::{self, Node};
use super::{Origin, ParsedFile, PodUid, Severity, StaticPod};
use super::{decode, defaults, identity, objects, support, validate};

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
    let mut found = reader.read(content);
    if report.has_errors_since(0) {
        found = Found::default();
    }
    ParsedFile {
        pods: found.pods,
        objects: found.objects,
        diagnostics: report.finish(),
    }
}

/// What a file has.
#[derive(Default)]
struct Found {
    pods: Vec<StaticPod>,
    objects: Vec<LocalObject>,
}

struct Reader<'a> {
    file: &'a str,
    node_name: &'a str,
    report: &'a Report<'a>,
}

impl Reader<'_> {
    fn read(&self, content: &[u8]) -> Found {
        let mut found = Found::default();
        let Some(text) = self.text(content) else {
            return found;
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
        if documents.iter().map(objects_in).sum::<usize>() > MAX_OBJECTS {
            self.refuse(&format!("more than {MAX_OBJECTS} objects"));
            return found;
        }
        for document in &documents {
            self.document(document, &mut found);
        }
        self.refuse_doubles(&found);
        found
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

    fn document(&self, root: &Node, found: &mut Found) {
        if !matches!(root.value, yaml::Value::Mapping(_)) {
            let message = "not a Kubernetes object, which begins with apiVersion and kind";
            return self.report.error(root.line, "", message);
        }
        self.check_version(root, "", None);
        match self.kind(root) {
            Some("List") => self.list(root, None, found),
            Some("PodList") => self.list(root, Some("Pod"), found),
            Some("ConfigMapList") => self.list(root, Some("ConfigMap"), found),
            Some("SecretList") => self.list(root, Some("Secret"), found),
            kind => self.object(root, "", (kind, found)),
        }
    }

    /// S-63. `implied` is what a missing version stands for: items of a PodList and its like need none.
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

    /// `implied` is the kind of items that do not say it.
    fn list(&self, root: &Node, implied: Option<&str>, found: &mut Found) {
        let Some(items) = root.get("items") else {
            let message = "missing; write `items: []` to have no pods";
            return self.report.error(root.line, "items", message);
        };
        if !matches!(items.node.value, yaml::Value::Sequence(_)) {
            return self.report.error(items.line, "items", "must be a list");
        }
        let version = implied.map(|_| "v1");
        for (index, item) in items.node.items().iter().enumerate() {
            let prefix = format!("items[{index}].");
            self.check_version(item, &prefix, version);
            self.object(item, &prefix, (self.kind(item).or(implied), found));
        }
    }

    /// A document, or an item of a list, that is no list itself.
    fn object(&self, node: &Node, prefix: &str, (kind, found): (Option<&str>, &mut Found)) {
        let scope = Scope {
            report: self.report,
            node,
            prefix,
        };
        let object = |kind| objects::read::object(kind, self.file, scope);
        match kind {
            Some("Pod") => found.pods.extend(self.pod(scope)),
            Some("ConfigMap") => found.objects.extend(object(ObjectKind::ConfigMap)),
            Some("Secret") => found.objects.extend(object(ObjectKind::Secret)),
            Some(other) => {
                let message = format!(
                    "{other:?} is not supported; use Pod, ConfigMap, Secret or a List of them"
                );
                scope.error("kind", &message);
            }
            None => scope.error("kind", "missing; write kind: Pod"),
        }
    }

    fn pod(&self, scope: Scope<'_>) -> Option<StaticPod> {
        let mark = self.report.mark();
        let decoded = decode::decode::<Pod>(scope);
        support::check(scope);
        let mut pod = decoded?;
        defaults::apply(&mut pod);
        let document_hash = identity::document_hash(scope.node, self.node_name);
        let uid = self.uid(&pod, &document_hash, scope)?;
        validate::before_completion(&pod, scope);
        identity::complete(&mut pod, uid.as_str(), self.node_name);
        validate::pod(&pod, scope);
        Some(StaticPod {
            uid,
            pod: pod.into(),
            document_hash,
            origin: Origin {
                file: self.file.to_owned(),
                line: scope.node.line,
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

    /// Two of one file that could not both be.
    fn refuse_doubles(&self, found: &Found) {
        let mut keys = BTreeMap::new();
        for object in &found.objects {
            let line = object.origin.line;
            if let Some(first) = keys.insert(&object.key, line) {
                let message = format!("{} is already on line {first}", object.key);
                self.report.error(line, "metadata.name", &message);
            }
        }
        let mut names = BTreeMap::new();
        let mut uids = BTreeMap::new();
        for pod in &found.pods {
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
