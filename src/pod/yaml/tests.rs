use proptest::prelude::*;

use super::{MAX_DEPTH, Node, Scalar, Value, read};
use crate::pod::scalar::{Plain, resolve};

/// The problems of a text, as `line: message`.
fn problems(text: &str) -> Vec<String> {
    let (_, problems) = read(text);
    problems
        .iter()
        .map(|p| format!("{}: {}", p.line, p.message))
        .collect()
}

fn documents(text: &str) -> Vec<Node> {
    let (documents, problems) = read(text);
    assert_eq!(problems, []);
    documents
}

#[test]
fn knows_the_line_of_every_field() {
    let text = "# c\na:\n  b:\n  - c: 1\n\n  - {c: 2,\n     d.e/f: 3}\n";
    let document = &documents(text)[0];
    for (path, line) in [
        ("a", 2),
        ("a.b", 3),
        ("a.b[0].c", 4),
        ("a.b[1]", 6),
        ("a.b[1].c", 6),
        ("a.b[1][d.e/f]", 7),
        ("a.b[1].missing", 6),
        ("a.b[9].c", 3),
        ("missing", 2),
        ("", 2),
    ] {
        assert_eq!(document.line_of(path), line, "{path}");
    }
}

#[test]
fn documents_fail_alone() {
    let (documents, problems) = read("a: 1\n---\n[\n---\nb: *x\n---\n\"\n...\nc: 3\n");
    assert_eq!(documents.len(), 2);
    assert!(documents[0].get("a").is_some());
    assert!(documents[1].get("c").is_some());
    assert_eq!(problems.len(), 3, "{problems:?}");
}

#[test]
fn markers_inside_a_block_text_are_text() {
    let document = &documents("a: |\n  x\n  ---\n  ...\nb: 1\n")[0];
    assert_eq!(
        document.get("a").unwrap().node.text(),
        Some("x\n---\n...\n")
    );
}

#[test]
fn a_block_text_ends_as_it_is_written() {
    for (text, value) in [
        ("a: |\n  x", "x"),
        ("a: |\n  x\n", "x\n"),
        ("a: |-\n  x\n", "x"),
    ] {
        let document = &documents(text)[0];
        assert_eq!(
            document.get("a").unwrap().node.text(),
            Some(value),
            "{text:?}"
        );
    }
}

#[test]
fn an_anchor_ends_with_its_document() {
    assert_eq!(problems("a: &x 1\n---\nb: *x\n").len(), 1);
}

#[test]
fn merged_keys_never_replace_own_ones() {
    let text = "base: &b {x: 1, y: 2}\nother: &o {x: 5, z: 3}\nboth: {y: 9, <<: [*b, *o]}\nquoted: {\"<<\": 1}\n";
    let document = &documents(text)[0];
    let both = &document.get("both").unwrap().node;
    let values = ["x", "y", "z"].map(|k| both.get(k).unwrap().node.text().unwrap());
    assert_eq!(values, ["1", "9", "3"]);
    assert!(document.get("quoted").unwrap().node.get("<<").is_some());
}

#[test]
fn depth_is_bounded_also_through_aliases() {
    let nested = |n: usize| format!("{}x{}", "[".repeat(n), "]".repeat(n));
    assert_eq!(problems(&nested(MAX_DEPTH - 1)), [""; 0]);
    assert_eq!(
        problems(&nested(MAX_DEPTH + 1)),
        ["1: nested deeper than 100 levels"]
    );
    assert_eq!(
        problems(&"- ".repeat(MAX_DEPTH + 1)),
        ["1: nested deeper than 100 levels"]
    );
    let half = MAX_DEPTH / 2;
    let chain = format!(
        "a: &a {}\nb: {}*a{}\n",
        nested(half),
        "[".repeat(half),
        "]".repeat(half)
    );
    assert_eq!(problems(&chain), ["2: nested deeper than 100 levels"]);
}

/// None of these may take long, fill the memory or overflow the stack.
#[test]
fn hostile_texts_end_soon() {
    let many = |s: &str| s.repeat((1 << 20) / s.len());
    let long = "x".repeat(1 << 20);
    for text in [
        many("["),
        many("{"),
        many("- "),
        many("? "),
        many("a: "),
        many("\""),
        many("&a "),
        many("*a "),
        many("!!str "),
        many("---\n[\n"),
        many("a: b\n"),
        many("%TAG ! x\n"),
        // Each key twice, the first ones last.
        (0..30_000)
            .chain((0..30_000).rev())
            .map(|i| format!("k{i}:\n"))
            .collect(),
        format!("- &a {long}\n{}", "- *a\n".repeat(1000)),
        format!(
            "- &a [{}]\n{}",
            "x,".repeat(10_000),
            "- *a\n".repeat(10_000)
        ),
        format!(
            "a: &a {{x: [{}]}}\nb: {{<<: [{}]}}\n",
            "1,".repeat(1000),
            "*a,".repeat(10_000)
        ),
    ] {
        let (_, problems) = read(&text);
        assert!(!problems.is_empty(), "{}", &text[..20]);
        // One more for what ended the file.
        assert!(problems.len() <= super::MAX_PROBLEMS + 1);
    }
}

