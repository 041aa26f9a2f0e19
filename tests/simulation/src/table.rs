//! The last events of a lease before a violation, as a table for people.

// Each reader wants a few of the many kinds of records.
#![allow(clippy::wildcard_enum_match_arm)]

use std::fmt::Write;

use mongo_lease_checker::changes::Change;
use mongo_lease_checker::history::{Record, What};
use mongo_lease_checker::{MILLI, Nanos, SECOND};

use crate::promises::Broken;
use crate::round::History;

/// How many lines the table has at most.
const LINES_MAX: usize = 60;

/// The events up to a little after the violation: of its lease and its calls, and the faults.
pub fn table(history: &History, violation: &Broken) -> String {
    let until = violation.at + SECOND / 2;
    let evidence = &history.evidence;
    let calls: Vec<&str> =
        evidence.records.iter().filter_map(|it| invoked(it, violation)).collect();
    let is_of = |record: &&Record| {
        record.at <= until && call_of(&record.what).is_none_or(|call| calls.contains(&call))
    };
    let events = evidence.records.iter().filter(is_of);
    let mut lines: Vec<(Nanos, String)> = events.map(|it| (it.at, event(it))).collect();
    let changes = evidence.changes.iter().filter(|it| Some(&it.name) == violation.lease.as_ref());
    let changes = changes.map(|it| (evidence.moment(it.wall), document(it)));
    lines.extend(changes.filter(|(at, _)| *at <= until));
    lines.sort_by_key(|(at, _)| *at);
    let mut text = String::new();
    for (at, line) in &lines[lines.len().saturating_sub(LINES_MAX)..] {
        let at = at.saturating_sub(evidence.began);
        let _ = writeln!(text, "{:>5}.{:03}  {line}", at / SECOND, at % SECOND / MILLI);
    }
    text
}

/// The call that the record begins, if it is of the violation's lease.
fn invoked<'a>(record: &'a Record, violation: &Broken) -> Option<&'a str> {
    match &record.what {
        What::Invoked { call, name, .. } => {
            let is_of = violation.lease.as_ref() == Some(name) || violation.calls.contains(call);
            is_of.then_some(call)
        }
        _ => None,
    }
}

/// The call of which a record tells; `None` if it tells of a process or of a fault.
fn call_of(what: &What) -> Option<&str> {
    match what {
        What::Invoked { call, .. }
        | What::Granted { call, .. }
        | What::Ended { call, .. }
        | What::Renewed { call, .. }
        | What::Lost { call, .. }
        | What::Releasing { call, .. }
        | What::Released { call, .. }
        | What::Wrote { call, .. }
        | What::Judged { call, .. } => Some(call),
        _ => None,
    }
}

fn event(record: &Record) -> String {
    let what = serde_json::to_value(&record.what).unwrap_or_default();
    let mut text = format!("{:<9}", record.by);
    let fields = what.as_object().into_iter().flatten();
    for (field, value) in fields {
        let _ = match field.as_str() {
            "event" => write!(text, " {}", value.as_str().unwrap_or_default()),
            _ => write!(text, " {field}={value}"),
        };
    }
    text
}

fn document(change: &Change) -> String {
    let Some(after) = &change.after else {
        return format!("server    {} is deleted", change.name);
    };
    let holders = after.grants.iter().map(|it| format!("{}<{}", it.call, it.expires_at));
    let queue = after.queue.iter().map(|it| format!("{}<{}", it.call, it.expires_at));
    let (holders, queue) = (holders.collect::<Vec<_>>(), queue.collect::<Vec<_>>());
    format!(
        "server    {} at {}: held by {holders:?}, until {}, queue {queue:?}",
        change.name, change.wall, after.expires_at
    )
}
