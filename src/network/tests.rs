use k8s_openapi::api::core::v1::Pod;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{hostname, hosts_file, resolv_conf, resolv_conf_is_stub};
use crate::pod::{Origin, PodUid, StaticPod};

fn pod(name: &str, spec: Value) -> StaticPod {
    let mut full = json!({"containers": []});
    full.as_object_mut()
        .unwrap()
        .extend(spec.as_object().unwrap().clone());
    let pod = json!({"metadata": {"name": name, "namespace": "shop"}, "spec": full});
    StaticPod {
        uid: PodUid::try_from("u1".to_owned()).unwrap(),
        pod: serde_json::from_value::<Pod>(pod).unwrap().into(),
        document_hash: String::new(),
        origin: Origin {
            file: "web.yaml".into(),
            line: 1,
        },
        diagnostics: Vec::new(),
    }
}

/// P-186.
#[test]
fn a_full_name_that_is_too_long_is_refused_with_the_name() {
    let fqdn = json!({"subdomain": "s", "setHostnameAsFQDN": true});
    // With `.s.shop.svc` behind it.
    let fits = "a".repeat(53);
    assert_eq!(hostname(&pod(&fits, fqdn.clone()), "n").unwrap().len(), 64);
    let long = format!("{fits}b");
    assert_eq!(
        hostname(&pod(&long, fqdn.clone()), "n")
            .unwrap_err()
            .to_string(),
        format!(
            "setHostnameAsFQDN: the name {long}.s.shop.svc is too long for a host name (64 characters at most, it has 65)"
        )
    );
    let mut on_host = fqdn;
    on_host["hostNetwork"] = json!(true);
    assert_eq!(hostname(&pod(&long, on_host), "n").as_deref(), Ok("n"));
}

/// P-184, P-185, P-186.
#[test]
fn host_names() {
    let long = "a".repeat(62);
    for (name, spec, expected) in [
        ("web-node1", json!({}), "web-node1"),
        ("web-node1", json!({"hostname": "web"}), "web"),
        (
            "web-node1",
            json!({"hostname": "web", "hostnameOverride": "other.example"}),
            "other.example",
        ),
        ("web-node1", json!({"hostname": ""}), "web-node1"),
        (
            "web-node1",
            json!({"hostNetwork": true, "hostname": "web"}),
            "node1",
        ),
        ("web-node1", json!({"subdomain": "s"}), "web-node1"),
        (
            "web-node1",
            json!({"subdomain": "s", "setHostnameAsFQDN": true}),
            "web-node1.s.shop.svc",
        ),
        ("web-node1", json!({"setHostnameAsFQDN": true}), "web-node1"),
        (&format!("{long}-.b"), json!({}), long.as_str()),
        (&format!("{long}bcdef"), json!({}), &format!("{long}b")),
    ] {
        assert_eq!(
            hostname(&pod(name, spec.clone()), "node1").as_deref(),
            Ok(expected),
            "{name} {spec}"
        );
    }
}

/// P-185, P-191, P-193.
#[test]
fn hosts_of_a_pod_with_addresses() {
    let pod = pod(
        "web-node1",
        json!({"subdomain": "s", "hostAliases": [
            {"ip": "192.0.2.1", "hostnames": ["a.example", "b.example"]},
            {"ip": "2001:db8::1", "hostnames": ["c.example"]},
        ]}),
    );
    let ips = ["10.1.2.3".to_owned(), "fd00::3".to_owned()];
    assert_eq!(
        hosts_file(&pod, "unused", &ips),
        "# Kubernetes-managed hosts file.\n\
         127.0.0.1\tlocalhost\n\
         ::1\tlocalhost ip6-localhost ip6-loopback\n\
         fe00::0\tip6-localnet\n\
         fe00::0\tip6-mcastprefix\n\
         fe00::1\tip6-allnodes\n\
         fe00::2\tip6-allrouters\n\
         10.1.2.3\tweb-node1.s.shop.svc\tweb-node1\n\
         fd00::3\tweb-node1.s.shop.svc\tweb-node1\n\
         \n\
         # Entries added by HostAliases.\n\
         192.0.2.1\ta.example\tb.example\n\
         2001:db8::1\tc.example\n"
    );
}

#[test]
fn hosts_of_a_plain_pod_end_with_its_name() {
    let pod = pod("web-node1", json!({}));
    let text = hosts_file(&pod, "", &["10.1.2.3".to_owned()]);
    assert!(
        text.ends_with("ip6-allrouters\n10.1.2.3\tweb-node1\n"),
        "{text}"
    );
}

/// P-192, P-193.
#[test]
fn hosts_on_the_hosts_network_are_the_nodes() {
    let spec =
        json!({"hostNetwork": true, "hostAliases": [{"ip": "192.0.2.1", "hostnames": ["a"]}]});
    for node_hosts in ["127.0.0.1 localhost\n", "127.0.0.1 localhost"] {
        assert_eq!(
            hosts_file(
                &pod("web-node1", spec.clone()),
                node_hosts,
                &["192.0.2.9".to_owned()]
            ),
            "# Kubernetes-managed hosts file (host network).\n\
             127.0.0.1 localhost\n\
             \n\
             # Entries added by HostAliases.\n\
             192.0.2.1\ta\n"
        );
    }
}

