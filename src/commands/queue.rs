//! The queue in a lease's document, as expressions: who counts, who is next, and how it changes.
//!
//! Whatever stands in `queue` that is no entry of ours, in every field that is read, does not count, and goes with the
//! next change. A queue that is no list is an empty one.

use mongodb::bson::{Bson, Document, doc};

use super::{grant_field, literal, one_more_write, path};
use crate::rules::ids::{CallId, GrantId};
use crate::schema::{self, entry, grant};

/// No entry that we write asks for more: beyond that, sums of times could overflow, and the command would fail.
const MILLIS_MAX: i64 = 1_000_000_000_000;

/// The variable under which one entry is looked at.
const ENTRY: &str = "$$entry";

/// Somebody who waits.
#[derive(Clone, Copy, Debug)]
pub(super) struct QueueWaiter<'a> {
    /// The value that is to be granted.
    pub(super) value: &'a str,
    /// A call of the same process that has given up, and whose place this one takes.
    pub(super) predecessor: Option<&'a str>,
}

impl QueueWaiter<'_> {
    /// That this value is the waiter's own or its predecessor's.
    fn owns(self, value: impl Into<Bson>) -> Document {
        let value = value.into();
        match self.predecessor {
            None => doc! { "$eq": [value, literal(self.value)] },
            Some(predecessor) => {
                doc! { "$in": [value, [literal(self.value), literal(predecessor)]] }
            }
        }
    }
}

fn of_entry(field: &str) -> String {
    format!("{ENTRY}.{field}")
}

/// The queue as a list, whatever stands there.
fn entries() -> Document {
    let queue = path(schema::QUEUE);
    doc! { "$cond": [{ "$isArray": [&queue] }, &queue, []] }
}

/// Every field that is read is of the type that we write.
fn is_entry() -> Document {
    const FIELDS: [(&str, &str); 7] = [
        (entry::VALUE, "string"),
        (entry::ID, "string"),
        (entry::SENT, "long"),
        (entry::BEAT_AT, "date"),
        (entry::EXPIRES_AT, "date"),
        (entry::TTL_MS, "long"),
        (entry::MAX_CLOCK_SKEW_MS, "long"),
    ];
    let found = FIELDS.map(|(field, _)| Bson::from(doc! { "$type": of_entry(field) }));
    let wanted = FIELDS.map(|(_, wanted)| Bson::from(wanted));
    let sum = doc! { "$max": [of_entry(entry::TTL_MS), of_entry(entry::MAX_CLOCK_SKEW_MS)] };
    doc! {
        "$and": [
            { "$eq": [found.to_vec(), wanted.to_vec()] },
            { "$lt": [sum, MILLIS_MAX] },
            { "$lt": [of_entry(entry::BEAT_AT), { "$add": ["$$NOW", MILLIS_MAX] }] },
        ],
    }
}

/// Its waiter has given a sign of life lately, and has not been granted the lease.
fn is_live() -> Document {
    doc! {
        "$and": [
            { "$gt": [of_entry(entry::EXPIRES_AT), "$$NOW"] },
            { "$ne": [of_entry(entry::VALUE), path(schema::VALUE)] },
        ],
    }
}

fn filter(input: impl Into<Bson>, condition: Document) -> Document {
    doc! { "$filter": { "input": input.into(), "as": "entry", "cond": condition } }
}

/// Who counts, in order: live entries, and this waiter's own whether it is live or not, for the waiter lives. The same
/// entries as a release hands on to: what nobody can be promoted from must not stand in anybody's way either.
pub(super) fn live_entries(waiter: QueueWaiter<'_>) -> Document {
    let counts = doc! { "$or": [waiter.owns(of_entry(entry::VALUE)), is_live()] };
    filter(entries(), doc! { "$and": [is_entry(), counts] })
}

/// At which place of a line the waiter stands first; `-1` when it does not.
pub(super) fn index_in(line: &str, waiter: QueueWaiter<'_>) -> Document {
    let values = format!("{line}.{}", entry::VALUE);
    let place_of = |value: &str| doc! { "$indexOfArray": [&values, literal(value)] };
    let own = place_of(waiter.value);
    match waiter.predecessor {
        None => own,
        Some(predecessor) => {
            let there = filter(
                vec![own.into(), Bson::from(place_of(predecessor))],
                doc! {
                    "$gte": [ENTRY, 0],
                },
            );
            doc! { "$ifNull": [{ "$min": there }, -1] }
        }
    }
}

