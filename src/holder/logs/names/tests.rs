use jiff::civil::date;

use super::*;

#[test]
fn link_names_are_cut_in_front_of_the_id() {
    assert_eq!(
        link_name("web-node", "default", "nginx", "abc"),
        "web-node_default_nginx-abc.log"
    );
    let id = "f".repeat(64);
    let long = link_name(&"p".repeat(253), "default", "c", &id);
    assert_eq!(long.len(), 255);
    assert!(long.starts_with("ppp"));
    assert!(long.ends_with(&format!("-{id}.log")));
}

#[test]
fn turns_only_go_forward() {
    let noon = date(2026, 1, 2).at(12, 0, 0, 0);
    let first = Turn::after(None, noon);
    assert_eq!(first.to_string(), "20260102-120000");
    let same_second = Turn::after(Some(&first), noon);
    assert_eq!(same_second.to_string(), "20260102-120000_0001");
    let clock_went_back = Turn::after(Some(&same_second), date(1970, 1, 1).at(0, 0, 0, 0));
    assert_eq!(clock_went_back.to_string(), "20260102-120000_0002");
    let later = Turn::after(Some(&clock_went_back), date(2026, 1, 2).at(12, 0, 1, 0));
    assert_eq!(later.to_string(), "20260102-120001");
    assert!(first < same_second && same_second < clock_went_back && clock_went_back < later);
}

#[test]
fn names_sort_like_turns() {
    let names = [
        "0.log.20260102-120000.gz",
        "0.log.20260102-120000_0001",
        "0.log.20260102-120000_0002.gz",
        "0.log.20260102-120001",
    ];
    assert!(names.is_sorted());
    let turns: Vec<_> = names
        .iter()
        .map(|name| parse_rotated("0.log", name).unwrap().turn)
        .collect();
    assert!(turns.is_sorted());
}

#[test]
fn other_names_are_no_rotated_files() {
    for name in [
        "0.log",
        "1.log.20260102-120000",
        "0.log.20260102-120000.tmp",
        "0.log.20260102-120000.gz.tmp",
        "0.log.20260102-12000",
        "0.log.20260102x120000",
        "0.log.20260102-120000_x",
        "0.log.é0260102-12000",
    ] {
        assert_eq!(parse_rotated("0.log", name), None, "{name}");
    }
}

const LIMITS: Limits = Limits {
    max_size: 100,
    max_files: 5,
};

fn plain(size: u64) -> Kept {
    Kept {
        size,
        compressed: false,
    }
}

fn gz(size: u64) -> Kept {
    Kept {
        size,
        compressed: true,
    }
}

#[test]
fn surplus_counts_files_and_bytes_and_the_copy_in_progress() {
    // (rotated, compressing, how many go)
    let cases: &[(&[Kept], Option<usize>, usize)] = &[
        (&[], None, 0),
        (&[plain(100); 4], None, 0),
        (&[plain(100); 5], None, 1),
        (&[gz(10), gz(10), gz(10), plain(100), plain(100)], None, 1),
        // Room for the copy.
        (&[plain(100); 4], Some(3), 1),
        (&[gz(1), gz(1), plain(50), plain(100)], Some(2), 0),
        (&[gz(1), plain(100), plain(100), plain(100)], Some(2), 0),
        // Once the file being compressed goes, so does its copy.
        (&[plain(100); 4], Some(0), 1),
        (&[plain(1000)], None, 1),
    ];
    for (rotated, compressing, gone) in cases {
        assert_eq!(
            LIMITS.surplus(rotated, *compressing),
            *gone,
            "{rotated:?} {compressing:?}"
        );
    }
}

#[test]
fn the_newest_old_file_is_compressed_unless_it_would_have_to_go() {
    let cases: &[(&[Kept], Option<usize>)] = &[
        (&[], None),
        (&[plain(100)], None),
        (&[plain(100), plain(100)], Some(0)),
        (&[gz(10), plain(100), plain(100)], Some(1)),
        (&[plain(90), plain(90), plain(90)], Some(1)),
        (&[gz(10), gz(10), plain(100)], None),
        (&[plain(100); 4], Some(2)),
        (&[gz(10), plain(100), gz(100), plain(100)], Some(1)),
        (&[plain(100), gz(100), gz(100), plain(100)], None),
    ];
    for (rotated, next) in cases {
        assert_eq!(LIMITS.next_to_compress(rotated), *next, "{rotated:?}");
    }
    let three = Limits {
        max_files: 3,
        ..LIMITS
    };
    assert_eq!(three.next_to_compress(&[plain(100); 2]), None);
}
