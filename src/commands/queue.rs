//! Expressions on the queue in a lease document: which entries count, who is next, how it changes.
//!
//! An element of `queue` is ignored unless every field that is read has our type; the next change removes it. A queue
//! that is not an array counts as empty.

use mongo_lease_core::format::{self, entry, grant};
use mongo_lease_core::rules::ids::{CallId, GrantId};
use mongodb::bson::{Bson, Document, doc};

use super::{grant_field, literal, one_more_write, path};

/// The times of our own entries and holders stay below this many milliseconds. With more, sums of times could overflow,
/// and the command would fail.
pub(super) const MILLIS_MAX: i64 = 1_000_000_000_000;

/// The variable that stands for one entry.
const ENTRY: &str = "$$entry";

/// A waiter, identified by its value.
#[derive(Clone, Copy, Debug)]
pub(super) struct QueueWaiter<'a> {
    /// The value that is to be granted.
    pub(super) value: &'a str,
    /// The value of a call of the same process that gave up, and whose entry this waiter inherits.
    pub(super) predecessor: Option<&'a str>,
}

impl QueueWaiter<'_> {
    /// An expression: this value is the waiter's own or its predecessor's.
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

/// The queue as an array, whatever the field holds.
pub(super) fn entries() -> Document {
    let queue = path(format::QUEUE);
    doc! { "$cond": [{ "$isArray": [&queue] }, &queue, []] }
}

/// A condition: every field that is read has our type.
pub(super) fn is_entry() -> Document {
    const FIELDS: [(&str, &str); 7] = [
        (entry::VALUE, "string"),
        (entry::ID, "string"),
        (entry::SENT_MICROS, "long"),
        (entry::HEARTBEAT_AT, "date"),
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
            { "$lt": [of_entry(entry::HEARTBEAT_AT), { "$add": ["$$NOW", MILLIS_MAX] }] },
        ],
    }
}

/// A condition: the entry has not expired, and its waiter has not been granted the lease.
pub(super) fn is_live() -> Document {
    doc! {
        "$and": [
            { "$gt": [of_entry(entry::EXPIRES_AT), "$$NOW"] },
            { "$ne": [of_entry(entry::VALUE), path(format::VALUE)] },
        ],
    }
}

pub(super) fn filter(input: impl Into<Bson>, condition: Document) -> Document {
    doc! { "$filter": { "input": input.into(), "as": "entry", "cond": condition } }
}

/// The entries that count, in order: live ones, and this waiter's own even if expired, because the waiter is alive. A
/// release hands off to the same entries: an entry that cannot be promoted must not block others.
pub(super) fn live_entries(waiter: QueueWaiter<'_>) -> Document {
    let counts = doc! { "$or": [waiter.owns(of_entry(entry::VALUE)), is_live()] };
    filter(entries(), doc! { "$and": [is_entry(), counts] })
}

/// The index of the waiter's first entry in a list; `-1` when there is none.
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

/// The entry at an index of a list; an empty document for `-1`.
pub(super) fn entry_at(line: &str, place: &str) -> Document {
    doc! { "$cond": [{ "$gte": [place, 0] }, { "$arrayElemAt": [line, place] }, {}] }
}

/// The entries of a list that are not this waiter's own.
pub(super) fn others(line: &str, waiter: QueueWaiter<'_>) -> Document {
    filter(line, doc! { "$not": waiter.owns(of_entry(entry::VALUE)) })
}

/// A list with this entry for the waiter: in its old place, or at the end.
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

/// The fields that a heartbeat changes in an entry that was `old`. Times only move forwards: `$$NOW` may be older than
/// that of a heartbeat that overtook. The echo stays with the heartbeat that it belongs to.
pub(super) fn heartbeat_fields(old: &str, sent: i64, life_ms: i64) -> Document {
    let until = doc! { "$add": ["$$NOW", life_ms] };
    doc! {
        entry::SENT_MICROS: echo_of(old, sent),
        entry::HEARTBEAT_AT: heartbeat_at(old),
        entry::EXPIRES_AT: { "$max": [format!("{old}.{}", entry::EXPIRES_AT), until] },
    }
}

/// The newest heartbeat of a waiter whose entry was `old`: now, or a later one in `old`.
pub(super) fn heartbeat_at(old: &str) -> Document {
    doc! { "$max": ["$$NOW", format!("{old}.{}", entry::HEARTBEAT_AT)] }
}

