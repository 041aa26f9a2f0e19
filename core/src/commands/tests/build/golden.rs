//! Long commands, written out in files of their own.

use std::fmt::Write;
use std::path::Path;

use crate::bson::{Bson, Document};

/// The longest text that is written in one line, beside its indent.
const LINE_MAX: usize = 100;

/// Compares commands with those in `golden/<name>.json`, one after the other.
///
/// With `MONGO_LEASE_GOLDEN=write` the file is written anew. Then its difference has to be reviewed.
#[track_caller]
pub(super) fn assert_golden(name: &str, commands: &[Document]) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/commands/tests/build/golden");
    let file = folder.join(format!("{name}.json"));
    let all: Vec<Bson> = commands.iter().cloned().map(Bson::from).collect();
    let found = format!("{}\n", text(&all.into(), 0));
    if std::env::var("MONGO_LEASE_GOLDEN").is_ok_and(|value| value == "write") {
        std::fs::write(&file, &found).expect("a folder of golden files");
    }
    let wanted = std::fs::read_to_string(&file).expect("a golden file");
    for (number, (found, wanted)) in found.lines().zip(wanted.lines()).enumerate() {
        assert_eq!(found, wanted, "{name}.json, line {}", number + 1);
    }
    assert_eq!(found, wanted, "{name}.json");
}

/// The value as extended JSON, whose numbers have their types: an Int32 is a plain one.
fn text(value: &Bson, depth: usize) -> String {
    let line = in_one_line(value);
    if line.len() <= LINE_MAX {
        return line;
    }
    let field = |(key, value)| format!("{key:?}: {}", text(value, depth + 1));
    let fields = value.as_document().map(|it| it.iter().map(field).collect());
    let list = || value.as_array().map(|it| it.iter().map(|it| text(it, depth + 1)).collect());
    let inner = if fields.is_some() { ["{", "}"] } else { ["[", "]"] };
    let Some(parts): Option<Vec<String>> = fields.or_else(list) else {
        return line;
    };
    let [open, close] = inner;
    let indent = " ".repeat(depth);
    let mut all = String::from(open);
    for (place, part) in parts.iter().enumerate() {
        let comma = if place + 1 < parts.len() { "," } else { "" };
        write!(all, "\n{indent} {part}{comma}").expect("a text");
    }
    format!("{all}\n{indent}{close}")
}

fn in_one_line(value: &Bson) -> String {
    if let Some(fields) = value.as_document() {
        let part = |(key, value)| format!("{key:?}: {}", in_one_line(value));
        let parts = fields.iter().map(part).collect::<Vec<_>>().join(", ");
        return if parts.is_empty() { "{}".to_owned() } else { format!("{{ {parts} }}") };
    }
    if let Some(list) = value.as_array() {
        return format!("[{}]", list.iter().map(in_one_line).collect::<Vec<_>>().join(", "));
    }
    if let Some(number) = value.as_i64() {
        return format!("{{ \"$numberLong\": \"{number}\" }}");
    }
    if let Some(date) = value.as_datetime() {
        return format!("{{ \"$date\": {} }}", in_one_line(&date.timestamp_millis().into()));
    }
    let text = value.as_str().map(|text| format!("{text:?}"));
    let number = value.as_i32().map(|number| number.to_string());
    let truth = value.as_bool().map(|value| value.to_string());
    text.or(number).or(truth).unwrap_or_else(|| panic!("no command has {value}"))
}
