//! A pod's resolv.conf (P-200…P-208).

use k8s_openapi::api::core::v1::{PodDNSConfig, PodSpec};

use crate::pod::StaticPod;

/// P-205.
const MAX_NAMESERVERS: usize = 3;
const MAX_SEARCHES: usize = 32;
const MAX_SEARCH_CHARS: usize = 2048;
const MAX_DOMAIN_CHARS: usize = 253;

/// What a resolv.conf says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Dns {
    nameservers: Vec<String>,
    searches: Vec<String>,
    /// As written, such as `ndots:5`; one per name.
    options: Vec<String>,
}

/// P-200…P-205. `node_resolv_conf` is the text of the node's resolv.conf (the agent has replaced a stub, P-207).
/// Without cluster DNS servers the ClusterFirst policies are `Default` (P-201, D-14).
pub fn resolv_conf(pod: &StaticPod, node_resolv_conf: &str) -> String {
    let spec = pod.pod.spec.as_ref();
    let mut dns = if dns_policy(spec) == Some("None") {
        Dns::default()
    } else {
        parse(node_resolv_conf)
    };
    if let Some(config) = spec.and_then(|spec| spec.dns_config.as_ref()) {
        merge(&mut dns, config);
    }
    limit(&mut dns);
    render(&dns)
}

fn dns_policy(spec: Option<&PodSpec>) -> Option<&str> {
    spec.and_then(|spec| spec.dns_policy.as_deref())
}

/// P-207: is this the file of systemd-resolved's stub, useless in another network namespace?
pub fn resolv_conf_is_stub(text: &str) -> bool {
    let servers = parse(text).nameservers;
    let is_stub = |server: &String| matches!(server.as_str(), "127.0.0.53" | "127.0.0.54");
    !servers.is_empty() && servers.iter().all(is_stub)
}

/// P-206.
fn parse(text: &str) -> Dns {
    let mut dns = Dns::default();
    for line in text.lines() {
        let line = line.trim_start();
        let mut words = line.split_whitespace();
        match words.next() {
            Some("nameserver") => dns.nameservers.extend(words.next().map(str::to_owned)),
            Some("search") => {
                let domains = words.map(|domain| domain.trim_end_matches('.'));
                dns.searches = domains
                    .filter(|d| !d.is_empty())
                    .map(str::to_owned)
                    .collect();
            }
            Some("options") => words.for_each(|option| set_option(&mut dns.options, option)),
            Some(_) | None => {}
        }
    }
    dns
}

/// The last one of a name wins, in the place of the first.
fn set_option(options: &mut Vec<String>, option: &str) {
    let name = |option: &str| option.split(':').next().unwrap_or_default().to_owned();
    match options.iter_mut().find(|known| name(known) == name(option)) {
        Some(known) => option.clone_into(known),
        None => options.push(option.to_owned()),
    }
}

/// P-204.
fn merge(dns: &mut Dns, config: &PodDNSConfig) {
    append_new(&mut dns.nameservers, config.nameservers.iter().flatten());
    append_new(&mut dns.searches, config.searches.iter().flatten());
    for option in config.options.iter().flatten() {
        let name = option.name.as_deref().unwrap_or_default();
        match option.value.as_deref().filter(|value| !value.is_empty()) {
            Some(value) => set_option(&mut dns.options, &format!("{name}:{value}")),
            None => set_option(&mut dns.options, name),
        }
    }
}

fn append_new<'a>(list: &mut Vec<String>, more: impl Iterator<Item = &'a String>) {
    for item in more {
        if !list.contains(item) {
            list.push(item.clone());
        }
    }
}

/// P-205.
fn limit(dns: &mut Dns) {
    dns.nameservers.truncate(MAX_NAMESERVERS);
    dns.searches
        .retain(|domain| domain.len() <= MAX_DOMAIN_CHARS);
    dns.searches.truncate(MAX_SEARCHES);
    while dns.searches.join(" ").len() > MAX_SEARCH_CHARS {
        dns.searches.pop();
    }
}

/// P-208, in containerd's order.
fn render(dns: &Dns) -> String {
    let mut text = String::new();
    if !dns.searches.is_empty() {
        text.push_str(&format!("search {}\n", dns.searches.join(" ")));
    }
    for server in &dns.nameservers {
        text.push_str(&format!("nameserver {server}\n"));
    }
    if !dns.options.is_empty() {
        text.push_str(&format!("options {}\n", dns.options.join(" ")));
    }
    text
}
