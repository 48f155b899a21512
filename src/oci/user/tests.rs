use proptest::prelude::*;
use serde_json::{Value, json};

use super::{Identity, resolve};
use crate::oci::ConfigError;
use crate::oci::tests::Fixture;

fn identity(pod: Value, container: Value, image_user: &str) -> Result<Identity, ConfigError> {
    let spec = json!({
        "securityContext": pod,
        "containers": [{"name": "main", "securityContext": container}],
    });
    resolve(&Fixture::new(spec, json!({"User": image_user})).input())
}

/// (uid, gid, home).
fn of_image(user: &str) -> Result<(u32, u32, String), ConfigError> {
    identity(json!({}), json!({}), user).map(|id| (id.uid, id.gid, id.home))
}

/// C-33.
#[test]
fn forms_of_an_images_user() {
    for (user, uid, gid, home) in [
        ("", 0, 0, "/root"),
        ("root", 0, 0, "/root"),
        ("web", 33, 34, "/var/www"),
        ("33", 33, 34, "/var/www"),
        ("web:video", 33, 44, "/var/www"),
        ("web:7", 33, 7, "/var/www"),
        ("12345", 12345, 0, "/"),
        ("12345:6", 12345, 6, "/"),
        ("12345:video", 12345, 44, "/"),
        (":video", 0, 44, "/root"),
        ("nohome", 50, 51, "/"),
        // A name made of digits is no name.
        ("1000", 1000, 0, "/"),
        ("77", 77, 78, "/seventy-seven"),
    ] {
        assert_eq!(
            of_image(user).unwrap(),
            (uid, gid, home.to_owned()),
            "{user:?}"
        );
    }
}

#[test]
fn names_that_are_in_no_database_are_errors() {
    for (user, error) in [
        ("ghost", ConfigError::UnknownUser("ghost".into())),
        (
            "broken line",
            ConfigError::UnknownUser("broken line".into()),
        ),
        ("-1", ConfigError::UnknownUser("-1".into())),
        ("4294967295", ConfigError::UnknownUser("4294967295".into())),
        ("web:ghosts", ConfigError::UnknownGroup("ghosts".into())),
        (
            "web:4294967295",
            ConfigError::UnknownGroup("4294967295".into()),
        ),
    ] {
        assert_eq!(of_image(user), Err(error), "{user:?}");
    }
}

/// C-33: whoever made the image may have meant no good; the first line of a name counts, and no line is believed half.
#[test]
fn hostile_databases_give_no_wrong_ids() {
    const PASSWD: &str = "a:x:-5:1::/:\na:x:0x7:1::/:\na:x:99999999999999999999:1::/:\na:x: 8:1::/:\na:x:9:+1::/:\n\
        a:x:4294967295:1::/:\na:x\0:10:10::/a:/bin/sh\na:x:11:11::/second:\n:x:0:0::/:\na\0:x:0:0::/:\na:x\n";
    let user = |name: &str| {
        let mut fixture = Fixture::new(
            json!({"containers": [{"name": "main", "command": ["/x"]}]}),
            json!({"User": name}),
        );
        fixture.passwd = PASSWD;
        fixture.group = "g:x:-1:a\ng:x:12:\ng:x:13:\nmany:x:14:b,,a,\n";
        resolve(&fixture.input()).map(|identity| (identity.uid, identity.gid, identity.groups))
    };
    assert_eq!(user("a"), Ok((10, 10, vec![10, 14])));
    assert_eq!(user("a:g"), Ok((10, 12, vec![12, 14])));
    for name in ["b", "x", " "] {
        let expected = if name == " " {
            Ok((0, 0, vec![0]))
        } else {
            Err(ConfigError::UnknownUser(name.into()))
        };
        assert_eq!(user(name), expected);
    }
}

/// C-30, C-31.
#[test]
fn the_container_goes_before_the_pod_and_the_pod_before_the_image() {
    for (pod, container, image, uid, gid) in [
        (
            json!({"runAsUser": 1}),
            json!({"runAsUser": 33}),
            "12345:6",
            33,
            34,
        ),
        (json!({"runAsUser": 33}), json!({}), "12345:6", 33, 34),
        (json!({"runAsUser": 999}), json!({}), "12345:6", 999, 0),
        (json!({"runAsUser": 0}), json!({}), "web", 0, 0),
        (json!({"runAsGroup": 5}), json!({}), "web", 33, 5),
        (
            json!({"runAsGroup": 5}),
            json!({"runAsGroup": 6}),
            "12345:7",
            12345,
            6,
        ),
        (
            json!({"runAsUser": 1, "runAsGroup": 2}),
            json!({"runAsUser": 3}),
            "web",
            3,
            2,
        ),
    ] {
        let id = identity(pod.clone(), container.clone(), image).unwrap();
        assert_eq!((id.uid, id.gid), (uid, gid), "{pod} {container} {image}");
    }
}

