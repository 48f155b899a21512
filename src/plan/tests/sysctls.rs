//! Which kernel parameters the node lets pods set (C-60, C-61).

use serde_json::json;

use super::admission::named;
use super::fixtures::{at, desired, event_lines, nothing, rules};
use crate::plan::{Action, History, Plan, Rules, plan};

fn planned(name: &str, allowed: &[&str]) -> Plan {
    let spec = json!({"spec": {"securityContext": {"sysctls": [
        {"name": "net/ipv4/tcp_syncookies", "value": "1"},
        {"name": name, "value": "1"}]}}});
    let rules = Rules {
        unsafe_sysctls: allowed.iter().map(|&name| name.to_owned()).collect(),
        ..rules()
    };
    let pod = named("a", &spec);
    let wanted = desired(&[&pod]);
    plan(&wanted, &nothing(), &History::default(), &rules, at(1000))
}

fn starts(plan: &Plan) -> bool {
    let start = |action: &Action| matches!(action, Action::StartSandbox { .. });
    plan.actions.iter().any(start)
}

/// S-177, C-61
#[test]
fn a_sysctl_that_is_not_allowed_is_refused_until_it_is() {
    for (name, words) in [
        (
            "kernel/msgmax",
            "SysctlForbidden - forbidden sysctl: \"kernel.msgmax\" not allowlisted; allowedUnsafeSysctls in the node's configuration can allow it",
        ),
        (
            "vm.swappiness",
            "SysctlForbidden - forbidden sysctl: \"vm.swappiness\" not allowlisted, because it is the whole node's",
        ),
    ] {
        let refused = planned(name, &[]);
        assert!(!starts(&refused), "{name}");
        assert_eq!(event_lines(&refused), [words]);
    }
    assert!(starts(&planned("kernel/msgmax", &["kernel.msg*"])));
    assert!(!starts(&planned("vm.swappiness", &["kernel.msg*"])));
}

/// C-60
#[test]
fn a_safe_sysctl_needs_no_permission() {
    assert!(starts(&planned("net.ipv4.ip_local_port_range", &[])));
}
