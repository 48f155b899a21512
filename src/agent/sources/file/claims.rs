//! Who has a name. D-12: the bytewise first file wins it steadily, and the others are told.

use std::collections::BTreeMap;
use std::path::Path;

use super::{Known, remark};
use crate::pod::objects::{LocalObject, ObjectKey, ObjectKind};
use crate::pod::{Diagnostic, PodUid, Severity, StaticPod};

/// Permission bits of those who should not see a Secret.
const OTHERS_READ: u32 = 0o044;

/// What all files have together, each name once.
#[derive(Default)]
pub(super) struct Claims {
    pub pods: Vec<StaticPod>,
    pub objects: BTreeMap<ObjectKey, LocalObject>,
    /// Files by full names of pods.
    names: BTreeMap<String, String>,
    uids: BTreeMap<PodUid, String>,
}

impl Claims {
    /// Adds what the file has and nobody has claimed; gives the names of pods and of objects.
    pub fn claim(
        &mut self,
        path: &Path,
        known: &Known,
        diagnostics: &mut Vec<Diagnostic>,
    ) -> (Vec<String>, Vec<String>) {
        let file = path.to_string_lossy();
        let mut problems = Vec::new();
        let pods = known.good.pods.iter();
        let pods = pods.filter_map(|pod| self.pod(pod, &file, &mut problems));
        let pods = pods.collect();
        let objects = known.good.objects.iter();
        let objects = objects.filter_map(|object| self.object(object, &file, &mut problems));
        let objects = objects.collect();
        if known.missing_since.is_none() {
            diagnostics.append(&mut problems);
            diagnostics.extend(open_secret(known, &file));
        }
        (pods, objects)
    }

    fn pod(
        &mut self,
        pod: &StaticPod,
        file: &str,
        problems: &mut Vec<Diagnostic>,
    ) -> Option<String> {
        let name = pod.full_name();
        let (field, what) = match (self.names.get(&name), self.uids.get(&pod.uid)) {
            (Some(owner), _) => ("metadata.name", format!("pod {name} is already in {owner}")),
            (None, Some(owner)) => (
                "metadata.uid",
                format!("a pod in {owner} has the uid {} already", pod.uid),
            ),
            (None, None) => {
                self.names.insert(name.clone(), file.to_owned());
                self.uids.insert(pod.uid.clone(), file.to_owned());
                self.pods.push(pod.clone());
                return Some(name);
            }
        };
        let message = format!("{what}, which comes first; this one does not run");
        problems.push(Diagnostic {
            line: Some(pod.origin.line),
            field: field.to_owned(),
            ..remark(Severity::Error, file, &message)
        });
        None
    }

    fn object(
        &mut self,
        object: &LocalObject,
        file: &str,
        problems: &mut Vec<Diagnostic>,
    ) -> Option<String> {
        let key = &object.key;
        let Some(owner) = self.objects.get(key) else {
            self.objects.insert(key.clone(), object.clone());
            return Some(key.to_string());
        };
        let owner = &owner.origin.file;
        let message =
            format!("{key} is already in {owner}, which comes first; this one is not used");
        problems.push(Diagnostic {
            line: Some(object.origin.line),
            field: "metadata.name".to_owned(),
            ..remark(Severity::Error, file, &message)
        });
        None
    }
}

/// A Secret that is none.
fn open_secret(known: &Known, file: &str) -> Option<Diagnostic> {
    let is_secret = |object: &&LocalObject| object.key.kind == ObjectKind::Secret;
    let secret = known.good.objects.iter().find(is_secret)?;
    if known.mode & OTHERS_READ == 0 {
        return None;
    }
    let mode = known.mode;
    let message =
        format!("others can read this Secret, the file has mode {mode:04o}; chmod 600 {file}");
    Some(Diagnostic {
        line: Some(secret.origin.line),
        ..remark(Severity::Warning, file, &message)
    })
}
