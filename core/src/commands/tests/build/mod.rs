//! How commands are built: six of them word for word, in `snapshots/`. CONTRIBUTING.md says how a change is accepted.

mod release;
mod renew;
mod sizes;

use std::any::type_name;

use crate::bson::{Bson, DateTime, Document, Timestamp, doc};
use crate::spec::EndScope;

use super::{JOINS, SENT, beat, entries, renewed, request, slow, take, target, values};
use crate::commands::Command;
use crate::commands::acquire::{AcquireRequest, SlowAcquire};
use crate::commands::heartbeat::Heartbeat;
use crate::commands::release::{Delete, End, GrantMatch};
use crate::commands::renew::RenewMany;

/// The longest text that is written in one line, beside its indent.
const LINE_MAX: usize = 100;

/// Compares a command with `snapshots/<name>.snap`. The name is that of the command's type.
fn assert_command<C: Command>(name: &str, command: &C) {
    assert_eq!(Some(name), type_name::<C>().rsplit("::").next(), "the name of a snapshot");
    let mut settings = insta::Settings::clone_current();
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    let command = Bson::from(command.build("locks", SENT));
    settings.bind(|| insta::assert_snapshot!(name, text(&command, 0)));
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

/// One variant of the commands that most calls send. [`agreement`](super::agreement) shows the meaning of all.
#[test]
fn the_commands_of_most_calls_are_written_out() {
    assert_command("FastAcquire", &take());
    let joining = slow(AcquireRequest { joins: Some(JOINS), ..request() });
    let predecessor = Some("$before".to_owned());
    assert_command("SlowAcquire", &SlowAcquire { predecessor, ..joining });
    assert_command("RenewMany", &RenewMany { grants: vec![renewed()] });
    let entries = entries(&[("$both", "$a"), ("$name", "$$NOW"), ("$both", "$b")]);
    assert_command("Heartbeat", &Heartbeat { entries, ..beat() });
    let target = target(GrantMatch::Grant("$call.3".into()));
    assert_command("Delete", &Delete { targets: vec![target.clone()] });
    let scope = EndScope::Anywhere;
    assert_command("End", &End { targets: vec![target], scope, values: values() });
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
