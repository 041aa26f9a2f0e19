//! Long commands, written out in files of their own.

use std::fmt::Write;
use std::path::Path;

use mongodb::bson::{Bson, Document};

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
    let (inner, parts): (_, Vec<String>) = match value {
        Bson::Document(fields) if line.len() > LINE_MAX => {
            let part = |(key, value)| format!("{key:?}: {}", text(value, depth + 1));
            (["{", "}"], fields.iter().map(part).collect())
        }
        Bson::Array(list) if line.len() > LINE_MAX => {
            (["[", "]"], list.iter().map(|value| text(value, depth + 1)).collect())
        }
        _ => return line,
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
    match value {
        Bson::Document(fields) if fields.is_empty() => "{}".to_owned(),
        Bson::Document(fields) => {
            let part = |(key, value)| format!("{key:?}: {}", in_one_line(value));
            format!("{{ {} }}", fields.iter().map(part).collect::<Vec<_>>().join(", "))
        }
        Bson::Array(list) => {
            format!("[{}]", list.iter().map(in_one_line).collect::<Vec<_>>().join(", "))
        }
        Bson::String(text) => format!("{text:?}"),
        Bson::Int32(number) => number.to_string(),
        Bson::Int64(number) => format!("{{ \"$numberLong\": \"{number}\" }}"),
        Bson::Boolean(value) => value.to_string(),
        Bson::DateTime(date) => {
            format!("{{ \"$date\": {{ \"$numberLong\": \"{}\" }} }}", date.timestamp_millis())
        }
        other => unreachable!("no command has {other}"),
    }
}
