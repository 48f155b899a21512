use super::*;

#[test]
fn a_holder_that_is_gone_is_no_failure() {
    let exec = Check::Exec {
        args: vec!["true".to_owned()],
    };
    let outcome = check(&exec, LONG);
    let Outcome::Errored(text) = outcome else {
        panic!("{outcome:?}");
    };
    assert!(
        text.starts_with("connect to /nonexistent/holder.sock: "),
        "{text}"
    );
}
