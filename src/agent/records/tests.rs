use super::*;
use crate::pod::Origin;

fn paths(dir: &Path) -> Paths {
    Paths {
        root_dir: dir.into(),
        ..Paths::default()
    }
}

fn pod(uid: &str) -> StaticPod {
    StaticPod {
        uid: PodUid::try_from(uid.to_owned()).unwrap(),
        pod: Default::default(),
        document_hash: "h".into(),
        origin: Origin {
            file: "web.yaml".into(),
            line: 1,
        },
        diagnostics: Vec::new(),
    }
}

fn history(uid: &str, next_attempt: u32) -> History {
    let memory: PodHistory = serde_json::from_value(serde_json::json!({
        "start_time": "2026-01-01T00:00:00Z", "next_attempt": next_attempt,
    }))
    .unwrap();
    let uid = PodUid::try_from(uid.to_owned()).unwrap();
    History {
        pods: [(uid, memory)].into(),
    }
}

#[test]
fn a_changed_memory_is_written_once_and_comes_back() {
    let dir = tempfile::tempdir().unwrap();
    let paths = paths(dir.path());
    let (pod, new) = (pod("a"), history("a", 3));
    let mut records = Records::default();
    records.note_changes(&History::default(), &new);
    records.save(&paths, &new.pods, |_| Some(&pod)).unwrap();
    assert_eq!(
        records.take_unsynced(),
        [dir.path().join("pods/a/record.json")]
    );

    records.note_changes(&new, &new);
    records.save(&paths, &new.pods, |_| Some(&pod)).unwrap();
    assert!(records.take_unsynced().is_empty(), "nothing had changed");

    let mut loaded = load(&paths);
    assert!(loaded.warnings.is_empty(), "{:?}", loaded.warnings);
    loaded.files.note_pod(pod.uid.clone());
    loaded
        .files
        .save(&paths, &new.pods, |_| Some(&pod))
        .unwrap();
    assert!(
        loaded.files.take_unsynced().is_empty(),
        "it is on disk already"
    );
    let history = new.pods[&pod.uid].clone();
    assert_eq!(loaded.records, [Record { pod, history }]);
}

#[test]
fn a_bad_record_is_set_aside_and_the_others_load() {
    let dir = tempfile::tempdir().unwrap();
    let paths = paths(dir.path());
    let (pod, new) = (pod("a"), history("a", 0));
    let mut records = Records::default();
    records.note_changes(&History::default(), &new);
    records.save(&paths, &new.pods, |_| Some(&pod)).unwrap();
    for (uid, text) in [("empty", ""), ("half", "{\"pod\":"), ("nothing", "{}")] {
        let bad = paths.pods().join(uid);
        store::make_dir(&bad).unwrap();
        store::rewrite(&bad.join("record.json"), text.as_bytes(), 0o600).unwrap();
    }
    let foreign = paths.pods().join("b");
    store::make_dir(&foreign).unwrap();
    std::fs::copy(
        paths.pods().join("a/record.json"),
        foreign.join("record.json"),
    )
    .unwrap();

    let loaded = load(&paths);
    assert_eq!(loaded.records.len(), 1);
    assert_eq!(loaded.warnings.len(), 4, "{:?}", loaded.warnings);
    assert!(load(&paths).warnings.is_empty(), "they are set aside");
}

#[test]
fn a_failed_write_is_tried_again() {
    let dir = tempfile::tempdir().unwrap();
    let paths = paths(dir.path());
    let (pod, new) = (pod("a"), history("a", 0));
    let mut records = Records::default();
    records.note_changes(&History::default(), &new);
    // The directory's name is taken by a file.
    store::make_dir(&paths.pods()).unwrap();
    store::rewrite(&paths.pod(&pod.uid), b"", 0o600).unwrap();
    records.save(&paths, &new.pods, |_| Some(&pod)).unwrap_err();
    std::fs::remove_file(paths.pod(&pod.uid)).unwrap();
    records.save(&paths, &new.pods, |_| Some(&pod)).unwrap();
    assert_eq!(load(&paths).records.len(), 1);
}
