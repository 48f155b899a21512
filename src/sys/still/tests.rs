use super::*;

#[test]
fn the_arguments_of_this_process_are_found() {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let (start, end) = arguments(&stat).unwrap();
    let length = std::fs::read("/proc/self/cmdline").unwrap().len();
    assert_eq!(end - start, u64::try_from(length).unwrap());
    // Somebody who may not see them sees zeroes.
    let hidden = format!("1 (a) b) S{}", " 0".repeat(60));
    assert_eq!(arguments(&hidden), None);
}
