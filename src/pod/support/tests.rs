use super::{NO_EFFECT, NOT_YET, PARTLY, REFERENCES};
use crate::pod::Severity;
use crate::pod::manifest::parse;

/// A pod that has only the field of a pattern: `a.b[].c` is `{"a": {"b": [{"c": …}]}}`.
fn pod_with(pattern: &str, value: &str) -> String {
    let nested = pattern.rsplit('.').fold(value.to_owned(), |inner, step| {
        match step.strip_suffix("[]") {
            Some(key) => format!("{{{key}: [{inner}]}}"),
            None => format!("{{{step}: {inner}}}"),
        }
    });
    format!(
        "apiVersion: v1\nkind: Pod\n{}",
        &nested[1..nested.len() - 1]
    )
}

/// A misspelled row would do nothing for ever.
#[test]
fn every_row_names_a_field_and_reports_it() {
    let with = |severity| move |pattern| (pattern, severity);
    let patterns = (NOT_YET.iter().map(|r| r.0).map(with(Severity::Error)))
        .chain(REFERENCES.iter().map(|r| r.0).map(with(Severity::Error)))
        .chain(NO_EFFECT.iter().map(|r| r.0).map(with(Severity::Warning)))
        .chain(PARTLY.iter().map(|r| r.0).map(with(Severity::Warning)));
    for (pattern, severity) in patterns {
        // One of these has the kind of the field; what is false, or something else, is another test's.
        let found = ["true", "false", "other", "1", "{a: b}", "[a]", "[{a: b}]"].map(|value| {
            let text = pod_with(pattern, value);
            let diagnostics = parse("f", text.as_bytes(), "n").diagnostics;
            let field = pattern.replace("[]", "[0]");
            for diagnostic in &diagnostics {
                let unknown = diagnostic.message.starts_with("unknown field");
                assert!(
                    !(unknown && field.contains(&diagnostic.field)),
                    "{diagnostic}"
                );
            }
            diagnostics
                .iter()
                .any(|d| d.severity == severity && d.field == field)
        });
        assert!(found.contains(&true), "{pattern}");
    }
}
