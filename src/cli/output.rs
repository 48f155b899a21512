//! The two streams: data on stdout, talk on stderr.

use std::error::Error;
use std::fmt::Debug;
use std::io::{self, Write};
use std::process::ExitCode;

use serde::Serialize;
use serde_json::ser::{PrettyFormatter, Serializer};
use tracing::field::Field;
use tracing::level_filters::LevelFilter;
use tracing::span;

use super::CliError;
use crate::error::chain;

/// Writes text to stdout, at once. A container's last words are part of many a page: what would steer a terminal is shown
/// instead of obeyed.
pub fn print(text: &str) -> Result<(), CliError> {
    print_bytes(visible(text).as_bytes())
}

/// Control characters in caret notation (`^[` is escape), but for tabs and ends of lines.
pub fn visible(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' | '\t' => out.push(c),
            '\0'..='\x1f' | '\x7f' => out.extend(['^', char::from(c as u8 ^ 0x40)]),
            '\u{80}'..='\u{9f}' => out.push(char::REPLACEMENT_CHARACTER),
            _ => out.push(c),
        }
    }
    out
}

/// Writes data that need not be text, such as a container's log, to stdout, at once.
pub fn print_bytes(data: &[u8]) -> Result<(), CliError> {
    let mut out = io::stdout().lock();
    out.write_all(data)
        .and_then(|()| out.flush())
        .map_err(CliError::Output)
}

/// Says something to the person, as one line on stderr. A closed stderr is no reason to fail.
pub fn say(line: &str) {
    let _ = writeln!(io::stderr().lock(), "{line}");
}

/// Prints a value as JSON, indented as kubectl does.
pub fn print_json<T: Serialize>(value: &T) -> Result<(), CliError> {
    let mut text = Vec::new();
    let formatter = PrettyFormatter::with_indent(b"    ");
    tree(value)
        .and_then(|tree| tree.serialize(&mut Serializer::with_formatter(&mut text, formatter)))
        .map_err(|source| CliError::Render {
            format: "json",
            source: source.into(),
        })?;
    text.push(b'\n');
    print_bytes(&text)
}

/// Prints a value as YAML.
pub fn print_yaml<T: Serialize>(value: &T) -> Result<(), CliError> {
    let failed = |source| CliError::Render {
        format: "yaml",
        source,
    };
    let tree = tree(value).map_err(|source| failed(source.into()))?;
    let text = serde_yaml::to_string(&tree).map_err(|source| failed(source.into()))?;
    print_bytes(text.as_bytes())
}

/// By way of the one serializer that the agent uses, too: each other one, made for all types of Kubernetes, would be 0.2 MB
/// of binary.
fn tree<T: Serialize>(value: &T) -> serde_json::Result<serde_json::Value> {
    serde_json::from_slice(&serde_json::to_vec(value)?)
}

/// From now on, what rooms below warn of is said, too.
pub fn say_warnings() {
    // Fails if somebody listens already.
    let _ = tracing::subscriber::set_global_default(Warnings);
}

struct Warnings;

impl tracing::Subscriber for Warnings {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        *metadata.level() <= tracing::Level::WARN
    }
    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(LevelFilter::WARN)
    }
    fn event(&self, event: &tracing::Event<'_>) {
        event.record(&mut |field: &Field, value: &dyn Debug| {
            if field.name() == "message" {
                say(&format!("warning: {value:?}"));
            }
        });
    }
    // Nothing here has spans.
    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }
    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}
    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}
    fn enter(&self, _: &span::Id) {}
    fn exit(&self, _: &span::Id) {}
}

/// Reports an error, once, with its whole chain, and gives the exit code.
pub fn report(error: &CliError) -> ExitCode {
    if !error.is_quiet() {
        say(&format!("vetch: {}{}", chain(error), remedy(error)));
    }
    error.code()
}

/// What everybody forgets once.
fn remedy(error: &CliError) -> &'static str {
    if is_denied(error) && !rustix::process::geteuid().is_root() {
        " (try sudo)"
    } else {
        ""
    }
}

/// Some cause of it is a lack of rights.
fn is_denied(error: &(dyn Error + 'static)) -> bool {
    let own = error.downcast_ref::<io::Error>();
    own.is_some_and(|error| error.kind() == io::ErrorKind::PermissionDenied)
        || error.source().is_some_and(is_denied)
}
