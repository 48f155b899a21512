use super::{
    FOR_SCHEDULERS, False, NO_EFFECT, NOT_YET, NoneOf, PARTLY, REFERENCES, STORAGE, Set, When,
};
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
        .chain(STORAGE.iter().map(|r| r.0).map(with(Severity::Error)))
        .chain(NO_EFFECT.iter().map(|r| r.0).map(with(Severity::Warning)))
        .chain(
            FOR_SCHEDULERS
                .iter()
                .map(|r| r.0)
                .map(with(Severity::Warning)),
        )
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

const PAGE: &str = "docs/manifests.md";

/// A table's rows as the page lists them.
fn list<'a>(rows: impl Iterator<Item = (&'a str, Option<When>)>) -> String {
    rows.map(|(pattern, when)| match when {
        None | Some(Set) => format!("`{pattern}`"),
        Some(False) => format!("`{pattern}: false`"),
        Some(NoneOf(values)) => {
            let values: Vec<String> = values
                .iter()
                .filter(|value| !value.is_empty())
                .map(|value| format!("`{value}`"))
                .collect();
            format!("`{pattern}` other than {}", values.join(" and "))
        }
    })
    .map(|row| format!("- {row}\n"))
    .collect()
}

fn list_with_words(rows: &[(&str, &str)]) -> String {
    let rows = rows.iter();
    rows.map(|(pattern, message)| format!("- `{pattern}`: {message}\n"))
        .collect()
}

/// What the page must say between its marks `<!-- NAME -->` and `<!-- end -->`.
fn lists() -> [(&'static str, String); 6] {
    let with_when = |&(pattern, when): &(&'static str, When)| (pattern, Some(when));
    [
        ("refused", list(NOT_YET.iter().map(with_when))),
        ("references", list(REFERENCES.iter().map(|r| (r.0, None)))),
        ("no effect", list(NO_EFFECT.iter().map(with_when))),
        ("schedulers", list(FOR_SCHEDULERS.iter().map(with_when))),
        ("storage", list_with_words(STORAGE)),
        ("partly", list_with_words(PARTLY)),
    ]
}

/// With VETCH_BLESS the page is written anew.
#[test]
fn the_page_lists_what_the_tables_say() {
    let old = std::fs::read_to_string(PAGE).expect("read the page");
    let mut page = old.clone();
    for (name, list) in lists() {
        let mark = format!("<!-- {name} -->\n");
        let start = page.find(&mark).expect("the list's mark") + mark.len();
        let length = page[start..].find("<!-- end -->").expect("its end");
        page.replace_range(start..start + length, &list);
    }
    if std::env::var_os("VETCH_BLESS").is_some() {
        std::io::Write::write_all(
            &mut std::fs::File::create(PAGE).expect("open the page"),
            page.as_bytes(),
        )
        .expect("write the page");
    }
    assert!(
        old == page,
        "{PAGE} differs from the tables; VETCH_BLESS=1 writes it"
    );
}

/// Who copies an example must get a pod.
#[test]
fn the_manifests_of_the_page_have_no_problems() {
    let page = std::fs::read_to_string(PAGE).expect("read the page");
    let examples: Vec<&str> = page
        .split("```yaml\n")
        .skip(1)
        .filter_map(|rest| rest.split("```").next())
        .collect();
    assert!(!examples.is_empty());
    for text in examples {
        let parsed = parse(PAGE, text.as_bytes(), "node");
        assert_eq!(parsed.diagnostics, [], "{text}");
        assert_eq!(parsed.pods.len(), 1, "{text}");
    }
}
