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
