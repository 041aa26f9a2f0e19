//! The alert rules and the dashboard: they name metrics that exist, they parse, and Prometheus's own tool accepts them.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::path::Path;

use serde_json::Value;
use yaml_rust2::{Yaml, YamlLoader};

use super::promtool;
use mongo_lease_pages::packages::{output_of, root};

const RULES: &str = "docs/observe/alerts.yml";
const TESTS: &str = "tests/pages/alerts/tests.yml";
const DASHBOARD: &str = "docs/observe/dashboard.json";

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn yaml(path: &str) -> Yaml {
    let mut documents = YamlLoader::load_from_str(&read(path)).expect("YAML");
    assert_eq!(documents.len(), 1, "{path}");
    documents.remove(0)
}

fn dashboard() -> Value {
    serde_json::from_str(&read(DASHBOARD)).expect("JSON")
}

/// The metrics of the library, from its own table.
fn metrics() -> BTreeSet<String> {
    let table = read("src/telemetry/meters.rs");
    let strings = table.split('"').skip(1).step_by(2);
    strings.filter(|it| it.starts_with("mongo_lease_")).map(str::to_owned).collect()
}

/// The names of metrics in a text, without what Prometheus adds to those of a histogram.
fn named(text: &str) -> BTreeSet<String> {
    let words = text.split(|it: char| !it.is_ascii_alphanumeric() && it != '_');
    let names = words.filter(|word| word.starts_with("mongo_lease_"));
    let base = |name: &str| match name.strip_prefix("mongo_lease_wait_seconds_") {
        Some("bucket" | "sum" | "count") => "mongo_lease_wait_seconds".to_owned(),
        Some(_) | None => name.to_owned(),
    };
    names.map(base).collect()
}

fn rules(document: &Yaml) -> Vec<&Yaml> {
    let groups = document["groups"].as_vec().expect("groups");
    groups.iter().flat_map(|group| group["rules"].as_vec().expect("rules")).collect()
}

/// The panels' queries.
fn queries(dashboard: &Value) -> Vec<&str> {
    let panels = dashboard["panels"].as_array().expect("panels").iter();
    let targets = panels.flat_map(|panel| panel["targets"].as_array().expect("targets"));
    targets.map(|target| target["expr"].as_str().expect("a query")).collect()
}

#[test]
fn rules_and_dashboard_name_metrics_that_exist() {
    let metrics = metrics();
    assert!(metrics.len() > 10, "{metrics:?}");
    for path in [RULES, TESTS] {
        let unknown: Vec<String> = named(&read(path)).difference(&metrics).cloned().collect();
        assert!(unknown.is_empty(), "{path}: {unknown:?}");
    }
    assert_eq!(named(&queries(&dashboard()).join(" ")), metrics, "the dashboard shows them all");
}

#[test]
fn each_alert_is_explained_and_fires_in_a_test() {
    let (document, tests) = (yaml(RULES), yaml(TESTS));
    let page = read("docs/observe.md");
    let rules = rules(&document);
    assert!(rules.len() > 3, "{} rules", rules.len());
    let tested = tests["tests"].as_vec().expect("tests").iter();
    let checks: Vec<&Yaml> =
        tested.flat_map(|test| test["alert_rule_test"].as_vec().expect("checks")).collect();
    for rule in rules {
        let name = rule["alert"].as_str().expect("a name");
        assert!(rule["expr"].as_str().is_some(), "{name} has no expression");
        for text in ["summary", "description"] {
            assert!(rule["annotations"][text].as_str().is_some(), "{name} has no {text}");
        }
        let severity = rule["labels"]["severity"].as_str().expect("a severity");
        let row = format!("| `{name}` | {severity} | ");
        assert!(page.contains(&row), "docs/observe.md has no row {row}");
        for fires in [true, false] {
            let of_it = checks.iter().filter(|check| check["alertname"].as_str() == Some(name));
            let found = of_it.filter(|check| check["exp_alerts"].is_badvalue() != fires).count();
            assert!(found > 0, "{name}: no test where that it fires is {fires}");
        }
    }
}