#[test]
fn numbers_that_are_no_ids_are_errors() {
    for (field, value) in [
        ("runAsUser", -1),
        ("runAsGroup", 4_294_967_295_i64),
        ("fsGroup", 1 << 40),
    ] {
        let error = identity(json!({field: value}), json!({}), "").unwrap_err();
        assert_eq!(error, ConfigError::BadId { field, value });
    }
    assert!(identity(json!({"supplementalGroups": [1, -5]}), json!({}), "").is_err());
}

/// C-32.
#[test]
fn run_as_non_root() {
    let with = |user: Option<i64>, image| {
        let container = json!({"runAsNonRoot": true, "runAsUser": user});
        identity(json!({}), container, image).map(|id| id.uid)
    };
    assert_eq!(with(Some(5), "root"), Ok(5));
    assert_eq!(with(Some(0), "5"), Err(ConfigError::RunAsUserIsRoot));
    assert_eq!(with(None, "5:0"), Ok(5));
    assert_eq!(with(None, "0"), Err(ConfigError::ImageRunsAsRoot));
    assert_eq!(with(None, ""), Err(ConfigError::ImageRunsAsRoot));
    assert_eq!(with(None, "00:5"), Err(ConfigError::ImageRunsAsRoot));
    let error = with(None, "web:video").unwrap_err();
    assert_eq!(
        error.to_string(),
        "container has runAsNonRoot and image has non-numeric user (web), cannot verify user is non-root"
    );
}

/// A numeric name in passwd must not smuggle root past the check.
#[test]
fn run_as_non_root_holds_for_what_is_really_run() {
    let spec = json!({"containers": [{"name": "main", "securityContext": {"runAsNonRoot": true}}]});
    let mut fixture = Fixture::new(spec, json!({"User": "1000"}));
    fixture.passwd = "1000:x:0:0::/:/bin/sh\n";
    assert_eq!(resolve(&fixture.input()).unwrap().uid, 1000);
}

#[test]
fn the_container_can_lift_the_pods_run_as_non_root() {
    let id = identity(
        json!({"runAsNonRoot": true}),
        json!({"runAsNonRoot": false}),
        "",
    );
    assert_eq!(id.unwrap().uid, 0);
    let error = identity(json!({"runAsNonRoot": true}), json!({}), "").unwrap_err();
    assert_eq!(error, ConfigError::ImageRunsAsRoot);
}

/// C-34.
#[test]
fn groups_are_listed_and_merged() {
    let groups = |pod: Value, image| identity(pod, json!({}), image).unwrap().groups;
    assert_eq!(groups(json!({}), ""), [0]);
    assert_eq!(groups(json!({}), "web"), [29, 34, 44]);
    assert_eq!(groups(json!({"runAsUser": 33}), ""), [29, 34, 44]);
    assert_eq!(groups(json!({}), "12345"), [0]);
    let all = json!({"supplementalGroups": [9, 44, 9], "fsGroup": 3});
    assert_eq!(groups(all, "web"), [3, 9, 29, 34, 44]);
    let strict =
        json!({"supplementalGroups": [9], "fsGroup": 3, "supplementalGroupsPolicy": "Strict"});
    assert_eq!(groups(strict, "web"), [3, 9, 34]);
}

proptest! {
    /// Whatever an image's files hold: no panic, and always a home and the primary group.
    #[test]
    fn any_database_is_survived(passwd in "([a-z0-9:,x\n]|root:x:0:0::){0,80}", group in "[a-z0-9:,\n]{0,80}", user in "[a-z0-9:]{0,6}") {
        let spec = json!({"containers": [{"name": "main"}]});
        let fixture = Fixture::new(spec, json!({"User": user}));
        let mut input = fixture.input();
        input.passwd = &passwd;
        input.group = &group;
        if let Ok(identity) = resolve(&input) {
            prop_assert!(identity.home.starts_with('/'));
            prop_assert!(identity.groups.contains(&identity.gid));
        }
    }
}
