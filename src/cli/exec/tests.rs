use std::io::{Read, Write};

use super::copy::Copy;

/// A process left behind keeps the pipe open; what the command wrote before it ended must still come out.
#[test]
fn what_was_written_comes_out_although_the_pipe_stays_open() {
    let (from, mut command) = std::io::pipe().unwrap();
    let (mut person, to) = std::io::pipe().unwrap();
    let text = vec![b'x'; 40_000];
    command.write_all(&text).unwrap();
    let mut copy = Copy::new(from.into(), to.into());
    copy.finish();
    drop(copy);
    let mut got = Vec::new();
    person.read_to_end(&mut got).unwrap();
    assert_eq!(got, text);
    drop(command);
}

#[test]
fn a_reader_that_has_gone_ends_the_copy_and_closes_the_commands_side() {
    let (from, mut command) = std::io::pipe().unwrap();
    let (person, to) = std::io::pipe().unwrap();
    drop(person);
    command.write_all(b"x").unwrap();
    Copy::new(from.into(), to.into()).finish();
    let error = command.write_all(b"x").unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::BrokenPipe);
}
