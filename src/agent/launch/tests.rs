use super::*;

#[test]
fn ids_are_64_hex_digits_and_differ() {
    let id = new_id().unwrap();
    assert_eq!(id.len(), 64);
    assert!(
        id.bytes()
            .all(|b| b.is_ascii_hexdigit() && !b.is_ascii_uppercase())
    );
    assert_ne!(id, new_id().unwrap());
}

#[test]
fn a_container_without_history_goes_on_after_its_logs() {
    let dir = tempfile::tempdir().unwrap();
    let missing = dir.path().join("missing");
    assert_eq!(restart_count(&missing, 0), 0);
    for name in ["2.log", "10.log.20260101-000000.gz", "x.log", "99.txt"] {
        std::fs::File::create(dir.path().join(name)).unwrap();
    }
    assert_eq!(restart_count(dir.path(), 0), 11);
    assert_eq!(restart_count(dir.path(), 3), 3);
}
