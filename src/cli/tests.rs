use std::time::Duration;

use clap::CommandFactory;

use super::{Cli, duration, table};

#[test]
fn the_command_line_is_consistent() {
    Cli::command().debug_assert();
}

#[test]
fn every_command_has_examples() {
    for command in Cli::command().get_subcommands() {
        let help = command.get_after_help().map(ToString::to_string);
        assert!(
            help.is_some_and(|text| text.starts_with("Examples:\n")),
            "{} has no examples",
            command.get_name()
        );
    }
}

/// The values that kubectl's own test of HumanDuration uses, and its borders.
#[test]
fn ages_are_shown_as_kubectl_shows_them() {
    const H: u64 = 3600;
    let cases = [
        (0, "0s"),
        (119, "119s"),
        (120, "2m"),
        (121, "2m1s"),
        (599, "9m59s"),
        (600, "10m"),
        (3 * H - 1, "179m"),
        (3 * H, "3h"),
        (3 * H + 60, "3h1m"),
        (8 * H - 1, "7h59m"),
        (8 * H, "8h"),
        (48 * H - 1, "47h"),
        (48 * H, "2d"),
        (49 * H, "2d1h"),
        (8 * 24 * H - 1, "7d23h"),
        (8 * 24 * H, "8d"),
        (2 * 365 * 24 * H - 1, "729d"),
        (2 * 365 * 24 * H, "2y"),
        (2 * 365 * 24 * H + 24 * H, "2y1d"),
        (8 * 365 * 24 * H, "8y"),
    ];
    for (seconds, text) in cases {
        assert_eq!(
            duration::human(Duration::from_secs(seconds)),
            text,
            "{seconds}"
        );
    }
}

#[test]
fn columns_are_aligned_and_lines_have_no_trailing_blanks() {
    let row = |cells: [&str; 3]| cells.map(str::to_owned).to_vec();
    let text = table::render(&[row(["NAME", "READY", "X"]), row(["é", "1/1", ""])]);
    assert_eq!(text, "NAME   READY   X\né      1/1\n");
}

#[test]
fn the_hidden_roles_are_not_advertised() {
    let help = Cli::command().render_long_help().to_string();
    assert!(!help.contains("holder"), "{help}");
}