/// The entry at a place of a line; an empty document for `-1`.
pub(super) fn entry_at(line: &str, place: &str) -> Document {
    doc! { "$cond": [{ "$gte": [place, 0] }, { "$arrayElemAt": [line, place] }, {}] }
}

/// Of a line, what is not this waiter's own.
pub(super) fn others(line: &str, waiter: QueueWaiter<'_>) -> Document {
    filter(line, doc! { "$not": waiter.owns(of_entry(entry::VALUE)) })
}

/// A line with this entry for the waiter in it: in its place, or at the end.
pub(super) fn joined(
    line: &str,
    place: &str,
    waiter: QueueWaiter<'_>,
    entry: Document,
) -> Document {
    let each = doc! { "$cond": [waiter.owns(of_entry(entry::VALUE)), "$$me", ENTRY] };
    let in_place = doc! { "$map": { "input": line, "as": "entry", "in": each } };
    let at_the_end = doc! { "$concatArrays": [line, ["$$me"]] };
    let line = doc! { "$cond": [{ "$gte": [place, 0] }, in_place, at_the_end] };
    doc! { "$let": { "vars": { "me": entry }, "in": line } }
}

/// What a sign of life changes in an entry that was `old`. Only ever forwards: `$$NOW` may be older than that of one
/// that overtook, and the echo stays with the sign that it belongs to.
pub(super) fn heartbeat_fields(old: &str, sent: i64, life_ms: i64) -> Document {
    let until = doc! { "$add": ["$$NOW", life_ms] };
    doc! {
        entry::SENT: echo_of(old, sent),
        entry::BEAT_AT: beat_at(old),
        entry::EXPIRES_AT: { "$max": [format!("{old}.{}", entry::EXPIRES_AT), until] },
    }
}

/// The newest sign of life of a waiter whose entry was `old`, if there was one: now, or that.
pub(super) fn beat_at(old: &str) -> Document {
    doc! { "$max": ["$$NOW", format!("{old}.{}", entry::BEAT_AT)] }
}

/// The echo that belongs to [`beat_at`].
pub(super) fn echo_of(old: &str, sent: i64) -> Document {
    let is_older = doc! { "$gt": [format!("{old}.{}", entry::BEAT_AT), "$$NOW"] };
    doc! { "$cond": [is_older, format!("{old}.{}", entry::SENT), sent] }
}

/// Who waits besides the one with this value, and lives.
fn line_without(value: &str) -> Document {
    let others = doc! { "$ne": [of_entry(entry::VALUE), literal(value)] };
    filter(entries(), doc! { "$and": [is_entry(), is_live(), others] })
}

/// A condition: somebody lives who waits for what the one with this value has.
pub(super) fn is_waited_for(value: &str) -> Document {
    doc! { "$gt": [{ "$size": line_without(value) }, 0] }
}

/// The queue after a heartbeat of the waiters with these values.
pub(super) fn heartbeat(values: &[Bson], sent: i64, life_ms: i64) -> Document {
    let literals: Vec<Bson> = values.iter().map(|value| literal(value.clone()).into()).collect();
    let is_ours = doc! { "$in": [of_entry(entry::VALUE), literals] };
    let again = doc! { "$mergeObjects": [ENTRY, heartbeat_fields(ENTRY, sent, life_ms)] };
    let each = doc! { "$cond": [{ "$and": [is_entry(), is_ours] }, again, ENTRY] };
    doc! { "$map": { "input": entries(), "as": "entry", "in": each } }
}

