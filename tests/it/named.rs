//! Every test that a page names exists.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// The folders of tests, and the prefix of their names: none for the tests here.
const PLACES: [(&str, &str); 21] = [
    ("tests/it", ""),
    ("tests/alone", "alone"),
    ("src", "lib"),
    ("core/src", "core"),
    ("tests/core/tests/it", "core"),
    ("memory/src", "memory"),
    ("cli/tests/it", "cli"),
    ("cli/src", "cli"),
    ("migrations/tests/it", "migrations"),
    ("migrations/src", "migrations"),
    ("tests/testbed/tests/it", "testbed"),
    ("tests/processes/tests/it", "processes"),
    ("tests/security/tests/it", "security"),
    ("tests/model/tests", "model"),
    ("tests/torture/src", "torture"),
    ("tests/checker/src", "checker"),
    ("tests/frameworks/tests/it", "frameworks"),
    ("tests/pages/tests/it", "pages"),
    ("tests/pages/tests/built", "pages"),
    ("examples/axum_service/tests/it", "axum_service"),
    ("examples/observability/tests/it", "observability"),
];

#[test]
fn every_test_that_is_named_exists() {
    let tests = all_tests();
    assert!(tests.len() > 500, "{} tests were found", tests.len());
    let mut unknown = Vec::new();
    for (page, rows_min) in
        [("tests/it/README.md", 40), ("tests/field/README.md", 37), ("docs/guarantees.md", 13)]
    {
        let text = read(page);
        let rows = text.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| ---"));
        let is_head = |row: &str| row.contains("| shown by |") || row.contains("| tests |");
        let rows: Vec<&str> = rows.filter(|row| !is_head(row)).collect();
        assert!(rows.len() >= rows_min, "{page}: {} rows were found", rows.len());
        for row in rows {
            let names = names_in(row);
            if names.is_empty() {
                unknown.push(format!("{page}: a row without a test: {row}"));
            }
            let missing = names.iter().filter(|name| !tests.contains(**name));
            unknown.extend(missing.map(|name| format!("{page}: {name}")));
        }
    }
    let bugs = read("tests/it/main.rs");
    // Found by the function's name alone.
    let functions: BTreeSet<&str> = tests.iter().filter_map(|it| it.rsplit("::").next()).collect();
    for row in bugs.lines().filter(|line| line.starts_with("//! | ") && line.contains('`')) {
        let name = names_in(row)[0];
        if !functions.contains(name) {
            unknown.push(format!("tests/it/main.rs: {name}"));
        }
    }
    assert!(unknown.is_empty(), "no such tests:\n{}", unknown.join("\n"));
}

#[test]
fn the_page_names_the_modules_that_run_on_both_backends() {
    let page = read("tests/it/README.md");
    let begin = "These modules have tests on both: ";
    let list = page.split_once(begin).and_then(|(_, rest)| rest.split_once('.')).unwrap().0;
    let named: BTreeSet<&str> = list.split('`').skip(1).step_by(2).collect();
    let folder = root().join("tests/it");
    let files = super::tidy::files(folder.to_str().unwrap());
    let on_both = files.iter().filter(|(_, text)| text.contains("\n    check(async |"));
    let modules: BTreeSet<String> = on_both
        .map(|(path, _)| module_of(path.strip_prefix(&folder).unwrap()))
        .map(|module| module.split("::").next().unwrap().to_owned())
        .collect();
    assert_eq!(named, modules.iter().map(String::as_str).collect());
}

/// The names in the last cell of a row, which has the tests.
fn names_in(row: &str) -> Vec<&str> {
    let cell = row.trim_end_matches(" |").rsplit(" | ").next().unwrap();
    cell.split('`').skip(1).step_by(2).collect()
}

/// The full names of all tests.
fn all_tests() -> BTreeSet<String> {
    let mut tests = BTreeSet::new();
    for (folder, package) in PLACES {
        let folder = root().join(folder);
        for file in super::tidy::files(folder.to_str().unwrap()) {
            let module = module_of(file.0.strip_prefix(&folder).unwrap());
            for function in tests_in(&file.1) {
                let path = [package, &module, &function].into_iter().filter(|it| !it.is_empty());
                tests.insert(path.collect::<Vec<_>>().join("::"));
            }
        }
    }
    tests
}

/// The module path of a file: `line/dead.rs` is `line::dead`, and a `main.rs` or `mod.rs` its folder.
fn module_of(path: &Path) -> String {
    let path = path.with_extension("");
    let parts = path.iter().map(|part| part.to_str().unwrap());
    let named = parts.filter(|part| !["main", "mod", "lib", "model"].contains(part));
    named.collect::<Vec<_>>().join("::")
}

/// The functions under `#[test]` and `#[tokio::test]`.
fn tests_in(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut is_test = false;
    for line in text.lines().map(str::trim) {
        if line.starts_with("#[test") || line.starts_with("#[tokio::test") {
            is_test = true;
        } else if let Some((_, rest)) = line.split_once("fn ").filter(|_| is_test) {
            found.push(rest.split(['(', '<']).next().unwrap().to_owned());
            is_test = false;
        }
    }
    found
}

fn read(page: &str) -> String {
    fs::read_to_string(root().join(page)).unwrap()
}

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}
