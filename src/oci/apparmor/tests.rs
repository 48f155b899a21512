use serde_json::{Value, json};

use crate::oci::tests::Fixture;
use crate::oci::{ConfigError, Launch};

const LOADED: Option<&str> =
    Some("/usr/bin/man (enforce)\ndocker-default (enforce)\nmy profile (complain)\n");

fn launch(pod: Value, own: Value, loaded: Option<&'static str>) -> Result<Launch, ConfigError> {
    let container = json!({"name": "main", "command": ["/x"], "securityContext": own});
    let spec = json!({"securityContext": pod, "containers": [container]});
    let mut fixture = Fixture::new(spec, json!({}));
    fixture.node.apparmor = true;
    fixture.apparmor = loaded;
    fixture.launch()
}

fn asks(kind: &str, name: Option<&str>) -> Value {
    json!({"appArmorProfile": {"type": kind, "localhostProfile": name}})
}

/// C-54.
#[test]
fn the_containers_profile_goes_before_the_pods() {
    let default = Some("docker-default".to_owned());
    let mine = Some("my profile".to_owned());
    let localhost = || asks("Localhost", Some("my profile"));
    for (pod, own, expected) in [
        (json!({}), json!({}), default.clone()),
        (asks("RuntimeDefault", None), json!({}), default.clone()),
        (asks("Unconfined", None), json!({}), None),
        (localhost(), json!({}), mine.clone()),
        (localhost(), asks("RuntimeDefault", None), default),
        (asks("Unconfined", None), localhost(), mine.clone()),
        (json!({}), json!({"privileged": true}), None),
        (localhost(), json!({"privileged": true}), mine),
    ] {
        let launch = launch(pod, own, LOADED).unwrap();
        assert_eq!(launch.confinement.apparmor, expected);
        assert_eq!(launch.notes, [] as [String; 0]);
    }
}

/// C-55.
#[test]
fn a_profile_has_to_be_loaded() {
    let localhost = |name: &str| asks("Localhost", Some(name));
    for loaded in [LOADED, Some("")] {
        let error = launch(json!({}), localhost("/usr/bin"), loaded).unwrap_err();
        assert_eq!(error, ConfigError::NoAppArmorProfile("/usr/bin".into()));
    }
    // securityfs is not mounted.
    let launched = launch(json!({}), localhost("x"), None).unwrap();
    assert_eq!(launched.confinement.apparmor.as_deref(), Some("x"));
}

#[test]
fn a_default_that_is_not_there_is_told_to_who_asked_for_it() {
    let launched = launch(asks("RuntimeDefault", None), json!({}), Some("")).unwrap();
    assert_eq!(launched.confinement.apparmor, None);
    let note = launched.notes.first().unwrap();
    assert!(note.contains("vetch-default"), "{note}");
    let silent = launch(json!({}), json!({}), Some("")).unwrap();
    assert_eq!((silent.confinement.apparmor, silent.notes.len()), (None, 0));
}

#[test]
fn without_apparmor_nothing_is_pretended() {
    for (own, expected) in [
        (json!({}), Ok(None)),
        (asks("Unconfined", None), Ok(None)),
        (asks("RuntimeDefault", None), Err(ConfigError::NoAppArmor)),
        (asks("Localhost", Some("x")), Err(ConfigError::NoAppArmor)),
    ] {
        let container = json!({"name": "main", "command": ["/x"], "securityContext": own});
        let fixture = Fixture::new(json!({"containers": [container]}), json!({}));
        let profile = fixture.launch().map(|launch| launch.confinement.apparmor);
        assert_eq!(profile, expected);
    }
}