/// What another writer of YAML writes is read as it was meant.
fn matches(value: &serde_json::Value, node: &Node) -> bool {
    use serde_json::Value as Json;
    let plain = match &node.value {
        Value::Scalar(s) if s.plain => Some(resolve(&s.text)),
        Value::Scalar(_) | Value::Sequence(_) | Value::Mapping(_) => None,
    };
    match value {
        Json::Null => plain == Some(Plain::Null),
        Json::Bool(value) => plain == Some(Plain::Bool(*value)),
        Json::Number(number) => match plain {
            Some(Plain::Int(value)) => number.as_i64() == Some(value),
            Some(Plain::Float(value)) => number.as_f64() == Some(value),
            Some(Plain::Null | Plain::Bool(_) | Plain::Text) | None => false,
        },
        Json::String(text) => {
            // `0_` is a number to Kubernetes, and left without quotes by serde_yaml.
            let is_text = |plain| plain == Plain::Text || text.contains('_');
            node.text() == Some(text) && plain.is_none_or(is_text)
        }
        Json::Array(items) => {
            items.len() == node.items().len()
                && items.iter().zip(node.items()).all(|(v, n)| matches(v, n))
        }
        Json::Object(fields) => fields
            .iter()
            .all(|(k, v)| node.get(k).is_some_and(|e| matches(v, &e.node))),
    }
}

fn json() -> impl Strategy<Value = serde_json::Value> {
    let leaf = prop_oneof![
        Just(serde_json::Value::Null),
        any::<bool>().prop_map(Into::into),
        any::<i64>().prop_map(Into::into),
        (-1e9..1e9).prop_map(|f: f64| f.into()),
        "\\PC{0,12}".prop_map(Into::into),
        "[-:#&*!|>'\"%@`{}\\[\\], \n\ta0]{0,8}".prop_map(Into::into),
        prop_oneof!["null", "true", "yes", "~", "0400", "1e3", "<<"].prop_map(Into::into),
    ];
    leaf.prop_recursive(4, 32, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Into::into),
            prop::collection::btree_map("[a-z.:# -]{1,6}", inner, 0..5)
                .prop_map(|m| serde_json::Value::Object(m.into_iter().collect())),
        ]
    })
}

fn read_one(text: &str) -> Result<Node, TestCaseError> {
    let (mut documents, problems) = read(text);
    prop_assert_eq!(problems, vec![], "{}", text);
    // A document of nothing is left out.
    Ok(documents.pop().unwrap_or(Node {
        line: 1,
        value: Value::Scalar(Scalar {
            text: String::new(),
            plain: true,
        }),
    }))
}

/// YAML 1.1 took them for line breaks. serde_yaml still writes them so, with a line break and an indentation of their own
/// that a reader of YAML 1.2, for which they are letters like others, takes for a space.
const OLD_BREAKS: [char; 2] = ['\u{2028}', '\u{2029}'];

/// Within a line, and NEL with them: no text that somebody wrote is cut there.
#[test]
fn the_line_breaks_of_yaml_1_1_are_text() {
    for c in ['\u{85}', '\u{2028}', '\u{2029}'] {
        for text in [format!("a{c}b"), format!("'a{c}b'"), format!("\"a{c}b\"")] {
            let node = read_one(&format!("{text}\n")).unwrap();
            assert_eq!(node.text(), Some(format!("a{c}b").as_str()), "{text:?}");
        }
    }
}

