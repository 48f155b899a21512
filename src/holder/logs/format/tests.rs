use proptest::prelude::*;

use super::*;

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn now() -> Timestamp {
    at("2026-01-02T03:04:05.000000678Z")
}

fn format(pieces: &[(Stream, &[u8])]) -> String {
    let mut formatter = Formatter::default();
    let mut out = Vec::new();
    for (stream, bytes) in pieces {
        let mut rest = *bytes;
        while !rest.is_empty() {
            rest = formatter.push(*stream, rest, now());
            out.append(&mut formatter.take());
        }
    }
    formatter.finish(now());
    out.append(&mut formatter.take());
    String::from_utf8(out).unwrap()
}

#[test]
fn full_lines_of_both_streams() {
    assert_eq!(
        format(&[(Stream::Stdout, b"one\n\n"), (Stream::Stderr, b"two\n")]),
        "2026-01-02T03:04:05.000000678Z stdout F one\n\
         2026-01-02T03:04:05.000000678Z stdout F \n\
         2026-01-02T03:04:05.000000678Z stderr F two\n"
    );
}

#[test]
fn pieces_of_interleaved_lines_stay_apart() {
    let text = format(&[
        (Stream::Stdout, b"o1"),
        (Stream::Stderr, b"e1"),
        (Stream::Stdout, b"o2\no"),
        (Stream::Stderr, b"e2"),
    ]);
    let texts: Vec<_> = text.lines().map(|line| &line[31..]).collect();
    assert_eq!(texts, ["stdout F o1o2", "stdout F o", "stderr F e1e2"]);
}

#[test]
fn a_line_of_exactly_the_limit_is_one_entry_and_one_more_byte_makes_two() {
    let exact = "x".repeat(MAX_TEXT) + "\n";
    assert_eq!(
        format(&[(Stream::Stdout, exact.as_bytes())])
            .lines()
            .count(),
        1
    );
    let longer = "x".repeat(MAX_TEXT + 1) + "\n";
    let text = format(&[(Stream::Stdout, longer.as_bytes())]);
    let kinds: Vec<_> = text
        .lines()
        .map(|line| (&line[38..39], line.len() - 40))
        .collect();
    assert_eq!(kinds, [("P", MAX_TEXT), ("F", 1)]);
    assert!(text.lines().all(|line| line.len() < MAX_ENTRY));
}

#[test]
fn a_flood_of_empty_lines_does_not_pile_up() {
    let mut formatter = Formatter::default();
    let flood = vec![b'\n'; 1024 * 1024];
    let rest = formatter.push(Stream::Stdout, &flood, now());
    assert!(!rest.is_empty());
    assert!(formatter.take().len() <= MAX_OUT + MAX_ENTRY);
}

#[test]
fn stamps_have_nine_digits_and_follow_the_clock() {
    let mut stamp = StampText::new(now());
    for text in [
        "2026-01-02T03:04:05.000000678Z",
        "2026-01-02T03:04:05.900000000Z",
        "2026-12-31T23:59:59.999999999Z",
        "1970-01-01T00:00:00.000000001Z",
    ] {
        stamp.set(at(text));
        assert_eq!(std::str::from_utf8(&stamp.text).unwrap(), text);
    }
    stamp.set(at("1969-12-31T23:59:59Z"));
    assert_eq!(stamp.text, *b"1970-01-01T00:00:00.000000000Z");
}

#[test]
fn parse_takes_other_writers_entries_and_refuses_torn_ones() {
    let entry = parse(b"2026-01-02T03:04:05.1+01:00 stderr P:x:y a b").unwrap();
    assert_eq!(entry.stamp, "2026-01-02T03:04:05.1+01:00");
    assert_eq!((entry.stream, entry.tag), (Stream::Stderr, Tag::Partial));
    assert_eq!(entry.text, b"a b");
    for torn in [
        "",
        "2026-01-02T03:0",
        "2026-01-02T03:04:05Z",
        "2026-01-02T03:04:05Z stdou",
        "2026-01-02T03:04:05Z stdout ",
        "x stdout F text",
        "2026-01-02T03:04:05Z stdin F text",
        "2026-01-02T03:04:05Z stdout X text",
    ] {
        assert_eq!(parse(torn.as_bytes()), None, "{torn:?}");
    }
}

#[test]
fn whole_entries_end_at_a_line_feed() {
    assert_eq!(whole_entries_within(b"ab\ncd\n", 100), 6);
    assert_eq!(whole_entries_within(b"ab\ncd\n", 5), 3);
    assert_eq!(whole_entries_within(b"ab\ncd\n", 3), 3);
    assert_eq!(whole_entries_within(b"ab\ncd\n", 2), 0);
    assert_eq!(first_entry(b"ab\ncd\n"), 3);
}

proptest! {
    /// However the bytes are cut into reads, joining the entries of a stream gives them back.
    #[test]
    fn joined_entries_are_the_bytes(
        line_lengths in prop::collection::vec(0_usize..40_000, 0..6),
        cut in 1_usize..70_000,
        ends in any::<bool>(),
    ) {
        let mut bytes: Vec<u8> = Vec::new();
        for (index, length) in line_lengths.iter().enumerate() {
            bytes.extend((0..*length).map(|at| match (at + index) % 256 {
                10 => 0xff,
                byte => u8::try_from(byte).unwrap(),
            }));
            bytes.push(b'\n');
        }
        if !ends {
            bytes.push(b'x');
        }
        let mut formatter = Formatter::default();
        let mut out = Vec::new();
        for piece in bytes.chunks(cut) {
            let mut rest = piece;
            while !rest.is_empty() {
                rest = formatter.push(Stream::Stdout, rest, now());
                out.append(&mut formatter.take());
            }
        }
        formatter.finish(now());
        out.append(&mut formatter.take());
        let mut joined = Vec::new();
        for line in out.split_inclusive(|byte| *byte == b'\n') {
            let entry = parse(line.strip_suffix(b"\n").unwrap()).unwrap();
            joined.extend_from_slice(entry.text);
            if entry.tag == Tag::Full {
                joined.push(b'\n');
            }
        }
        if !ends {
            bytes.push(b'\n');
        }
        prop_assert!(joined == bytes);
    }
}