/// A pattern with a reason that does not exist leaves nothing out, or leaves out what a rename has made an alarm.
#[test]
fn the_alert_leaves_out_reasons_that_exist() {
    let (page, meters) = (read("docs/operators.md"), read("src/telemetry/meters.rs"));
    let rules = read(RULES);
    let (_, left_out) = rules.split_once("mongo_lease_lost_total{reason!~\"").expect("the pattern");
    let (left_out, _) = left_out.split_once('"').expect("its end");
    let left_out: Vec<&str> = left_out.split('|').collect();
    assert_eq!(left_out.len(), 2, "{left_out:?}");
    for reason in left_out {
        assert!(page.contains(&format!("\n| `{reason}` | ")), "{reason}: not in the table");
        assert!(meters.contains(&format!("\"{reason}\",")), "{reason}: no label");
    }
}

#[test]
fn the_dashboard_can_be_imported() {
    let dashboard = dashboard();
    assert!(dashboard["schemaVersion"].as_u64().is_some_and(|version| version >= 39));
    assert_eq!(dashboard["id"], Value::Null, "an id is the importing Grafana's to give");
    let variables = dashboard["templating"]["list"].as_array().expect("variables");
    let source = variables.iter().find(|it| it["type"] == "datasource").expect("the data source");
    assert_eq!((&source["name"], &source["query"]), (&"datasource".into(), &"prometheus".into()));
    let panels = dashboard["panels"].as_array().expect("panels");
    let ids: BTreeSet<u64> = panels.iter().filter_map(|panel| panel["id"].as_u64()).collect();
    assert_eq!(ids.len(), panels.len(), "each panel has an id of its own");
    let targets = panels.iter().flat_map(|panel| panel["targets"].as_array().expect("targets"));
    let queries = variables.iter().filter(|it| it["type"] == "query");
    for item in panels.iter().chain(targets).chain(queries) {
        assert_eq!(item["datasource"]["uid"], "${datasource}", "{item}");
    }
    let cells = panels.iter().flat_map(|panel| {
        let at = |name: &str| panel["gridPos"][name].as_u64().expect("a position");
        let (x, y, w, h) = (at("x"), at("y"), at("w"), at("h"));
        (x..x + w).flat_map(move |x| (y..y + h).map(move |y| (x, y)))
    });
    let cells: Vec<_> = cells.collect();
    assert_eq!(cells.iter().collect::<BTreeSet<_>>().len(), cells.len(), "panels overlap");
    assert!(cells.iter().all(|(x, _)| *x < 24), "a panel is outside of the 24 columns");
}

/// Runs promtool, or says clearly that it was not run. Written past the test's captured output.
fn promtool(arguments: &[&str]) {
    let binary = match promtool::find() {
        Ok(binary) => binary,
        Err(reason) => {
            let what = arguments.join(" ");
            writeln!(std::io::stderr(), "NOT RUN: promtool {what}: {reason}").expect("stderr");
            return;
        }
    };
    let output = output_of(binary, arguments, &root()).expect("promtool");
    assert!(output.status.success(), "{arguments:?}:\n{}", promtool::text(&output));
    assert!(promtool::text(&output).contains("SUCCESS"), "{}", promtool::text(&output));
}

#[test]
fn promtool_accepts_the_alert_rules() {
    promtool(&["check", "rules", RULES]);
}

#[test]
fn promtool_finds_that_each_alert_fires_when_it_should() {
    promtool(&["test", "rules", TESTS]);
}

#[test]
fn promtool_parses_each_query_of_the_dashboard() {
    let dashboard = dashboard();
    let mut rules = "groups:\n  - name: dashboard\n    rules:\n".to_owned();
    for (number, query) in queries(&dashboard).into_iter().enumerate() {
        let query = query.replace("$__rate_interval", "5m").replace("$job", ".*");
        let query = query.replace("$instance", ".*").replace('\'', "''");
        assert!(!query.contains('$'), "an unknown variable: {query}");
        rules += &format!("      - record: query:{number}\n        expr: '{query}'\n");
    }
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("dashboard.yml");
    fs::write(&file, rules).expect("the rules");
    promtool(&["check", "rules", file.to_str().expect("a readable path")]);
}
