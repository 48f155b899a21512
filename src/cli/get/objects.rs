//! ConfigMaps and Secrets, one line each as kubectl has it, or whole. Of a Secret only the sizes of its values are known
//! here.

use serde_json::{Map, Value, json};

use super::super::{CliError, output, table};
use super::{Args, Format};
use crate::api::client::Client;
use crate::api::types::{KeyView, ObjectView};
use crate::pod::objects::ObjectKind;

/// Asks and prints once.
pub fn show(args: &Args, client: &Client, kind: ObjectKind) -> Result<(), CliError> {
    let objects = wanted(args, client, kind)?;
    match (args.output, objects.as_slice()) {
        (Some(Format::Json), [one]) if args.name.is_some() => output::print_json(&document(one)),
        (Some(Format::Yaml), [one]) if args.name.is_some() => output::print_yaml(&document(one)),
        (Some(Format::Json), all) => output::print_json(&list(all)),
        (Some(Format::Yaml), all) => output::print_yaml(&list(all)),
        (Some(Format::Name), all) => all
            .iter()
            .try_for_each(|object| output::print(&format!("{kind}/{}\n", object.key.name))),
        (None | Some(Format::Wide), []) => {
            output::say(&format!("no {kind}s"));
            Ok(())
        }
        (None | Some(Format::Wide), all) => output::print(&text(args, all, kind)),
    }
}

/// What the arguments ask for, in the order of namespaces and names.
fn wanted(args: &Args, client: &Client, kind: ObjectKind) -> Result<Vec<ObjectView>, CliError> {
    let mut objects = client.objects()?;
    objects.retain(|object| {
        let key = &object.key;
        let namespace = args.scope.namespace.as_ref();
        key.kind == kind
            && namespace.is_none_or(|wanted| *wanted == key.namespace)
            && args.name.as_ref().is_none_or(|name| *name == key.name)
    });
    match &args.name {
        Some(name) if objects.is_empty() => {
            Err(CliError::NotFound(format!("{kind} {name:?} not found")))
        }
        Some(_) | None => Ok(objects),
    }
}

fn text(args: &Args, objects: &[ObjectView], kind: ObjectKind) -> String {
    let elsewhere = |object: &ObjectView| object.key.namespace != "default";
    let has_namespace =
        args.all_namespaces || args.scope.namespace.is_none() && objects.iter().any(elsewhere);
    let row = |namespace: &str, name: &str, type_: &str, data: &str, file: &str| {
        let is_secret = kind == ObjectKind::Secret;
        let cells = [
            (has_namespace, namespace),
            (true, name),
            (is_secret, type_),
            (true, data),
            (true, file),
        ];
        let cells = cells.into_iter().filter(|(is_shown, _)| *is_shown);
        cells.map(|(_, cell)| cell.to_owned()).collect::<Vec<_>>()
    };
    let head = row("NAMESPACE", "NAME", "TYPE", "DATA", "FILE");
    let rows = objects.iter().map(|object| {
        let key = &object.key;
        let data = object.keys.len().to_string();
        let file = format!("{}:{}", object.origin.file, object.origin.line);
        row(&key.namespace, &key.name, &object.type_, &data, &file)
    });
    table::render(&std::iter::once(head).chain(rows).collect::<Vec<_>>())
}

/// As it would be in a manifest, but for what is not told.
fn document(object: &ObjectView) -> Value {
    let section = |is_binary: bool| -> Map<String, Value> {
        let keys = object.keys.iter().filter(|key| key.binary == is_binary);
        keys.map(|key| (key.name.clone(), value(key))).collect()
    };
    let mut document = json!({
        "apiVersion": "v1",
        "kind": object.key.kind.written(),
        "metadata": {"name": object.key.name, "namespace": object.key.namespace},
        "data": section(false),
    });
    let binary = section(true);
    if !binary.is_empty() {
        document["binaryData"] = binary.into();
    }
    if !object.type_.is_empty() {
        document["type"] = object.type_.clone().into();
    }
    document
}

/// No good base64, so that nobody takes it for the value.
fn value(key: &KeyView) -> Value {
    let hidden = || format!("<{} bytes>", key.bytes);
    key.text.clone().unwrap_or_else(hidden).into()
}

fn list(objects: &[ObjectView]) -> Value {
    let items: Vec<Value> = objects.iter().map(document).collect();
    json!({"apiVersion": "v1", "kind": "List", "items": items})
}