const NODE: &str = "\
# a comment
; another
domain ignored.example
nameserver 192.0.2.53
nameserver 2001:db8::53
search first.example
search lan.example. corp.example .
options ndots:2 rotate
options ndots:3 edns0
sortlist 192.0.2.0
";

/// P-200, P-201, P-202, P-206: without a cluster these are all the same.
#[test]
fn the_nodes_resolver_is_the_default() {
    for policy in ["Default", "ClusterFirst", "ClusterFirstWithHostNet"] {
        assert_eq!(
            resolv_conf(&pod("w", json!({"dnsPolicy": policy})), NODE),
            "search lan.example corp.example\n\
             nameserver 192.0.2.53\n\
             nameserver 2001:db8::53\n\
             options ndots:3 rotate edns0\n"
        );
    }
}

/// P-203, P-204.
#[test]
fn dns_config_is_merged_and_wins() {
    let config = json!({
        "nameservers": ["192.0.2.53", "192.0.2.54"],
        "searches": ["corp.example", "own.example"],
        "options": [{"name": "ndots", "value": "5"}, {"name": "single-request"}, {"name": "rotate", "value": ""}],
    });
    let merged = pod("w", json!({"dnsConfig": config}));
    assert_eq!(
        resolv_conf(&merged, NODE),
        "search lan.example corp.example own.example\n\
         nameserver 192.0.2.53\n\
         nameserver 2001:db8::53\n\
         nameserver 192.0.2.54\n\
         options ndots:5 rotate edns0 single-request\n"
    );
    let alone = pod("w", json!({"dnsPolicy": "None", "dnsConfig": config}));
    assert_eq!(
        resolv_conf(&alone, NODE),
        "search corp.example own.example\n\
         nameserver 192.0.2.53\n\
         nameserver 192.0.2.54\n\
         options ndots:5 single-request rotate\n"
    );
}

/// P-205.
#[test]
fn limits_cut_the_end() {
    let servers: Vec<String> = (1..6).map(|n| format!("192.0.2.{n}")).collect();
    let short: Vec<String> = (0..40).map(|n| format!("d{n}.example")).collect();
    let long: Vec<String> = (0..20)
        .map(|n| format!("d{n}.{}", "x".repeat(200)))
        .collect();
    let text = |searches: &[String]| {
        let config = json!({"nameservers": servers, "searches": searches});
        resolv_conf(
            &pod("w", json!({"dnsPolicy": "None", "dnsConfig": config})),
            "",
        )
    };
    assert_eq!(text(&short).matches("nameserver").count(), 3);
    assert_eq!(
        text(&short).lines().next().unwrap().split(' ').count(),
        1 + 32
    );
    let line = text(&long)
        .lines()
        .next()
        .unwrap()
        .strip_prefix("search ")
        .unwrap()
        .len();
    assert!((1800..=2048).contains(&line), "{line}");
    let too_long = [
        "a.example".to_owned(),
        "x".repeat(254),
        "b.example".to_owned(),
    ];
    assert!(text(&too_long).starts_with("search a.example b.example\n"));
}

#[test]
fn nothing_comes_of_nothing() {
    assert_eq!(resolv_conf(&pod("w", json!({})), ""), "");
}

/// P-207.
#[test]
fn the_stub_of_systemd_resolved_is_known() {
    for (text, expected) in [
        ("nameserver 127.0.0.53\noptions edns0 trust-ad\n", true),
        ("nameserver 127.0.0.53\nnameserver 127.0.0.54\n", true),
        ("nameserver 127.0.0.53\nnameserver 192.0.2.1\n", false),
        ("nameserver 127.0.0.1\n", false),
        ("# nameserver 127.0.0.53\n", false),
        ("", false),
    ] {
        assert_eq!(resolv_conf_is_stub(text), expected, "{text:?}");
    }
}

proptest! {
    /// What we write, we read the same; a second pass changes nothing.
    #[test]
    fn rendering_is_stable(text in "((nameserver|search|options|x) [a-z0-9.: ]{0,20}\n){0,8}") {
        let pod = pod("w", json!({}));
        let once = resolv_conf(&pod, &text);
        prop_assert_eq!(resolv_conf(&pod, &once), once);
    }

    #[test]
    fn host_names_fit_the_kernel(name in "[a-z0-9.-]{1,253}", subdomain in "[a-z]{0,70}") {
        let spec = json!({"subdomain": subdomain, "setHostnameAsFQDN": true});
        let hostname = hostname(&pod(&name, spec), "n");
        prop_assert!(hostname.is_ok_and(|name| name.len() <= 64) || !subdomain.is_empty());
    }
}
