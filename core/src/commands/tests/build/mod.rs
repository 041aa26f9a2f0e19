//! Every command, word for word, in `snapshots/`. CONTRIBUTING.md says how a change is accepted.

mod acquire;
mod find;
mod release;
mod renew;
mod sizes;
mod watch;

use std::any::type_name;
use std::fs;

use crate::bson::{Bson, DateTime, Document, Timestamp, doc};

use super::{SENT, files};
use crate::commands::Command;

/// The longest text that is written in one line, beside its indent.
const LINE_MAX: usize = 100;

/// Compares a command with `snapshots/<name>.snap`. The name begins with that of the command's type.
fn assert_command<C: Command>(name: &str, command: &C) {
    let kind = type_name::<C>().rsplit("::").next();
    assert_eq!(name.split('-').next(), kind, "the name of a snapshot");
    assert_snapshot(name, command.build("locks", SENT));
}

fn assert_snapshot(name: &str, found: impl Into<Bson>) {
    let mut settings = insta::Settings::clone_current();
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.bind(|| insta::assert_snapshot!(name, text(&found.into(), 0)));
}

/// The value as extended JSON, whose numbers have their types: an Int32 is a plain one.
fn text(value: &Bson, depth: usize) -> String {
    let text_within = |value| text(value, depth + 1);
    let (parts, [open, close], space): (Vec<String>, _, _) =
        if let Some(fields) = value.as_document() {
            let field = |(key, value)| format!("{key:?}: {}", text_within(value));
            (fields.iter().map(field).collect(), ["{", "}"], " ")
        } else if let Some(list) = value.as_array() {
            (list.iter().map(text_within).collect(), ["[", "]"], "")
        } else {
            return scalar(value);
        };
    let line = parts.join(", ");
    let is_long = line.len() + 2 * (1 + space.len()) > LINE_MAX || line.contains('\n');
    match (parts.is_empty(), is_long) {
        (true, _) => format!("{open}{close}"),
        (_, false) => format!("{open}{space}{line}{space}{close}"),
        (_, true) => {
            let indent = format!("\n{}", " ".repeat(depth));
            format!("{open}{indent} {}{indent}{close}", parts.join(&format!(",{indent} ")))
        }
    }
}

fn scalar(value: &Bson) -> String {
    if let Some(number) = value.as_i64() {
        return format!("{{ \"$numberLong\": \"{number}\" }}");
    }
    if let Some(date) = value.as_datetime() {
        return format!("{{ \"$date\": {} }}", scalar(&date.timestamp_millis().into()));
    }
    if let Some(it) = value.as_timestamp() {
        return format!("{{ \"$timestamp\": {{ \"t\": {}, \"i\": {} }} }}", it.time, it.increment);
    }
    let text = value.as_str().map(|text| format!("{text:?}"));
    let number = value.as_i32().map(|number| number.to_string());
    let truth = value.as_bool().map(|value| value.to_string());
    text.or(number).or(truth).unwrap_or_else(|| panic!("no command has {value}"))
}

/// The statements of a command that updates.
fn statements(command: &impl Command) -> Vec<Document> {
    let command = command.build("locks", SENT);
    let statements = command.get_array("updates").unwrap().iter();
    statements.map(|it| it.as_document().unwrap().clone()).collect()
}

#[test]
fn each_command_is_written_out_and_each_snapshot_is_used() {
    let text = |folder| -> String {
        files(folder, "rs").iter().map(|file| fs::read_to_string(file).unwrap()).collect()
    };
    let (sources, tests) = (text(""), text("tests/build"));
    let commands = sources.lines().filter_map(|line| line.strip_prefix("impl Command for "));
    let commands: Vec<&str> = commands.map(|rest| rest.trim_end_matches(" {")).collect();
    assert!(commands.len() > 20, "{commands:?}");
    for command in commands {
        let ends = ["\"", "-"].map(|end| format!("\"{command}{end}"));
        assert!(ends.iter().any(|name| tests.contains(name)), "{command} is not written out");
    }
    for file in files("tests/build/snapshots", "snap") {
        let name = file.file_stem().unwrap().to_str().unwrap();
        assert!(tests.contains(&format!("\"{name}\"")), "{name}.snap is of no test");
    }
}

/// Values of two types have two texts.
#[test]
fn a_text_shows_types_and_the_order_of_fields() {
    let (time, date) = (Timestamp { time: 9, increment: 3 }, DateTime::from_millis(5));
    for (value, wanted) in [
        (Bson::Int32(1), "1"),
        (Bson::Int64(1), r#"{ "$numberLong": "1" }"#),
        (Bson::Boolean(true), "true"),
        ("true\"".into(), r#""true\"""#),
        (date.into(), r#"{ "$date": { "$numberLong": "5" } }"#),
        (time.into(), r#"{ "$timestamp": { "t": 9, "i": 3 } }"#),
        (doc! { "b": [1, {}], "a": [] }.into(), r#"{ "b": [1, {}], "a": [] }"#),
        (doc! { "a": "-".repeat(94) }.into(), &format!("{{\n \"a\": \"{}\"\n}}", "-".repeat(94))),
    ] {
        assert_eq!(text(&value, 0), wanted);
    }
}
