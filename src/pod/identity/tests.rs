use super::{canonical, document_hash};
use crate::pod::manifest::parse;
use crate::pod::{StaticPod, yaml};

fn hash(text: &str) -> String {
    let (documents, problems) = yaml::read(text);
    assert_eq!(problems, []);
    document_hash(&documents[0], "node")
}

fn pod(text: &str) -> StaticPod {
    let parsed = parse("f.yaml", text.as_bytes(), "node");
    assert_eq!(parsed.pods.len(), 1, "{:?}", parsed.diagnostics);
    parsed.pods[0].clone()
}

const WEB: &str = "apiVersion: v1
kind: Pod
metadata:
  name: web
  labels: {app: web}
spec:
  hostNetwork: true
  containers:
  - name: c
    image: busybox:1
    args: [\"a b\", '1']
    resources: {limits: {cpu: 1, memory: 64Mi}}
";

/// Computed by another program, and fixed for ever: another value here would restart every pod in the field at the upgrade (S-67).
#[test]
fn hashes_never_change() {
    assert_eq!(hash(WEB), "4695db6f9fba59da80b0cb5d3b6bdc22");
    assert_eq!(hash("{}"), "d4536c274c453966b476eba4ddc3e24f");
    assert_eq!(
        hash("a: [1, 0x10, 1.50, ~, yes, true, \"q\\\"\\\\\\n\", ü, {}, []]\n"),
        "95f2e4f9764a44a6776d5628c28aa042"
    );
}

/// The published test vector of 128-bit FNV-1a, by way of a text whose canonical form is known.
#[test]
fn is_fnv_1a() {
    let (documents, _) = yaml::read("a");
    assert_eq!(canonical(&documents[0]), "\"a\"");
    let bytes = b"\"a\"host:node";
    let mut hash = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d_u128;
    for byte in bytes {
        hash = (hash ^ u128::from(*byte)).wrapping_mul((1 << 88) + 0x13b);
    }
    assert_eq!(document_hash(&documents[0], "node"), format!("{hash:032x}"));
}

#[test]
fn form_does_not_matter() {
    let forms = [
        "# comment\n---\nkind: Pod\napiVersion: v1\nspec:\n    containers:\n    - {image: 'busybox:1', args: ['a b', \"1\"], name: \"c\", resources: {limits: {memory: 64Mi, cpu: \"1\"}}}\n    hostNetwork: True # yes\nmetadata: {labels: {\"app\": web}, name: web}\n",
        r#"{"apiVersion":"v1","kind":"Pod","metadata":{"labels":{"app":"web"},"name":"web"},"spec":{"containers":[{"args":["a b","1"],"image":"busybox:1","name":"c","resources":{"limits":{"cpu":1,"memory":"64Mi"}}}],"hostNetwork":true}}"#,
        "apiVersion: v1\nkind: PodList\nitems:\n- metadata: {name: web, labels: &l {app: web}}\n  spec:\n    hostNetwork: true\n    containers:\n    - name: c\n      image: busybox:1\n      args: [a b, '1']\n      resources: {limits: {cpu: 0x1, memory: 64Mi}}\n",
    ];
    let uid = pod(WEB).uid;
    for form in forms {
        assert_eq!(pod(form).uid, uid, "{form}");
    }
    let other_file = parse("/elsewhere/b.yaml", WEB.as_bytes(), "node");
    assert_eq!(other_file.pods[0].uid, uid, "the path matters");
}

#[test]
fn content_and_node_matter() {
    let uid = pod(WEB).uid;
    for (from, to) in [
        ("app: web", "app: web2"),
        ("busybox:1", "busybox:2"),
        ("[\"a b\", '1']", "['1', \"a b\"]"),
        (
            "hostNetwork: true",
            "hostNetwork: true\n  restartPolicy: Always",
        ),
    ] {
        assert!(WEB.contains(from));
        assert_ne!(pod(&WEB.replace(from, to)).uid, uid, "{to}");
    }
    let elsewhere = parse("f.yaml", WEB.as_bytes(), "other");
    assert_ne!(elsewhere.pods[0].uid, uid);
}

/// `yes` is a text where a text is asked for, and then it is not `true`.
#[test]
fn texts_that_look_alike_differ() {
    let env = |value: &str| {
        WEB.replace(
            "    args:",
            &format!("    env: [{{name: A, value: {value}}}]\n    args:"),
        )
    };
    assert_ne!(pod(&env("yes")).uid, pod(&env("\"true\"")).uid);
    assert_eq!(pod(&env("yes")).uid, pod(&env("\"yes\"")).uid);
    assert_ne!(hash("a:"), hash("a: \"\""));
    assert_ne!(hash("a: [b, c]"), hash("a: [\"b,c\"]"));
}

#[test]
fn completes_the_pod() {
    let text = WEB.replace(
        "spec:",
        "  annotations: {kubernetes.io/config.source: api, mine: x}\nspec:\n  nodeName: other\n  tolerations:\n  - {operator: Exists, effect: NoExecute, tolerationSeconds: 5}\n  - {key: k, effect: NoExecute}",
    ) + "status: {phase: Failed}\n";
    let web = pod(&text);
    assert_eq!(web.full_name(), "default/web-node");
    let metadata = &web.pod.metadata;
    assert_eq!(metadata.uid.as_deref(), Some(web.uid.as_str()));
    assert_eq!(web.document_hash, web.uid.as_str());
    let annotations = metadata.annotations.as_ref().unwrap();
    assert_eq!(annotations["kubernetes.io/config.hash"], web.uid.as_str());
    assert_eq!(annotations["kubernetes.io/config.source"], "file");
    assert_eq!(annotations["mine"], "x");
    assert_eq!(annotations.len(), 3);
    let spec = web.pod.spec.as_ref().unwrap();
    assert_eq!(spec.node_name.as_deref(), Some("node"));
    let tolerations = spec.tolerations.as_ref().unwrap();
    assert_eq!(tolerations.len(), 2);
    assert_eq!(tolerations[1].operator.as_deref(), Some("Exists"));
    assert_eq!(tolerations[1].toleration_seconds, None);
    assert_eq!(web.pod.status, None);
}

#[test]
fn an_own_uid_stays_and_the_hash_tells_changes() {
    let fixed = WEB.replace("name: web\n", "name: web\n  uid: fixed\n");
    let (one, two) = (pod(&fixed), pod(&fixed.replace("busybox:1", "busybox:2")));
    assert_eq!(one.uid.as_str(), "fixed");
    assert_eq!(one.uid, two.uid);
    assert_ne!(one.document_hash, two.document_hash);
}