/// The echo that belongs to [`heartbeat_at`].
pub(super) fn echo_of(old: &str, sent: i64) -> Document {
    let is_older = doc! { "$gt": [format!("{old}.{}", entry::HEARTBEAT_AT), "$$NOW"] };
    doc! { "$cond": [is_older, format!("{old}.{}", entry::SENT_MICROS), sent] }
}

/// The live entries other than the one with this value.
fn line_without(value: &str) -> Document {
    let others = doc! { "$ne": [of_entry(entry::VALUE), literal(value)] };
    filter(entries(), doc! { "$and": [is_entry(), is_live(), others] })
}

/// A condition: a live waiter waits for the lease of the holder with this value.
pub(super) fn is_waited_for(value: &str) -> Document {
    doc! { "$gt": [{ "$size": line_without(value) }, 0] }
}

/// A filter: the queue is a list, and has an element with this value or with one that fits this condition.
pub(super) fn has_element_of(value: impl Into<Bson>) -> Document {
    let waits = format!("{}.{}", format::QUEUE, entry::VALUE);
    // Only a list: a path also leads into a document.
    doc! { format::QUEUE: { "$type": "array" }, waits: value.into() }
}

/// The queue after a heartbeat of the waiters with these values.
pub(super) fn heartbeat(values: &[Bson], sent: i64, life_ms: i64) -> Document {
    let literals: Vec<Bson> = values.iter().map(|value| literal(value.clone()).into()).collect();
    let is_ours = doc! { "$in": [of_entry(entry::VALUE), literals] };
    let again = doc! { "$mergeObjects": [ENTRY, heartbeat_fields(ENTRY, sent, life_ms)] };
    let each = doc! { "$cond": [{ "$and": [is_entry(), is_ours] }, again, ENTRY] };
    doc! { "$map": { "input": entries(), "as": "entry", "in": each } }
}

/// The documents that a hand-off finds and leaves as they are, because only the general form of a release ends the
/// lease there: a promotion by a hand-off would make an exclusive holder of a waiter for a share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Left {
    /// Those in whose queue somebody waits for a share.
    WithSharesInQueue,
    /// Those, and those in shared use.
    WithSharesAnywhere,
}

impl Left {
    fn condition(self) -> Document {
        let limits = format!("{}.{}", path(format::QUEUE), entry::LIMIT);
        // A corrupt entry with a limit counts too.
        let has_limits = doc! { "$ne": [{ "$ifNull": [limits, []] }, []] };
        match self {
            Left::WithSharesInQueue => has_limits,
            Left::WithSharesAnywhere => {
                let is_shared = doc! { "$eq": [path(format::VALUE), format::SHARED_VALUE] };
                doc! { "$or": [has_limits, is_shared] }
            }
        }
    }

    /// The stage that removes an empty queue, but not from these documents.
    fn without_empty_queue(self) -> Document {
        let queue = path(format::QUEUE);
        match self {
            Left::WithSharesInQueue => without_empty_queue(),
            Left::WithSharesAnywhere => {
                let is_held = doc! { "$ne": [path(format::VALUE), format::SHARED_VALUE] };
                let goes = doc! { "$and": [is_held, { "$eq": [&queue, []] }] };
                doc! { "$set": { format::QUEUE: { "$cond": [goes, "$$REMOVE", &queue] } } }
            }
        }
    }
}

