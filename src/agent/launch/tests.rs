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
fn links_are_cut_to_a_file_name_and_keep_the_id() {
    assert_eq!(
        link_name("web_default_main", "0123"),
        "web_default_main-0123.log"
    );
    let long = link_name(&"x".repeat(300), &"a".repeat(64));
    assert_eq!(long.len(), 255);
    assert!(long.ends_with(&format!("x-{}.log", "a".repeat(64))));
}
