//! Trees to Kubernetes types, by serde. Unlike other deserializers it goes on after a mismatch (with a zero value, and the
//! problem reported), so that all problems of a file are found at once; and it reports the fields that a type does not
//! have, with a suggestion. Nulls are zero values, as Go has it.

mod de;

use std::cell::Cell;
use std::fmt;

use serde::Deserialize;
use serde::de::Visitor;

use super::report::Scope;
use super::scalar::{Plain, boolean, resolve, whole};
use super::yaml::{Entry, Node, Scalar, Value};

const TEXT: &str = "text";

/// Values that their type refuses, in one document; more are not looked for.
const MAX_REFUSED: usize = 10;

/// Decodes a whole document. Problems are reported; what a type refuses (a timestamp that is none) is left out and the
/// rest tried again, so that all are found. None when the rest cannot do without.
pub(super) fn decode<T: for<'de> Deserialize<'de>>(scope: Scope<'_>) -> Option<T> {
    let mut attempt = Attempt::default();
    loop {
        let decoder = Decoder {
            scope,
            attempt: &attempt,
            node: scope.node,
            path: Path::Root,
        };
        match T::deserialize(decoder) {
            Ok(value) => return Some(value),
            Err(Failed::Message(message)) => scope.error("", &message),
            Err(Failed::Reported) => {}
        }
        let refused = attempt.refused.take()?;
        if attempt.left_out.len() == MAX_REFUSED {
            return None;
        }
        attempt.left_out.push(refused);
    }
}

/// One pass over a document.
#[derive(Default)]
struct Attempt {
    /// By address, only to compare.
    left_out: Vec<*const Node>,
    /// What ended it.
    refused: Cell<Option<*const Node>>,
}

impl Attempt {
    fn leaves_out(&self, node: &Node) -> bool {
        self.left_out.iter().any(|left| std::ptr::eq(*left, node))
    }
}

/// Why a value could not be made.
#[derive(Debug)]
pub(super) enum Failed {
    /// The report has it.
    Reported,
    /// From the type itself, not yet reported.
    Message(String),
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Reported => f.write_str("reported"),
            Self::Message(message) => f.write_str(message),
        }
    }
}

impl std::error::Error for Failed {}

impl serde::de::Error for Failed {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self::Message(message.to_string())
    }
}

/// Where a value is, as a list that leads back to the root.
#[derive(Clone, Copy)]
enum Path<'a> {
    Root,
    Key(&'a Path<'a>, &'a str),
    Index(&'a Path<'a>, usize),
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root => Ok(()),
            Self::Key(Self::Root, key) => f.write_str(key),
            Self::Key(parent, key) if key.contains(['.', '[', '/']) => write!(f, "{parent}[{key}]"),
            Self::Key(parent, key) => write!(f, "{parent}.{key}"),
            Self::Index(parent, index) => write!(f, "{parent}[{index}]"),
        }
    }
}

#[derive(Clone, Copy)]
struct Decoder<'a> {
    scope: Scope<'a>,
    attempt: &'a Attempt,
    node: &'a Node,
    path: Path<'a>,
}

impl<'a> Decoder<'a> {
    fn mismatch(&self, message: &str) {
        let field = format!("{}{}", self.scope.prefix, self.path);
        self.scope.report.mistake(self.node.line, &field, message);
    }

    /// Reports what the type itself refuses (a timestamp that is none).
    fn leaf<T>(&self, result: Result<T, Failed>) -> Result<T, Failed> {
        result.map_err(|failed| {
            if let Failed::Message(message) = failed {
                self.mismatch(&message);
                self.attempt.refused.set(Some(self.node));
            }
            Failed::Reported
        })
    }

