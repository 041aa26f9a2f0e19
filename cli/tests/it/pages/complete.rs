//! The operators' page explains everything that an operator can meet.

use super::{files, quoted, read, root};

fn source(path: &str) -> String {
    read(&root().join(path))
}

/// The rows of a page's tables.
fn rows(page: &str) -> Vec<&str> {
    page.lines().filter(|line| line.starts_with("| ")).collect()
}

/// The variants of a public enum.
fn variants<'a>(source: &'a str, name: &str) -> Vec<&'a str> {
    let begin = format!("pub enum {name} {{\n");
    let (_, rest) = source.split_once(&begin).expect("the enum");
    let (body, _) = rest.split_once("\n}\n").expect("its end");
    let lines = body.lines().filter_map(|line| line.strip_prefix("    "));
    let names = lines.filter(|line| line.starts_with(char::is_uppercase));
    names.map(|line| line.split(['(', ',', ' ']).next().unwrap_or(line)).collect()
}

#[test]
fn each_error_is_explained() {
    let page = source("docs/operators.md");
    let errors = source("src/error/mod.rs");
    let names = variants(&errors, "Error");
    assert!(names.len() > 12 && names.contains(&"Busy") && names.contains(&"MongoDb"), "{names:?}");
    for name in names {
        let begin = format!("| `{name}` | ");
        assert!(rows(&page).iter().any(|row| row.starts_with(&begin)), "no row for {name}");
    }
}

#[test]
fn each_answer_of_the_layer_is_explained() {
    let page = source("docs/operators.md");
    let refusals = source("tower/src/refusal.rs");
    let strings: Vec<&str> = refusals.split('"').skip(1).step_by(2).collect();
    let codes: Vec<_> = strings.iter().filter(|it| it.starts_with("lease_")).collect();
    assert!(codes.len() > 5, "{codes:?}");
    for code in codes {
        let begin = format!("| `{code}` | ");
        assert!(rows(&page).iter().any(|row| row.starts_with(&begin)), "no row for {code}");
    }
}

#[test]
fn each_exit_code_is_explained_where_operators_are_led() {
    let code = source("cli/src/exit.rs");
    let codes = code.lines().filter_map(|line| line.trim().strip_prefix("Exit::"));
    let codes: Vec<u8> = codes
        .filter_map(|line| line.split_once(" => ")?.1.trim_end_matches(',').parse().ok())
        .collect();
    assert!(codes.len() > 8 && codes.contains(&78), "{codes:?}");
    let text = source("cli/README.md");
    for code in codes.iter().map(u8::to_string).chain(["126, 127".into(), "128 + n".into()]) {
        let begin = format!("| {code} | ");
        assert!(rows(&text).iter().any(|row| row.starts_with(&begin)), "no {code}");
    }
    assert!(source("docs/operators.md").contains("(../cli/README.md#exit-codes)"), "no link to it");
}

#[test]
fn each_metric_event_and_reason_is_explained() {
    let page = source("docs/operators.md");
    let is_quoted =
        |page: &str, name: &str| rows(page).iter().any(|row| quoted(row).any(|it| it == name));
    let telemetry = source("src/telemetry/meters.rs");
    let strings: Vec<&str> = telemetry.split('"').skip(1).step_by(2).collect();
    let metrics: Vec<_> = strings.iter().filter(|it| it.starts_with("mongo_lease_")).collect();
    assert!(metrics.len() > 9, "{metrics:?}");
    for metric in metrics {
        assert!(is_quoted(&page, metric), "{metric} is not explained");
    }
    let is_led_there = source("README.md").contains("(docs/operators.md#what-to-monitor)");
    assert!(is_led_there, "the README does not say where the metrics are explained");
    let events = source("src/telemetry/events.rs");
    let events = variants(&events, "Event");
    assert!(events.contains(&"Polling"), "{events:?}");
    for event in events {
        assert!(is_quoted(&page, event), "{event} is not explained");
    }
    let (_, labels) = telemetry.split_once("const REASONS").expect("the labels");
    let (_, labels) = labels.split_once('=').expect("their list");
    let (labels, _) = labels.split_once(';').expect("their end");
    let labels: Vec<&str> = labels.split('"').skip(1).step_by(2).collect();
    assert!(labels.len() > 4, "{labels:?}");
    for label in labels {
        assert!(
            rows(&page).iter().any(|row| row.starts_with(&format!("| `{label}` | "))),
            "{label}"
        );
    }
}

#[test]
fn each_example_is_told_of_and_tested() {
    let tests: String = files(&root().join("tests/it"), ".rs").iter().map(|it| read(it)).collect();
    let index = source("examples/README.md");
    assert!(source("README.md").contains("(examples/README.md)"), "no link to the index");
    let examples = std::fs::read_dir(root().join("examples")).expect("the examples");
    let names = examples.map(|entry| entry.expect("an entry").file_name());
    let names: Vec<String> = names.map(|name| name.to_string_lossy().into_owned()).collect();
    assert!(names.len() > 5, "{names:?}");
    for name in names.iter().filter(|name| !["README.md", "Cargo.toml"].contains(&name.as_str())) {
        // A package of its own has tests of its own.
        let Some(name) = name.strip_suffix(".rs") else {
            assert!(index.contains(&format!("cargo run -p {name}")), "{name}");
            assert!(root().join("examples").join(name).join("tests").is_dir(), "{name}");
            continue;
        };
        assert!(index.contains(&format!("cargo run --example {name}")), "{name}");
        let is_run = ["assert_prints(", "assert_prints_with(", "example("]
            .iter()
            .any(|call| tests.contains(&format!("{call}\"{name}\"")));
        assert!(is_run, "no test runs {name}");
    }
}
