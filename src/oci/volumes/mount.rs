//! How a container sees a volume: for the holder, which binds it, and for the runtime specification, which mounts that
//! bind.

use std::path::{Path, PathBuf};

use k8s_openapi::api::core::v1::VolumeMount as Wanted;
use oci_spec::runtime::Mount;

use super::super::env::Variables;
use super::super::mounts::{bind, clean};
use crate::pod::env::expand;
use crate::pod::lifecycle::is_recursive_read_only;
use crate::pod::names::is_descending_path;
use crate::volume::spec::{Propagation, Source, VolumeMount};

/// V-52, V-53.
pub(super) fn in_order(wanted: &Wanted, env: &Variables) -> Result<VolumeMount, String> {
    let propagation = match wanted.mount_propagation.as_deref().unwrap_or("None") {
        "None" => Propagation::Private,
        "HostToContainer" => Propagation::FromHost,
        "Bidirectional" => Propagation::Both,
        other => return Err(format!("mountPropagation {other:?} is not known")),
    };
    Ok(VolumeMount {
        volume: wanted.name.clone(),
        sub_path: sub_path(wanted, env)?,
        sub_path_expr: given(&wanted.sub_path_expr),
        propagation,
    })
}

fn sub_path(wanted: &Wanted, env: &Variables) -> Result<Option<PathBuf>, String> {
    if let Some(expression) = given(&wanted.sub_path_expr) {
        return expanded(&expression, env).map(Some);
    }
    Ok(given(&wanted.sub_path).map(PathBuf::from))
}

fn given(text: &Option<String>) -> Option<String> {
    text.clone().filter(|text| !text.is_empty())
}

/// C-5: what a variable says is as strange as what a manifest says, but may be the
/// value of a Secret: it is not told.
fn expanded(expression: &str, env: &Variables) -> Result<PathBuf, String> {
    let missing = std::cell::RefCell::new(None);
    let path = expand(expression, |name| {
        let value = env.get(name).filter(|value| !value.is_empty());
        if value.is_none() {
            missing.borrow_mut().get_or_insert_with(|| name.to_owned());
        }
        value
    });
    if let Some(name) = missing.into_inner() {
        return Err(format!(
            "subPathExpr {expression:?}: variable {name:?} is missing or empty"
        ));
    }
    if !is_descending_path(&path) {
        return Err(format!(
            "subPathExpr {expression:?} is not relative to the volume, or has '..', with its variables"
        ));
    }
    Ok(path.into())
}

/// V-30, V-50, V-51, V-57; `source` is the bind that the holder makes.
pub(super) fn in_spec(wanted: &Wanted, volume: &Source, source: &Path) -> Mount {
    let is_fixed = matches!(volume, Source::Files | Source::Image { .. });
    let is_read_only = wanted.read_only == Some(true) || is_fixed;
    let mut options = vec!["rbind"];
    options.push(match (is_read_only, is_recursive_read_only(wanted)) {
        (false, _) => "rw",
        (true, false) => "ro",
        (true, true) => "rro",
    });
    if matches!(volume, Source::Image { .. }) {
        options.push("noexec");
    }
    bind(clean(Path::new(&wanted.mount_path)), source, &options)
}
