//! What somebody who wrote an unknown field may have meant.

use k8s_openapi::api::core::v1::{
    Container, ContainerPort, Lifecycle, LifecycleHandler, PodSecurityContext, PodSpec, Probe,
    SecurityContext,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use serde::Deserialize;
use serde::de::{self, Visitor};

use super::decode::Failed;

/// Longer keys than this, in bytes, are no misspelled field.
const MAX_LENGTH: usize = 64;

/// `did you mean imagePullPolicy?` or `it belongs in spec`, for a key that is none of `fields`.
pub(super) fn suggestion(key: &str, fields: &[&str]) -> Option<String> {
    if let Some(field) = fields.iter().find(|f| f.eq_ignore_ascii_case(key)) {
        return Some(format!("did you mean {field}?"));
    }
    if let Some(place) = place_of(key) {
        return Some(format!("it belongs in {place}"));
    }
    nearest(key, fields).map(|field| format!("did you mean {field}?"))
}

/// The one of `names` that somebody may have misspelled as `key`.
pub(super) fn nearest<'a>(key: &str, names: &[&'a str]) -> Option<&'a str> {
    // Comparing costs the product of the lengths, and no field is longer.
    if key.len() > MAX_LENGTH {
        return None;
    }
    let allowed = (key.len() / 4).max(1);
    names
        .iter()
        .map(|field| (strsim::damerau_levenshtein(key, field), field))
        .filter(|(distance, _)| *distance <= allowed)
        .min()
        .map(|(_, name)| *name)
}

/// Where in a pod a misplaced field is at home.
fn place_of(key: &str) -> Option<&'static str> {
    [
        ("spec", fields_of::<PodSpec>()),
        ("spec.containers[]", fields_of::<Container>()),
        ("metadata", fields_of::<ObjectMeta>()),
        ("spec.containers[].ports[]", fields_of::<ContainerPort>()),
        (
            "spec.containers[].securityContext",
            fields_of::<SecurityContext>(),
        ),
        ("spec.securityContext", fields_of::<PodSecurityContext>()),
        ("spec.containers[].lifecycle", fields_of::<Lifecycle>()),
        ("a probe", fields_of::<Probe>()),
        (
            "spec.containers[].lifecycle.preStop",
            fields_of::<LifecycleHandler>(),
        ),
    ]
    .into_iter()
    .find(|(_, fields)| fields.contains(&key))
    .map(|(place, _)| place)
}

/// Names of the fields of a Kubernetes type.
fn fields_of<T: for<'de> Deserialize<'de>>() -> &'static [&'static str] {
    let mut fields: &[&str] = &[];
    // The probe never gives a value; what it is asked for is what we want.
    let _ = T::deserialize(FieldProbe(&mut fields));
    fields
}

struct FieldProbe<'a>(&'a mut &'static [&'static str]);

impl<'de> de::Deserializer<'de> for FieldProbe<'_> {
    type Error = Failed;

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Failed> {
        Err(Failed::Reported)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        _: V,
    ) -> Result<V::Value, Failed> {
        *self.0 = fields;
        Err(Failed::Reported)
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
        newtype_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}

#[cfg(test)]
mod tests {
    use super::suggestion;

    #[test]
    fn finds_what_was_meant() {
        let fields = ["image", "imagePullPolicy", "name", "command"];
        for (written, hint) in [
            ("imagePullPolicies", Some("did you mean imagePullPolicy?")),
            ("Image", Some("did you mean image?")),
            ("comand", Some("did you mean command?")),
            ("restartPolicy", Some("it belongs in spec")),
            ("hostPort", Some("it belongs in spec.containers[].ports[]")),
            ("periodSeconds", Some("it belongs in a probe")),
            ("httpGet", Some("it belongs in a probe")),
            ("preStop", Some("it belongs in spec.containers[].lifecycle")),
            ("somethingElse", None),
            ("x", None),
        ] {
            assert_eq!(suggestion(written, &fields).as_deref(), hint, "{written}");
        }
    }
}
