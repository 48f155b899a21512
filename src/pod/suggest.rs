//! What somebody who wrote an unknown field may have meant.

use k8s_openapi::api::core::v1::{
    Container, ContainerPort, PodSecurityContext, PodSpec, SecurityContext,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::decode::fields_of;

/// `did you mean imagePullPolicy?` or `it belongs in spec`, for a key that is none of `fields`.
pub(super) fn suggestion(key: &str, fields: &[&str]) -> Option<String> {
    if let Some(field) = fields.iter().find(|f| f.eq_ignore_ascii_case(key)) {
        return Some(format!("did you mean {field}?"));
    }
    if let Some(place) = place_of(key) {
        return Some(format!("it belongs in {place}"));
    }
    let allowed = (key.len() / 4).max(1);
    fields
        .iter()
        .map(|field| (strsim::damerau_levenshtein(key, field), field))
        .filter(|(distance, _)| *distance <= allowed)
        .min()
        .map(|(_, field)| format!("did you mean {field}?"))
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
    ]
    .into_iter()
    .find(|(_, fields)| fields.contains(&key))
    .map(|(place, _)| place)
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
            ("somethingElse", None),
            ("x", None),
        ] {
            assert_eq!(suggestion(written, &fields).as_deref(), hint, "{written}");
        }
    }
}