    fn scalar(&self) -> Option<&'a Scalar> {
        match &self.node.value {
            Value::Scalar(scalar) => Some(scalar),
            Value::Sequence(_) | Value::Mapping(_) => None,
        }
    }

    fn integer(&self, min: i64, max: i64) -> i64 {
        let plain = self.scalar().filter(|s| s.plain);
        let value = match plain.map_or(Plain::Text, |s| resolve(&s.text)) {
            Plain::Int(value) => Some(value),
            Plain::Float(value) => whole(value),
            Plain::Null => Some(0),
            Plain::Bool(_) | Plain::Text => None,
        };
        match value {
            Some(value) if (min..=max).contains(&value) => value,
            Some(_) => {
                self.mismatch(&format!("must be from {min} to {max}"));
                0
            }
            None => {
                self.mismatch(&self.expected("a whole number"));
                0
            }
        }
    }

    fn boolean(&self) -> bool {
        match self.scalar() {
            Some(s) if s.plain && super::scalar::is_null(&s.text) => false,
            Some(s) if s.plain && boolean(&s.text).is_some() => boolean(&s.text) == Some(true),
            Some(_) | None => {
                self.mismatch(&self.expected("true or false"));
                false
            }
        }
    }

    fn text(&self) -> &'a str {
        let Some(scalar) = self.scalar() else {
            self.mismatch(&self.expected(TEXT));
            return "";
        };
        if scalar.text.contains('\0') {
            let field = format!("{}{}", self.scope.prefix, self.path);
            let message = "must not contain a NUL character";
            self.scope.report.error(self.node.line, &field, message);
        }
        if !scalar.plain {
            return &scalar.text;
        }
        match resolve(&scalar.text) {
            Plain::Null => "",
            Plain::Text => &scalar.text,
            Plain::Bool(_) | Plain::Int(_) | Plain::Float(_) => {
                self.mismatch(&self.expected(TEXT));
                ""
            }
        }
    }

    /// `must be text, not the number 8080; write "8080"`
    fn expected(&self, what: &str) -> String {
        let scalar = match &self.node.value {
            Value::Scalar(scalar) => scalar,
            Value::Sequence(_) => return format!("must be {what}, not a list"),
            Value::Mapping(_) => return format!("must be {what}, not a mapping"),
        };
        let text: String = scalar.text.chars().take(40).collect();
        if !scalar.plain {
            let fits = resolve(&scalar.text) != Plain::Text || boolean(&scalar.text).is_some();
            let hint = if fits { "; remove the quotes" } else { "" };
            return format!("must be {what}, not the text {text:?}{hint}");
        }
        let hint = if what == TEXT {
            format!("; write \"{text}\"")
        } else {
            String::new()
        };
        match resolve(&scalar.text) {
            Plain::Null => format!("must be {what}, not null"),
            Plain::Text => format!("must be {what}, not the text {text:?}"),
            Plain::Bool(_) => format!("must be {what}, not the boolean {text}{hint}"),
            Plain::Int(_) | Plain::Float(_) => {
                format!("must be {what}, not the number {text}{hint}")
            }
        }
    }

    fn entries(&self) -> &'a [Entry] {
        match &self.node.value {
            Value::Mapping(entries) => entries,
            Value::Scalar(_) if self.node.is_null() => &[],
            Value::Scalar(_) | Value::Sequence(_) => {
                self.mismatch(&self.expected("a mapping"));
                &[]
            }
        }
    }

    fn visit_entries<'de, V: Visitor<'de>>(
        self,
        entries: &[Entry],
        visitor: V,
    ) -> Result<V::Value, Failed> {
        visitor.visit_map(de::Fields {
            parent: self,
            entries: entries.iter(),
            current: None,
        })
    }

    fn warn_unknown(&self, entry: &Entry, fields: &[&str]) {
        let path = Path::Key(&self.path, &entry.key);
        let message = match super::suggest::suggestion(&entry.key, fields) {
            Some(hint) => format!("unknown field, {hint}"),
            None => "unknown field".to_owned(),
        };
        let field = format!("{}{path}", self.scope.prefix);
        self.scope.report.warn(entry.line, &field, &message);
    }
}