/// The stages that take out the one with this value, and hand on what it has where `holds` says that it has it: to the
/// first who lives, or to nobody: then its value is `ended_value` from now on.
///
/// A promotion counts from the waiter's newest sign of life where the command's `$$NOW` is older: the waiter believes
/// from the echo of that sign. It lasts no longer than an entry lives, so that a waiter that has died costs no more.
pub(super) fn handed_on(value: &str, holds: Document, ended_value: &str) -> Vec<Document> {
    const LINE: &str = "$$line";
    let head = |field: &str| format!("$$head.{field}");
    let life = doc! { "$subtract": [head(entry::EXPIRES_AT), head(entry::BEAT_AT)] };
    let term = doc! { "$max": [0_i64, { "$min": [head(entry::TTL_MS), life] }] };
    let from = doc! { "$max": ["$$NOW", head(entry::BEAT_AT)] };
    let echo = doc! { "$concat": [head(entry::ID), "@", { "$toString": head(entry::SENT) }] };
    let rest = doc! { "$ne": [of_entry(entry::VALUE), head(entry::VALUE)] };
    let promoted = doc! {
        schema::VALUE: head(entry::VALUE),
        schema::GRANT: {
            grant::VALUE: head(entry::VALUE),
            grant::ID: head(entry::ID),
            grant::SENT: head(entry::SENT),
            grant::OWNER: head(entry::OWNER),
            grant::ACQUIRED_AT: "$$NOW",
            grant::TTL_MS: head(entry::TTL_MS),
            grant::MAX_CLOCK_SKEW_MS: head(entry::MAX_CLOCK_SKEW_MS),
            grant::META: head(entry::META),
            grant::WRITES: one_more_write(),
        },
        schema::EXPIRES_AT: { "$add": [from, term, head(entry::MAX_CLOCK_SKEW_MS)] },
        schema::PROMOTED: echo,
        schema::QUEUE: filter(LINE, rest),
    };
    // Nobody's value: a renewal that comes late must not revive it. And never without an expiry: other programs would
    // not find it free, and the server would not remove it.
    let ended = doc! {
        schema::VALUE: ended_value,
        schema::EXPIRES_AT: "$$NOW",
        schema::QUEUE: [],
    };
    let next = doc! {
        "$cond": [
            holds,
            { "$cond": [{ "$eq": [LINE, []] }, ended, promoted] },
            { schema::QUEUE: LINE },
        ],
    };
    let with_head = doc! {
        "$let": {
            "vars": { "head": { "$arrayElemAt": [LINE, 0] } },
            "in": { "$mergeObjects": ["$$ROOT", next] },
        },
    };
    let changed = doc! { "$let": { "vars": { "line": line_without(value) }, "in": with_head } };
    vec![doc! { "$replaceWith": changed }, without_empty_queue()]
}

/// With what the text begins that follows the entry's id where nobody was promoted.
pub(super) const RECHECK: char = '!';

/// [`schema::PROMOTED`] after a change that the first in line has to hear of, for it waits for another moment: its
/// id, and a text that is new. As it was where nobody waits.
pub(super) fn recheck(value: &str) -> Document {
    let head = format!("$$head.{}", entry::ID);
    let now = doc! { "$toString": { "$toLong": "$$NOW" } };
    let text = doc! { "$concat": [head, format!("@{RECHECK}"), now] };
    let somebody = doc! { "$eq": [{ "$type": "$$head" }, "object"] };
    doc! {
        "$let": {
            "vars": { "head": { "$arrayElemAt": [line_without(value), 0] } },
            "in": { "$cond": [somebody, text, path(schema::PROMOTED)] },
        },
    }
}

/// The stage that leaves no empty list behind.
pub(super) fn without_empty_queue() -> Document {
    let queue = path(schema::QUEUE);
    doc! { "$set": { schema::QUEUE: { "$cond": [{ "$eq": [&queue, []] }, "$$REMOVE", &queue] } } }
}

/// How many entries the document shows, for a projection.
pub(super) fn length() -> Document {
    doc! { "$size": entries() }
}

/// How many stand before the one with this value, for a projection; `-1` when it is not there.
pub(super) fn index_of(value: &str) -> Document {
    let queue = path(schema::QUEUE);
    let values = format!("{queue}.{}", entry::VALUE);
    let at = doc! { "$indexOfArray": [values, literal(value)] };
    doc! { "$cond": [{ "$isArray": [queue] }, at, -1] }
}

/// That the holder's grant is one of this call's, as an expression.
pub(super) fn is_grant_of(call_id: &CallId, except: Option<&GrantId>) -> Document {
    let id = path(&grant_field(grant::ID));
    let grants = call_id.grants();
    let from = doc! { "$gte": [&id, literal(grants.start)] };
    let mut all = vec![from, doc! { "$lt": [&id, literal(grants.end)] }];
    all.extend(except.map(|taken| doc! { "$ne": [&id, literal(taken.as_str())] }));
    doc! { "$and": all }
}