proptest! {
    #[test]
    fn reads_what_serde_yaml_writes(
        value in json().prop_filter("written otherwise", |v| !v.to_string().contains(OLD_BREAKS))
    ) {
        let text = serde_yaml::to_string(&value).unwrap();
        prop_assert!(matches(&value, &read_one(&text)?), "{text}");
    }

    #[test]
    fn reads_json_also_with_tabs(value in json()) {
        let text = value.to_string();
        prop_assert!(matches(&value, &read_one(&text)?), "{text}");
        let mut text = Vec::new();
        let tabs = serde_json::ser::PrettyFormatter::with_indent(b"\t");
        let mut writer = serde_json::Serializer::with_formatter(&mut text, tabs);
        serde::Serialize::serialize(&value, &mut writer).unwrap();
        let text = String::from_utf8(text).unwrap();
        prop_assert!(matches(&value, &read_one(&text)?), "{text}");
    }

    /// Whatever a disk or a hand does to a file: no panic, and an end.
    #[test]
    fn mutated_manifests_end_in_order(
        which in 0..MANIFESTS.len(),
        cuts in prop::collection::vec((any::<prop::sample::Index>(), 0..8_usize, "[-:#&*!|>'\"%@{}\\[\\], ~\n\ta0]{0,4}"), 0..6),
    ) {
        let mut text = MANIFESTS[which].to_owned();
        for (at, removed, inserted) in cuts {
            let at = at.index(text.len() + 1);
            let end = (at + removed).min(text.len());
            if text.is_char_boundary(at) && text.is_char_boundary(end) {
                text.replace_range(at..end, &inserted);
            }
        }
        let parsed = crate::pod::manifest::parse("f", text.as_bytes(), "node");
        let bad = parsed.diagnostics.iter().any(|d| d.severity == crate::pod::Severity::Error);
        prop_assert!(!bad || parsed.pods.is_empty());
        prop_assert!(parsed.pods.iter().all(|pod| can_be_asked(&pod.pod)));
    }

    /// Fields that change places, values that are another field's: every remark says which field it is about.
    #[test]
    fn remarks_on_well_formed_manifests_have_a_field(
        which in 0..MANIFESTS.len(),
        swaps in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>()), 1..6),
    ) {
        let mut lines: Vec<String> = MANIFESTS[which].lines().map(str::to_owned).collect();
        for (to, from) in swaps {
            // Objects and lists in one line stay well formed wherever they stand.
            let halves = |at: &prop::sample::Index| at.get(&lines).split_once(": ");
            let Some(((key, _), (_, value))) = halves(&to).zip(halves(&from)) else { continue };
            let line = format!("{key}: {value}");
            let at = to.index(lines.len());
            lines[at] = line;
        }
        let text = lines.join("\n");
        let (documents, problems) = read(&text);
        prop_assume!(problems.is_empty() && documents.len() == 1);
        let parsed = crate::pod::manifest::parse("f", text.as_bytes(), "node");
        for diagnostic in &parsed.diagnostics {
            prop_assert!(!diagnostic.field.is_empty(), "{diagnostic}\n{text}");
        }
        prop_assert!(parsed.pods.iter().all(|pod| can_be_asked(&pod.pod)));
    }

    #[test]
    fn garbage_ends_in_order(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        crate::pod::manifest::parse("f", &bytes, "node");
    }
}

/// What is asked of pods that passed: no panic, and only names of ports and hooks over TCP may be broken.
fn can_be_asked(pod: &k8s_openapi::api::core::v1::Pod) -> bool {
    use crate::pod::{backoff, hook, lifecycle, ports, probe, requests};
    ports::host_ports(pod);
    requests::effective_requests(pod);
    backoff::annotated(pod, backoff::MAX);
    lifecycle::members(pod).all(|(role, container)| {
        lifecycle::on_exit(pod, (role, container), 1);
        let hooks = [hook::post_start(container), hook::pre_stop(container)];
        let probes = probe::ProbeKind::ALL.map(|kind| probe::spec(container, kind));
        let whys = hooks.into_iter().flatten().filter_map(|hook| match hook {
            hook::Hook::Broken { why } => Some(why),
            hook::Hook::Exec { .. } | hook::Hook::HttpGet(_) | hook::Hook::Sleep { .. } => None,
        });
        let checks = probes.into_iter().flatten().map(|probe| probe.check);
        let whys = whys.chain(checks.filter_map(|check| match check {
            probe::Check::Broken { why } => Some(why),
            probe::Check::Exec { .. }
            | probe::Check::HttpGet(_)
            | probe::Check::TcpSocket { .. }
            | probe::Check::Grpc { .. } => None,
        }));
        whys.into_iter().all(|why| {
            ["no port named", "tcpSocket", "control characters"]
                .iter()
                .any(|known| why.contains(known))
        })
    })
}

const MANIFESTS: [&str; 10] = [
    include_str!("../golden/lifecycle.yaml"),
    include_str!("../golden/probes.yaml"),
    include_str!("../golden/hooks.yaml"),
    include_str!("../golden/init_containers.yaml"),
    include_str!("../golden/restart_rules.yaml"),
    include_str!("../golden/node_selection.yaml"),
    include_str!("../golden/yaml_1_1.yaml"),
    include_str!("../golden/anchors.yaml"),
    include_str!("../golden/validation.yaml"),
    include_str!("../golden/good.json"),
];
