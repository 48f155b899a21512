//! Trees to Kubernetes types, by serde. Unlike other deserializers it goes on after a mismatch (with a zero value, and the
//! problem reported), so that all problems of a file are found at once; and it reports the fields that a type does not
//! have, with a suggestion. Nulls are zero values, as Go has it.

use std::fmt;

use serde::Deserialize;
use serde::de::{self, DeserializeSeed, Visitor};

use super::report::Scope;
use super::scalar::{Plain, boolean, resolve, whole};
use super::yaml::{Entry, Node, Scalar, Value};

const TEXT: &str = "text";

/// Decodes a whole document. Problems are reported; none when a value could not even be replaced by a zero value.
pub(super) fn decode<T: for<'de> Deserialize<'de>>(scope: Scope<'_>) -> Option<T> {
    let decoder = Decoder {
        scope,
        node: scope.node,
        path: Path::Root,
    };
    match T::deserialize(decoder) {
        Ok(value) => Some(value),
        Err(Failed::Reported) => None,
        Err(Failed::Message(message)) => {
            scope.error("", &message);
            None
        }
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

impl de::Error for Failed {
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
        let value = match self.scalar() {
            Some(s) if s.plain => match resolve(&s.text) {
                Plain::Int(value) => Some(value),
                Plain::Float(value) => whole(value),
                Plain::Null => Some(0),
                Plain::Bool(_) | Plain::Text => None,
            },
            Some(_) | None => None,
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
            self.mismatch("must not contain a NUL character");
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

macro_rules! integers {
    ($($method:ident $visit:ident $type:ty,)*) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Failed> {
            let max = i64::try_from(<$type>::MAX).unwrap_or(i64::MAX);
            let value = self.integer(i64::try_from(<$type>::MIN).unwrap_or(i64::MIN), max);
            self.leaf(visitor.$visit(<$type>::try_from(value).unwrap_or_default()))
        }
    )*};
}

impl<'de> de::Deserializer<'de> for Decoder<'_> {
    type Error = Failed;

    /// Values whose kind the text decides: quantities, ports by number or name.
    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Failed> {
        let scalar = match &self.node.value {
            Value::Scalar(scalar) => scalar,
            Value::Sequence(_) => return self.deserialize_seq(visitor),
            Value::Mapping(_) => return self.deserialize_map(visitor),
        };
        let plain = if scalar.plain {
            resolve(&scalar.text)
        } else {
            Plain::Text
        };
        self.leaf(match plain {
            Plain::Null => visitor.visit_unit(),
            Plain::Bool(value) => visitor.visit_bool(value),
            Plain::Int(value) => visitor.visit_i64(value),
            Plain::Float(value) => visitor.visit_f64(value),
            Plain::Text => visitor.visit_str(&scalar.text),
        })
    }

    integers! {
        deserialize_i8 visit_i8 i8,
        deserialize_i16 visit_i16 i16,
        deserialize_i32 visit_i32 i32,
        deserialize_i64 visit_i64 i64,
        deserialize_u8 visit_u8 u8,
        deserialize_u16 visit_u16 u16,
        deserialize_u32 visit_u32 u32,
        deserialize_u64 visit_u64 u64,
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Failed> {
        self.leaf(visitor.visit_bool(self.boolean()))
    }

    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Failed> {
        self.leaf(visitor.visit_str(self.text()))
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Failed> {
        self.deserialize_str(visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Failed> {
        if self.node.is_null() {
            visitor.visit_none()
        } else {
            visitor.visit_some(self)
        }
    }

    /// Quantities, times and the like. Kubernetes knows no empty quantity, so null is refused here.
    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Failed> {
        self.leaf(visitor.visit_newtype_struct(self))
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Failed> {
        let items = match &self.node.value {
            Value::Sequence(items) => items.as_slice(),
            Value::Scalar(_) if self.node.is_null() => &[],
            Value::Scalar(_) | Value::Mapping(_) => {
                self.mismatch(&self.expected("a list"));
                &[]
            }
        };
        visitor.visit_seq(Items {
            parent: self,
            items: items.iter().enumerate(),
        })
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Failed> {
        visitor.visit_map(Fields::new(self, self.entries()))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Failed> {
        let entries = self.entries();
        for entry in entries {
            if !fields.contains(&entry.key.as_str()) {
                self.warn_unknown(entry, fields);
            }
        }
        visitor.visit_map(Fields::new(self, entries))
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Failed> {
        visitor.visit_unit()
    }

    serde::forward_to_deserialize_any! {
        i128 u128 f32 f64 char bytes byte_buf unit unit_struct tuple tuple_struct enum identifier
    }
}

struct Items<'a> {
    parent: Decoder<'a>,
    items: std::iter::Enumerate<std::slice::Iter<'a, Node>>,
}

impl<'de> de::SeqAccess<'de> for Items<'_> {
    type Error = Failed;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, Failed> {
        let Some((index, node)) = self.items.next() else {
            return Ok(None);
        };
        seed.deserialize(Decoder {
            scope: self.parent.scope,
            node,
            path: Path::Index(&self.parent.path, index),
        })
        .map(Some)
    }
}

struct Fields<'a> {
    parent: Decoder<'a>,
    entries: std::slice::Iter<'a, Entry>,
    current: Option<&'a Entry>,
}

impl<'a> Fields<'a> {
    fn new(parent: Decoder<'a>, entries: &'a [Entry]) -> Self {
        Self {
            parent,
            entries: entries.iter(),
            current: None,
        }
    }
}

impl<'de> de::MapAccess<'de> for Fields<'_> {
    type Error = Failed;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, Failed> {
        // Kind and version were looked at before; the type would only refuse them in its own words.
        let at_root = matches!(self.parent.path, Path::Root);
        self.current = self
            .entries
            .find(|e| !at_root || !matches!(e.key.as_str(), "apiVersion" | "kind"));
        match self.current {
            Some(entry) => seed
                .deserialize(de::value::StrDeserializer::new(&entry.key))
                .map(Some),
            None => Ok(None),
        }
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Failed> {
        let entry = self
            .current
            .ok_or_else(|| Failed::Message("a value without its key".to_owned()))?;
        seed.deserialize(Decoder {
            scope: self.parent.scope,
            node: &entry.node,
            path: Path::Key(&self.parent.path, &entry.key),
        })
    }
}
