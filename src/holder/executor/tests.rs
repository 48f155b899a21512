use super::*;

fn strings(list: &[&str]) -> Vec<String> {
    list.iter().map(|&s| s.to_owned()).collect()
}

#[test]
fn the_last_path_wins_and_odd_entries_are_skipped() {
    let env = strings(&["PATH=/a", "X=1", "PATH=/usr/bin/::.:rel:/"]);
    assert_eq!(candidates("sh", &env), ["/usr/bin/sh", "/sh"]);
    assert_eq!(candidates("./sh", &env), ["./sh"]);
    assert!(candidates("sh", &[]).is_empty());
}

#[test]
fn errors_read_like_those_of_other_runtimes() {
    assert_eq!(plain(&Errno::NOENT.into()), "no such file or directory");
    assert_eq!(plain(&Errno::NOEXEC.into()), "exec format error");
}

#[test]
fn capability_names_are_known() {
    let set = capability_set(&strings(&["CAP_CHOWN", "NET_RAW", "CAP_NO_SUCH"]));
    assert_eq!(set, CapabilitySet::CHOWN | CapabilitySet::NET_RAW);
}
