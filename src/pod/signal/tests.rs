use proptest::prelude::*;

use super::{is_name, parse};

#[test]
fn signals_by_name_and_number() {
    for (text, number) in [
        ("SIGTERM", Some(15)),
        ("TERM", Some(15)),
        ("term", Some(15)),
        ("15", Some(15)),
        (" SIGQUIT ", Some(3)),
        ("SIGWINCH", Some(28)),
        ("SIGRTMIN", Some(34)),
        ("SIGRTMIN+3", Some(37)),
        ("RTMIN+30", Some(64)),
        ("RTMAX-1", Some(63)),
        ("SIGRTMAX", Some(64)),
        ("RTMIN+31", None),
        ("RTMIN-1", None),
        ("RTMIN+", None),
        ("RTMIN3", None),
        ("RTMIN++3", None),
        ("0", None),
        ("65", None),
        ("-9", None),
        ("", None),
        ("SIG", None),
        ("SIGNOPE", None),
        ("99999999999", None),
    ] {
        assert_eq!(parse(text), number, "{text:?}");
    }
}

#[test]
fn the_api_takes_whole_names_only() {
    for (text, is_good) in [
        ("SIGTERM", true),
        ("SIGRTMIN+15", true),
        ("SIGRTMAX-14", true),
        ("SIGRTMAX", true),
        ("TERM", false),
        ("sigterm", false),
        ("15", false),
        ("SIG15", false),
        ("SIG", false),
        ("SIGNOPE", false),
        (" SIGTERM", false),
        ("", false),
    ] {
        assert_eq!(is_name(text), is_good, "{text:?}");
    }
}

proptest! {
    #[test]
    fn no_text_is_a_signal_out_of_range(text in "(SIG)?(RTMIN|RTMAX|TERM)?[+-]?[0-9]{0,12}") {
        prop_assert!(parse(&text).is_none_or(|number| (1..=64).contains(&number)));
    }
}
