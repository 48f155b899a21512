//! The serde side of [`super::Decoder`].

use serde::de::{self, DeserializeSeed, Visitor};

use super::{Decoder, Failed, Path};
use crate::pod::scalar::{Plain, resolve};
use crate::pod::yaml::{Entry, Node, Value};

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
            Value::Sequence(_) => return self.leaf(self.deserialize_seq(visitor)),
            Value::Mapping(_) => return self.leaf(self.deserialize_map(visitor)),
        };
        let plain = if scalar.plain {
            resolve(&scalar.text)
        } else {
            Plain::Text
        };
        self.leaf(match plain {
            Plain::Null => visitor
                .visit_unit()
                .map_err(|_: Failed| Failed::Message("must not be null".to_owned())),
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

    /// Quantities, times and the like.
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
        self.visit_entries(self.entries(), visitor)
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
        self.visit_entries(entries, visitor)
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Failed> {
        visitor.visit_unit()
    }

    serde::forward_to_deserialize_any! {
        i128 u128 f32 f64 char bytes byte_buf unit unit_struct tuple tuple_struct enum identifier
    }
}

pub(super) struct Items<'a> {
    pub parent: Decoder<'a>,
    items: std::iter::Enumerate<std::slice::Iter<'a, Node>>,
}

impl<'de> de::SeqAccess<'de> for Items<'_> {
    type Error = Failed;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, Failed> {
        let attempt = self.parent.attempt;
        let Some((index, node)) = self.items.find(|(_, node)| !attempt.leaves_out(node)) else {
            return Ok(None);
        };
        seed.deserialize(Decoder {
            scope: self.parent.scope,
            attempt: self.parent.attempt,
            node,
            path: Path::Index(&self.parent.path, index),
        })
        .map(Some)
    }
}

pub(super) struct Fields<'a> {
    pub parent: Decoder<'a>,
    pub entries: std::slice::Iter<'a, Entry>,
    pub current: Option<&'a Entry>,
}

impl<'de> de::MapAccess<'de> for Fields<'_> {
    type Error = Failed;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, Failed> {
        // Kind and version were looked at before; the type would only refuse them in its own words.
        let at_root = matches!(self.parent.path, Path::Root);
        let attempt = self.parent.attempt;
        self.current = self.entries.find(|e| {
            let is_known = at_root && matches!(e.key.as_str(), "apiVersion" | "kind");
            !is_known && !attempt.leaves_out(&e.node)
        });
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
            attempt: self.parent.attempt,
            node: &entry.node,
            path: Path::Key(&self.parent.path, &entry.key),
        })
    }
}
