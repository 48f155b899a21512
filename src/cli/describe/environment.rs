//! The variables of a container as they are written: what comes from a Secret is named, never shown.

use k8s_openapi::api::core::v1::{Container, EnvFromSource, EnvVar, EnvVarSource};

use super::page::Page;

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
    let map = source.config_map_ref.as_ref();
    let map = map.map(|r| ("ConfigMap", &r.name, r.optional));
    let secret = source.secret_ref.as_ref();
    let secret = secret.map(|r| ("Secret", &r.name, r.optional));
    let (kind, name, optional) = map.or(secret)?;
    let prefix = source.prefix.as_deref().filter(|prefix| !prefix.is_empty());
    let prefix = prefix.map(|prefix| format!(" with prefix '{prefix}'"));
    let (prefix, optional) = (prefix.unwrap_or_default(), optional == Some(true));
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
    let map = source.config_map_key_ref.as_ref();
    let map = map.map(|r| ("of config map", &r.name, &r.key, r.optional));
    let secret = source.secret_key_ref.as_ref();
    let secret = secret.map(|r| ("in secret", &r.name, &r.key, r.optional));
    match map.or(secret) {
        Some((place, name, key, optional)) => {
            let optional = optional == Some(true);
            format!("<set to the key '{key}' {place} '{name}'>  Optional: {optional}")
        }
        None => "<set from elsewhere>".to_owned(),
    }
}
