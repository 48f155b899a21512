//! The variables of a container as they are written: what comes from a Secret is named, never shown.

use k8s_openapi::api::core::v1::{Container, EnvFromSource, EnvVar, EnvVarSource};

use super::page::Page;
use crate::pod::objects::ObjectKind;
use crate::pod::references::{of_env_from, of_value};

/// As kubectl has it.
pub fn rows(page: &mut Page, wanted: &Container) {
    let sources = wanted.env_from.as_deref().unwrap_or_default();
    if !sources.is_empty() {
        page.head(2, "Environment Variables from");
    }
    for line in sources.iter().filter_map(all_of) {
        page.line(3, line);
    }
    let variables = wanted.env.as_deref().unwrap_or_default();
    if variables.is_empty() {
        return page.row(2, "Environment", "<none>");
    }
    page.head(2, "Environment");
    for variable in variables {
        page.line(3, format_args!("{}: {}", variable.name, value(variable)));
    }
}

/// `app  ConfigMap with prefix 'APP_'  Optional: false`
fn all_of(source: &EnvFromSource) -> Option<String> {
    let object = of_env_from(source)?;
    let (name, kind) = (object.name, object.kind.written());
    let prefix = source.prefix.as_deref().filter(|prefix| !prefix.is_empty());
    let prefix = prefix.map(|prefix| format!(" with prefix '{prefix}'"));
    let (prefix, optional) = (prefix.unwrap_or_default(), object.optional);
    Some(format!("{name}  {kind}{prefix}  Optional: {optional}"))
}

fn value(variable: &EnvVar) -> String {
    match (&variable.value, &variable.value_from) {
        (Some(value), _) => value.clone(),
        (None, Some(source)) => from(source),
        (None, None) => String::new(),
    }
}

fn from(source: &EnvVarSource) -> String {
    if let Some(field) = &source.field_ref {
        return format!("({})", field.field_path);
    }
    if let Some(resource) = &source.resource_field_ref {
        return format!("({})", resource.resource);
    }
    let Some((object, key)) = of_value(source) else {
        return "<set from elsewhere>".to_owned();
    };
    let place = match object.kind {
        ObjectKind::ConfigMap => "of config map",
        ObjectKind::Secret => "in secret",
    };
    let (name, optional) = (object.name, object.optional);
    format!("<set to the key '{key}' {place} '{name}'>  Optional: {optional}")
}