/// The stages that remove the entry with this value and, where `holds` is true, hand its lease off.
///
/// A document that is `left` stays as it is: the reply counts it as matched, and not as modified.
///
/// The lease goes to the first live waiter. If there is none, the lease ends, and its value becomes `ended_value`.
///
/// A promotion counts from the waiter's newest heartbeat where the command's `$$NOW` is older, because the waiter
/// relies on the lease from the echo of that heartbeat on. It lasts no longer than an entry, so that a waiter that has
/// died costs no more than that.
pub(super) fn handed_on(
    value: &str,
    holds: Document,
    left: Left,
    ended_value: &str,
) -> Vec<Document> {
    const LINE: &str = "$$line";
    let head = |field: &str| format!("$$head.{field}");
    let life = doc! { "$subtract": [head(entry::EXPIRES_AT), head(entry::HEARTBEAT_AT)] };
    let term = doc! { "$max": [0_i64, { "$min": [head(entry::TTL_MS), life] }] };
    let from = doc! { "$max": ["$$NOW", head(entry::HEARTBEAT_AT)] };
    let echo =
        doc! { "$concat": [head(entry::ID), "@", { "$toString": head(entry::SENT_MICROS) }] };
    let rest = doc! { "$ne": [of_entry(entry::VALUE), head(entry::VALUE)] };
    let promoted = doc! {
        format::VALUE: head(entry::VALUE),
        format::GRANT: {
            grant::VALUE: head(entry::VALUE),
            grant::ID: head(entry::ID),
            grant::SENT_MICROS: head(entry::SENT_MICROS),
            grant::OWNER: head(entry::OWNER),
            grant::ACQUIRED_AT: "$$NOW",
            grant::TTL_MS: head(entry::TTL_MS),
            grant::MAX_CLOCK_SKEW_MS: head(entry::MAX_CLOCK_SKEW_MS),
            grant::METADATA: head(entry::METADATA),
            grant::WRITES: one_more_write(),
        },
        format::EXPIRES_AT: { "$add": [from, term, head(entry::MAX_CLOCK_SKEW_MS)] },
        format::PROMOTED: echo,
        format::QUEUE: filter(LINE, rest),
    };
    // A value that no holder has: a late renewal must not revive the lease. The expiry is set: without one, other
    // programs would not find the lease free, and the server would not remove the document.
    let ended = doc! {
        format::VALUE: ended_value,
        format::EXPIRES_AT: "$$NOW",
        format::QUEUE: [],
    };
    let next = doc! {
        "$cond": [
            holds,
            { "$cond": [{ "$eq": [LINE, []] }, ended, promoted] },
            { format::QUEUE: LINE },
        ],
    };
    let with_head = doc! {
        "$let": {
            "vars": { "head": { "$arrayElemAt": [LINE, 0] } },
            "in": { "$mergeObjects": ["$$ROOT", next] },
        },
    };
    let changed = doc! { "$let": { "vars": { "line": line_without(value) }, "in": with_head } };
    let changed = doc! { "$cond": [left.condition(), "$$ROOT", changed] };
    vec![doc! { "$replaceWith": changed }, left.without_empty_queue()]
}

/// The character after the entry's id and `@` in [`format::PROMOTED`] if no waiter was promoted.
pub(super) const RECHECK: char = '!';

/// The value of [`format::PROMOTED`] after a change of the time for which the first waiter waits.
///
/// It is the waiter's id with a new text, so that the waiter is notified. Unchanged if nobody waits.
pub(super) fn recheck(value: &str) -> Document {
    let head = format!("$$head.{}", entry::ID);
    let text = doc! { "$concat": [head, format!("@{RECHECK}"), millis("$$NOW")] };
    let somebody = doc! { "$eq": [{ "$type": "$$head" }, "object"] };
    doc! {
        "$let": {
            "vars": { "head": { "$arrayElemAt": [line_without(value), 0] } },
            "in": { "$cond": [somebody, text, path(format::PROMOTED)] },
        },
    }
}

/// The text of a date: its milliseconds.
pub(super) fn millis(date: impl Into<Bson>) -> Document {
    doc! { "$toString": { "$toLong": date.into() } }
}

/// The stage that removes an empty queue.
pub(super) fn without_empty_queue() -> Document {
    let queue = path(format::QUEUE);
    doc! { "$set": { format::QUEUE: { "$cond": [{ "$eq": [&queue, []] }, "$$REMOVE", &queue] } } }
}

/// The number of entries in the document, for a projection.
pub(super) fn length() -> Document {
    doc! { "$size": entries() }
}

/// The number of entries ahead of the one with this value, for a projection; `-1` when it is not there.
pub(super) fn index_of(value: &str) -> Document {
    let queue = path(format::QUEUE);
    let values = format!("{queue}.{}", entry::VALUE);
    let at = doc! { "$indexOfArray": [values, literal(value)] };
    doc! { "$cond": [{ "$isArray": [queue] }, at, -1] }
}

/// An expression: the holder's grant is one of this call's, other than `except`.
pub(super) fn is_grant_of(call_id: &CallId, except: Option<&GrantId>) -> Document {
    let id = path(&grant_field(grant::ID));
    let grants = call_id.grants();
    let from = doc! { "$gte": [&id, literal(grants.start)] };
    let mut all = vec![from, doc! { "$lt": [&id, literal(grants.end)] }];
    all.extend(except.map(|taken| doc! { "$ne": [&id, literal(taken.as_str())] }));
    doc! { "$and": all }
}
