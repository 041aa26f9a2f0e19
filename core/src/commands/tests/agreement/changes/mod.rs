//! Deliberate changes to commands. The comparison has to find each.
//!
//! A table names the type of a command, and has a line for each change to it: the meaning of the changed command, and
//! the [rules](super::edits) that change it, with semicolons between them. Lines that are indented further belong to
//! the one above them.

mod acquires;
mod ends;
mod renewals;

use super::edits::Rule;
use crate::bson::Document;

pub(super) use acquires::{OF_ACQUIRES, OF_ADMISSIONS, OF_FAST_ATTEMPTS};
pub(super) use ends::{OF_ENDS, OF_RELEASES};
pub(super) use renewals::OF_RENEWALS;

const TABLES: [&str; 6] =
    [OF_ACQUIRES, OF_ADMISSIONS, OF_FAST_ATTEMPTS, OF_ENDS, OF_RELEASES, OF_RENEWALS];

const CHANGE: &str = "    ";

/// Names for expressions and values that occur in many rules.
const SHORT: [(&str, &str); 11] = [
    // Of a holder or an entry.
    ("UNEXPIRED", "$gt($$each.expiresAt, $$NOW)"),
    // Of the expiry: it has passed, is a date, is none, or is one of both.
    ("PASSED", "$lte($expiresAt, $$NOW)"),
    ("DATED", "$eq($type($expiresAt), 'date')"),
    ("ABSENT", "$in($type($expiresAt), ['missing', 'null'])"),
    ("SOUND", "$in($type($expiresAt), ['date', 'missing', 'null'])"),
    ("NO_QUEUE", "$in($ifNull($queue, []), [[]])"),
    ("WRITES", "$cond($isNumber($grant.writes), $grant.writes, 0)"),
    ("COUNTED", "$cond($isNumber($$each.writes), $$each.writes, 0)"),
    ("STORED", "$add($$NOW, $grant.ttlMs, $grant.maxClockSkewMs)"),
    ("SHARED", "'mongo-lease/shared'"),
    ("FAR", "1000000000000"),
];

/// A change to one command, before it is sent.
#[derive(Clone, Debug)]
pub(super) struct Change {
    pub(super) command: &'static str,
    /// The name of its control: the command's type, and the meaning of the changed command.
    pub(super) control: String,
    rules: Vec<Rule>,
}

impl Change {
    fn read(command: &'static str, line: &str) -> Change {
        let (meaning, rules) = line.split_once(": ").expect("a meaning and a rule");
        let rules = SHORT.iter().fold(rules.to_owned(), |text, (name, it)| text.replace(name, it));
        let rules = rules.split("; ").map(Rule::read).collect();
        Change { command, control: format!("{command} {meaning}"), rules }
    }

    pub(super) fn made_to(&self, command: Document) -> Document {
        self.rules.iter().fold(command, |command, rule| rule.applied_to(command))
    }
}

pub(super) fn all() -> impl Iterator<Item = Change> {
    TABLES.into_iter().flat_map(of)
}

/// The changes of a table.
pub(super) fn of(table: &'static str) -> Vec<Change> {
    let mut changes: Vec<(&str, String)> = Vec::new();
    let mut command = "";
    for line in table.lines().filter(|line| !line.is_empty()) {
        match line.strip_prefix(CHANGE) {
            None => command = line,
            Some(more) if more.starts_with(' ') => {
                let (_, change) = changes.last_mut().expect("a change to go on with");
                *change = format!("{change} {}", more.trim_start());
            }
            Some(change) => changes.push((command, change.to_owned())),
        }
    }
    changes.into_iter().map(|(command, line)| Change::read(command, &line)).collect()
}
