//! The pages name what is there: links, files of the code map, verbs.

use std::path::Path;
use std::process::Command;

/// README, ARCHITECTURE and everything in docs/.
fn pages() -> Vec<String> {
    let docs = std::fs::read_dir("docs").expect("list docs");
    let docs = docs.map(|entry| entry.expect("list docs").path().display().to_string());
    let mut pages: Vec<String> = docs.collect();
    assert!(pages.len() > 5, "{pages:?}");
    pages.extend(["README.md", "ARCHITECTURE.md"].map(str::to_owned));
    pages
}

fn read(page: &str) -> String {
    std::fs::read_to_string(page).expect("read a page")
}

#[test]
fn every_link_leads_to_a_file() {
    let mut links = 0;
    for page in pages() {
        let dir = Path::new(&page).parent().expect("a directory");
        for rest in read(&page).split("](").skip(1) {
            let target = rest.split([')', '#']).next().unwrap_or_default();
            if !target.starts_with("https://") {
                links += 1;
                assert!(dir.join(target).exists(), "{page}: {target}");
            }
        }
    }
    assert!(links > 5, "{links}");
}

#[test]
fn the_readme_leads_to_every_page() {
    let readme = read("README.md");
    for page in pages() {
        let is_told = page == "README.md" || readme.contains(&format!("]({page})"));
        assert!(is_told, "{page}");
    }
}

/// `  name.rs, dir/   what it is` below `src/room/   …`.
#[test]
fn the_code_map_names_files_that_exist() {
    let page = read("ARCHITECTURE.md");
    let map = page.split("## Code map").nth(1).expect("the map");
    let map = map.split("```").nth(1).expect("the map");
    let mut room = "";
    let mut files = 0;
    for line in map.lines().filter(|line| !line.is_empty()) {
        if !line.starts_with(' ') {
            room = line.split_whitespace().next().expect("a room");
            assert!(Path::new(room).exists(), "{room}");
        }
        let words = line.split([' ', ',']).filter(|word| word.ends_with(".rs"));
        for file in words.filter(|word| !word.contains('/')) {
            files += 1;
            assert!(Path::new(room).join(file).exists(), "{room}{file}");
        }
    }
    assert!(files > 50, "{files}");
}

#[test]
fn the_readme_and_the_manual_have_every_verb() {
    let help = Command::new(env!("CARGO_BIN_EXE_vetch"))
        .arg("--help")
        .output()
        .expect("start vetch");
    let help = String::from_utf8(help.stdout).expect("text");
    let verbs = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let verbs: Vec<&str> = verbs
        .take_while(|line| !line.is_empty())
        .filter_map(|line| line.split_whitespace().next())
        .filter(|verb| *verb != "help")
        .collect();
    assert!(verbs.len() > 10, "{verbs:?}");
    let (readme, manual) = (read("README.md"), read("docs/commands.md"));
    for verb in verbs {
        assert!(readme.contains(&format!("| `vetch {verb}")), "{verb}");
        let headings = manual.lines().filter(|line| line.starts_with("## "));
        let told = headings
            .flat_map(|line| line.split([' ', ',']))
            .any(|word| word == verb);
        assert!(told, "{verb} has no heading in docs/commands.md");
    }
}

/// All functions of the sources and tests, as text.
fn functions(dir: &Path, found: &mut String) {
    for entry in std::fs::read_dir(dir).expect("read a directory") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            functions(&path, found);
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            let text = std::fs::read_to_string(&path).expect("read a file");
            let lines = text.lines().map(str::trim_start);
            for line in lines.filter(|line| line.starts_with("fn ")) {
                found.push_str(line);
                found.push('\n');
            }
        }
    }
}

#[test]
fn the_tests_of_the_conformance_page_exist() {
    let mut known = String::new();
    functions(Path::new("src"), &mut known);
    functions(Path::new("tests"), &mut known);
    let page = read("docs/conformance.md");
    let names = page
        .split('`')
        .skip(1)
        .step_by(2)
        .filter(|text| text.matches('_').count() > 1 && !text.contains(['/', '.']));
    let mut count = 0;
    for name in names {
        count += 1;
        assert!(known.contains(&format!("fn {name}(")), "{name}");
    }
    assert!(count > 100, "{count}");
}
