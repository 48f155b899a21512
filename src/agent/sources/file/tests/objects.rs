//! ConfigMaps and Secrets are held, named and lost as pods are.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use super::{Fixture, remarks};
use crate::agent::sources::Snapshot;
use crate::pod::objects::LocalObject;

fn config_map(name: &str, value: &str) -> String {
    format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}}}\ndata: {{k: {value}}}\n")
}

/// `name=value` of each.
fn objects(snapshot: &Snapshot) -> Vec<String> {
    let objects = snapshot.objects.by_key.values();
    objects
        .map(|object| {
            let value = String::from_utf8_lossy(&object.data["k"]);
            format!("{}={value}", object.key.name)
        })
        .collect()
}

/// D-1, D-2: a bad file and a missing directory keep them; deletion does not.
#[test]
fn a_bad_file_keeps_its_last_good_objects() {
    let mut f = Fixture::new();
    // A past in which the file's clock has settled.
    f.now.wall += jiff::SignedDuration::from_secs(3600);
    f.put("a.yaml", &config_map("app", "one"));
    let snapshot = f.scan();
    assert_eq!(objects(&snapshot), ["app=one"]);
    assert_eq!(snapshot.files[0].objects, ["configmap default/app"]);
    assert_eq!(snapshot.objects.looked_in, f.dir().display().to_string());

    f.put(
        "a.yaml",
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: app}\ndata: [",
    );
    let snapshot = f.scan();
    assert_eq!(objects(&snapshot), ["app=one"]);
    assert!(snapshot.files[0].held);

    fs::rename(f.path("a.yaml"), f.path("b.yaml")).unwrap();
    let snapshot = f.settle();
    assert_eq!(objects(&snapshot), ["app=one"], "the same bad file");

    fs::rename(f.dir(), f.root.path().join("away")).unwrap();
    let snapshot = f.settle();
    assert!(snapshot.directory_problem.is_some());
    assert_eq!(objects(&snapshot), ["app=one"]);

    fs::rename(f.root.path().join("away"), f.dir()).unwrap();
    f.put("b.yaml", &config_map("app", "two"));
    assert_eq!(objects(&f.settle()), ["app=two"]);

    fs::remove_file(f.path("b.yaml")).unwrap();
    f.put("c.yaml", &config_map("other", "x"));
    assert_eq!(objects(&f.scan()), ["app=two", "other=x"], "for a moment");
    assert_eq!(objects(&f.settle()), ["other=x"]);
}

/// D-12.
#[test]
fn the_first_file_wins_a_name_and_the_other_is_told() {
    let mut f = Fixture::new();
    f.put("b.yaml", &config_map("app", "b"));
    f.put("a.yaml", &config_map("app", "a"));
    let snapshot = f.scan();
    assert_eq!(objects(&snapshot), ["app=a"]);
    assert_eq!(
        remarks(&snapshot, &f),
        [
            "b.yaml:1: metadata.name: configmap default/app is already in a.yaml, which comes first; this one is not used"
        ]
    );
    fs::remove_file(f.path("a.yaml")).unwrap();
    assert_eq!(objects(&f.settle()), ["app=b"]);
}

#[test]
fn a_secret_that_others_can_read_is_told_until_they_cannot() {
    let mut f = Fixture::new();
    let text = config_map("a", "x")
        + "---\napiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData: {k: hush}\n";
    f.put("s.yaml", &text);
    for (mode, told) in [(0o640, true), (0o604, true), (0o600, false), (0o644, true)] {
        let permissions = fs::Permissions::from_mode(mode);
        fs::set_permissions(f.path("s.yaml"), permissions).unwrap();
        let remarks = remarks(&f.scan(), &f);
        let expected = format!(
            "s.yaml:6: others can read this Secret, the file has mode {mode:04o}; chmod 600 s.yaml"
        );
        assert_eq!(remarks, Vec::from_iter(told.then_some(expected)));
    }
    f.put("s.yaml", &config_map("a", "x"));
    assert_eq!(remarks(&f.scan(), &f), [] as [&str; 0], "no Secret");
}

/// D-1 over a restart of the agent.
#[test]
fn what_an_earlier_agent_knew_counts_for_a_bad_file_and_not_for_a_deleted_one() {
    let mut f = Fixture::new();
    f.put("bad.yaml", &config_map("bad", "old"));
    f.put("good.yaml", &config_map("good", "old"));
    f.put("gone.yaml", &config_map("gone", "old"));
    let known: Vec<LocalObject> = f.scan().objects.by_key.into_values().collect();
    let mut f2 = Fixture::new();
    let known = known.into_iter().map(|mut object| {
        let name = object.key.name.clone() + ".yaml";
        object.origin.file = f2.path(&name).to_string_lossy().into_owned();
        object
    });
    let elsewhere = LocalObject {
        origin: crate::pod::Origin {
            file: "/elsewhere/x.yaml".to_owned(),
            line: 1,
        },
        ..known.clone().next().unwrap()
    };
    f2.source.seed_objects(known.chain([elsewhere]).collect());
    f2.put("bad.yaml", "{");
    f2.put("good.yaml", &config_map("good", "new"));
    assert_eq!(objects(&f2.settle()), ["bad=old", "good=new"]);
}
