//! Each link within the repository leads somewhere, and each named item exists.

use std::collections::HashSet;
use std::fmt::Write;
use std::path::Path;

use super::{files, lines, quoted, read, root};

/// The anchor of a heading, as the sites that show these pages make it.
fn anchor(heading: &str) -> String {
    let kept = heading.to_lowercase();
    let kept = kept.chars().filter(|it| it.is_alphanumeric() || matches!(it, ' ' | '-' | '_'));
    kept.map(|it| if it == ' ' { '-' } else { it }).collect()
}

fn anchors(page: &str) -> HashSet<String> {
    let headings = lines(page).filter(|(language, _)| language.is_none());
    let heading = |line: &str| line.starts_with('#').then(|| anchor(line.trim_matches('#').trim()));
    headings.filter_map(|(_, line)| heading(line)).collect()
}

/// The targets of a page's links, without those that leave the repository.
fn targets(page: &str) -> Vec<&str> {
    let text = lines(page).filter(|(language, _)| language.is_none());
    let links = text.flat_map(|(_, line)| line.split("](").skip(1));
    let targets = links.filter_map(|rest| rest.split_once(')').map(|(target, _)| target));
    targets.filter(|target| !target.contains("://")).collect()
}

/// The defect of a link, if it has one.
fn defect(page: &Path, target: &str) -> Option<String> {
    let (path, heading) = target.split_once('#').unwrap_or((target, ""));
    let path = match path {
        "" => page.to_path_buf(),
        path => page.parent().expect("a folder").join(path),
    };
    if !path.exists() {
        return Some(format!("{}: there is no {target}", page.display()));
    }
    if !heading.is_empty() && !anchors(&read(&path)).contains(heading) {
        return Some(format!("{}: no heading for {target}", page.display()));
    }
    None
}

#[test]
fn each_link_leads_somewhere() {
    let (mut found, mut links) = (String::new(), 0);
    for page in files(root(), ".md") {
        for target in targets(&read(&page)) {
            links += 1;
            if let Some(defect) = defect(&page, target) {
                writeln!(found, "{defect}").unwrap();
            }
        }
    }
    assert!(found.is_empty(), "dead links:\n{found}");
    assert!(links > 30, "{links}: the links are not found any more");
}

#[test]
fn a_dead_link_is_found() {
    let page = root().join("README.md");
    assert!(defect(&page, "docs/operators.md#doctor").is_none());
    assert!(defect(&page, "docs/no-such-page.md").is_some());
    assert!(defect(&page, "docs/operators.md#no-such-heading").is_some());
    assert!(defect(&page, "#no-such-heading").is_some());
    let text = "[a](b.md), [`c`](d.md#e)\n```sh\n[f](g)\n```\n[h](https://i)";
    assert_eq!(targets(text), ["b.md", "d.md#e"]);
    assert_eq!(anchor("What the neighbour's clock means"), "what-the-neighbours-clock-means");
}

/// The words after each occurrence of this option: its values.
fn named<'a>(page: &'a str, option: &str) -> Vec<&'a str> {
    let end = |it: char| !(it.is_alphanumeric() || matches!(it, '_' | '-'));
    let rest = page.match_indices(option).map(|(at, _)| &page[at + option.len()..]);
    rest.map(|rest| rest.split(end).next().unwrap_or_default()).collect()
}

#[test]
fn what_cargo_is_to_run_is_there() {
    let manifests = files(root(), "Cargo.toml");
    let packages: String = manifests.iter().map(|manifest| read(manifest)).collect();
    let mut found = 0;
    for page in files(root(), ".md") {
        let text = read(&page);
        let parent = page.parent().expect("a folder");
        for (option, folder) in [("--example ", "examples"), ("--bench ", "benches")] {
            for name in named(&text, &format!("cargo run {option}"))
                .into_iter()
                .chain(named(&text, &format!("cargo bench {option}")))
            {
                let file = format!("{folder}/{name}.rs");
                let is_there = root().join(&file).exists() || parent.join(&file).exists();
                assert!(is_there, "{}: there is no {file}", page.display());
                found += 1;
            }
        }
        for command in ["run", "test", "build", "bench"] {
            for name in named(&text, &format!("cargo {command} -p ")) {
                let is_there = packages.contains(&format!("name = \"{name}\""));
                assert!(is_there, "{}: there is no package {name}", page.display());
                found += 1;
            }
        }
    }
    assert!(found > 10, "{found}: the commands are not found any more");
}

/// The comparison with other libraries names tests, and these exist.
#[test]
fn the_tests_that_the_comparison_names_are_there() {
    let sources: Vec<_> = ["tests/it", "cli/tests/it"]
        .iter()
        .flat_map(|folder| files(&root().join(folder), ".rs"))
        .collect();
    let modules: HashSet<_> = sources.iter().filter_map(|file| file.file_stem()).collect();
    let code: String = sources.iter().map(|file| read(file)).collect();
    let page = read(&root().join("docs/comparison.md"));
    let rows: Vec<_> = page.lines().filter(|line| line.starts_with("| ")).collect();
    assert!(rows.len() > 15, "{rows:?}");
    for row in rows.iter().filter(|row| !row.contains("| --- |") && !row.contains("tests here")) {
        let cell = row.trim_end_matches(" |").rsplit(" | ").next().expect("a cell");
        let names: Vec<_> = quoted(cell).collect();
        assert!(!names.is_empty(), "no test stands behind this: {row}");
        for name in names {
            let is_there = modules.contains(std::ffi::OsStr::new(name))
                || code.contains(&format!("fn {name}("))
                || root().join(name).exists();
            assert!(is_there, "there is no test {name}: {row}");
        }
    }
}
