//! Single files, links, and what is remembered.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use super::{Fixture, held, names, pod, put, uid};
use crate::agent::sources::FileSource;
use crate::pod::manifest;
use crate::sys::remove;

#[test]
fn a_config_map_volume_is_followed() {
    let mut f = Fixture::new();
    for (version, image) in [("..1", "x:1"), ("..2", "x:2")] {
        fs::create_dir(f.path(version)).unwrap();
        f.put(&format!("{version}/a.yaml"), &pod("a", image));
    }
    symlink("..1", f.path("..data")).unwrap();
    symlink("..data/a.yaml", f.path("a.yaml")).unwrap();
    let before = f.scan();
    symlink("..2", f.path("..data_tmp")).unwrap();
    fs::rename(f.path("..data_tmp"), f.path("..data")).unwrap();
    let after = f.scan();
    assert_eq!(names(&after), ["a-node"]);
    assert_ne!(uid(&after, "a-node"), uid(&before, "a-node"));
}

#[test]
fn a_single_file_is_replaced_and_removed() {
    let mut f = Fixture::new();
    f.source = FileSource::new(&f.path("a.yaml"), "node");
    assert!(f.scan().directory_problem.is_some());
    f.put("a.yaml", &pod("a", "x:1"));
    f.put("b.yaml", &pod("b", "x:1"));
    let first = f.scan();
    assert_eq!(names(&first), ["a-node"]);
    f.put("new", &pod("a", "x:2"));
    fs::rename(f.path("new"), f.path("a.yaml")).unwrap();
    assert_ne!(uid(&f.scan(), "a-node"), uid(&first, "a-node"));
    f.put("a.yaml", "garbage");
    assert_eq!(held(&f.scan()), ["default/a-node"]);
    fs::remove_file(f.path("a.yaml")).unwrap();
    assert_eq!(f.settle().pods, []);
}

#[test]
fn a_single_file_whose_directory_vanished_is_held() {
    let mut f = Fixture::new();
    f.source = FileSource::new(&f.path("a.yaml"), "node");
    f.put("a.yaml", &pod("a", "x:1"));
    f.scan();
    crate::sys::remove::tree(&f.dir()).unwrap();
    assert_eq!(held(&f.settle()), ["default/a-node"]);
}

#[test]
fn a_directory_that_became_a_file_holds_everything() {
    let mut f = Fixture::new();
    f.put("a.yaml", &pod("a", "x:1"));
    f.scan();
    remove::tree(&f.dir()).unwrap();
    put(&f.dir(), &pod("b", "x:1"));
    let snapshot = f.settle();
    assert_eq!(held(&snapshot), ["default/a-node"]);
    assert!(snapshot.directory_problem.is_some());
    fs::remove_file(f.dir()).unwrap();
    fs::create_dir(f.dir()).unwrap();
    f.put("b.yaml", &pod("b", "x:1"));
    assert_eq!(names(&f.settle()), ["b-node"]);
}

#[test]
fn seeds_hold_until_their_file_is_valid_or_deleted() {
    let mut f = Fixture::new();
    let parse = |name: &str| {
        let file = f.path(name);
        manifest::parse(file.to_str().unwrap(), pod(name, "x:1").as_bytes(), "node").pods
    };
    let mut seeds = [parse("bad"), parse("deleted"), parse("good")].concat();
    let mut elsewhere = seeds[0].clone();
    elsewhere.origin.file = "/elsewhere/x.yaml".to_owned();
    elsewhere.pod.metadata.name = Some("elsewhere".to_owned());
    seeds.push(elsewhere);
    f.source.seed(seeds.clone());
    f.put("bad", "kind: [");
    f.put("good", &pod("good", "x:2"));
    let snapshot = f.settle();
    assert_eq!(names(&snapshot), ["bad-node", "good-node"]);
    assert_eq!(snapshot.pods[0], seeds[0]);
    assert_ne!(snapshot.pods[1].uid, seeds[2].uid);

    // All deleted while no agent ran.
    let mut f = Fixture::new();
    f.source.seed(seeds.clone());
    assert_eq!(f.settle().pods, []);

    let mut f = Fixture::new();
    f.source = FileSource::new(Path::new("/elsewhere"), "node");
    f.source.seed(seeds);
    let snapshot = f.scan();
    assert_eq!(names(&snapshot), ["elsewhere"]);
    assert_eq!(snapshot.files.len(), 1);
    assert!(snapshot.files[0].held);
}

/// What was read is not read again; what may have changed in the same tick of the clock is.
#[test]
fn unchanged_files_are_not_read_again() {
    let mut f = Fixture::new();
    f.put("a.yaml", &pod("a", "x:1"));
    f.scan();
    let known = |f: &Fixture| f.source.files[&f.path("a.yaml")].identity;
    assert_eq!(known(&f), None, "too young to be trusted");
    f.now.wall += jiff::SignedDuration::from_secs(10);
    let first = f.scan();
    assert!(known(&f).is_some());
    // A marker that only a new reading would replace.
    let file = f.path("a.yaml");
    f.source.files.get_mut(&file).unwrap().good.pods[0]
        .origin
        .line = 77;
    assert_eq!(f.scan().pods[0].origin.line, 77);
    f.put("a.yaml", &pod("a", "x:2"));
    assert_ne!(uid(&f.scan(), "a-node"), uid(&first, "a-node"));
}

/// `vetch check web.yaml.bak` is meant as it is written.
#[test]
fn a_single_file_may_have_any_name() {
    let mut f = Fixture::new();
    f.put("a.bak", &pod("a", "x:1"));
    f.source = FileSource::new(&f.path("a.bak"), "node");
    assert_eq!(names(&f.scan()), ["a-node"]);
}
