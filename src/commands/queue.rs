//! The queue in a lease's document, as expressions: who counts, who is next, and how it changes.
//!
//! Whatever stands in `queue` that is no entry of ours, in every field that is read, does not count, and goes with the
//! next change. A queue that is no list is an empty one.

use mongodb::bson::{Bson, Document, doc};

use super::{grant_field, literal, one_more_write, path};
use crate::rules::time::{Instant, millis_up};
use crate::schema::{self, entry, grant};

/// No entry that we write asks for more: beyond that, sums of times could overflow, and the command would fail.
const MILLIS_MAX: i64 = 1_000_000_000_000;

/// The variable under which one entry is looked at.
const ENTRY: &str = "$$entry";

/// Somebody who waits.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waiter<'a> {
    /// The value that is to be granted.
    pub(super) value: &'a str,
    /// A call of the same process that has given up, and whose place this one takes.
    pub(super) predecessor: Option<&'a str>,
}

impl Waiter<'_> {
    /// Every value whose place is this waiter's.
    pub(super) fn values(self) -> Bson {
        let values = [Some(self.value), self.predecessor];
        let values: Vec<Bson> =
            values.into_iter().flatten().map(|value| literal(value).into()).collect();
        values.into()
    }

    fn owns(self, value: impl Into<Bson>) -> Document {
        doc! { "$in": [value.into(), self.values()] }
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
        (entry::ALLOWANCE_MS, "long"),
    ];
    let found = FIELDS.map(|(field, _)| Bson::from(doc! { "$type": of_entry(field) }));
    let wanted = FIELDS.map(|(_, wanted)| Bson::from(wanted));
    let sum = doc! { "$max": [of_entry(entry::TTL_MS), of_entry(entry::ALLOWANCE_MS)] };
    doc! {
        "$and": [
            { "$eq": [found.to_vec(), wanted.to_vec()] },
            { "$lt": [sum, MILLIS_MAX] },
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

/// Who counts, in order: live entries, and this waiter's own whether it is live or not, for the waiter lives.
pub(super) fn line(waiter: Waiter<'_>) -> Document {
    let counts = doc! { "$or": [waiter.owns(of_entry(entry::VALUE)), is_live()] };
    filter(entries(), doc! { "$and": [is_entry(), counts] })
}

/// Of a line, what is this waiter's own.
pub(super) fn own(line: &str, waiter: Waiter<'_>) -> Document {
    filter(line, waiter.owns(of_entry(entry::VALUE)))
}

/// Of a line, what is not.
pub(super) fn others(line: &str, waiter: Waiter<'_>) -> Document {
    filter(line, doc! { "$not": waiter.owns(of_entry(entry::VALUE)) })
}

/// Whether nobody in this line comes before this waiter.
pub(super) fn is_first(line: &str, waiter: Waiter<'_>) -> Document {
    let head = doc! { "$arrayElemAt": [format!("{line}.{}", entry::VALUE), 0] };
    waiter.owns(doc! { "$ifNull": [head, literal(waiter.value)] })
}

/// Who waits besides the one with this value, and lives.
fn line_without(value: &str) -> Document {
    let others = doc! { "$ne": [of_entry(entry::VALUE), literal(value)] };
    filter(entries(), doc! { "$and": [is_entry(), is_live(), others] })
}

/// A condition: somebody lives who waits for what the one with this value has; or nobody does.
pub(super) fn is_waited_for(value: &str, expected: bool) -> Document {
    let waiting = doc! { "$gt": [{ "$size": line_without(value) }, 0] };
    doc! { "$eq": [waiting, expected] }
}

/// What an entry is made of that joins or gives a sign of life.
pub(super) struct Joining<'a> {
    pub(super) waiter: Waiter<'a>,
    /// The identity of the grant, once it is promoted.
    pub(super) id: String,
    pub(super) sent: i64,
    pub(super) life_ms: i64,
    /// The waiter's ttl, allowance, owner and metadata.
    pub(super) terms: Document,
}

impl Joining<'_> {
    /// The line with this waiter in it: in its place, or at the end.
    pub(super) fn joined(self, line: &str, own: &str) -> Document {
        let waiter = self.waiter;
        let mut fresh = doc! {
            entry::VALUE: literal(waiter.value),
            entry::ID: literal(&self.id),
            entry::SENT: self.sent,
            entry::BEAT_AT: "$$NOW",
            entry::EXPIRES_AT: now_plus_ms(self.life_ms),
        };
        let mut again = fresh.clone();
        again.extend(sign_of_life(self.sent, self.life_ms));
        let is_mine = doc! { "$eq": [of_entry(entry::VALUE), literal(waiter.value)] };
        again
            .insert(entry::ID, doc! { "$cond": [is_mine, of_entry(entry::ID), literal(&self.id)] });
        again.extend(self.terms.clone());
        fresh.extend(self.terms);
        let each = doc! { "$cond": [waiter.owns(of_entry(entry::VALUE)), again, ENTRY] };
        let in_place = doc! { "$map": { "input": line, "as": "entry", "in": each } };
        let at_the_end = doc! { "$concatArrays": [line, [fresh]] };
        doc! { "$cond": [{ "$eq": [own, []] }, at_the_end, in_place] }
    }
}

/// What a sign of life changes in an entry. Only ever forwards: `$$NOW` may be older than that of one that overtook,
/// and the echo stays with the sign that it belongs to.
fn sign_of_life(sent: i64, life_ms: i64) -> Document {
    let is_older = doc! { "$gt": [of_entry(entry::BEAT_AT), "$$NOW"] };
    doc! {
        entry::SENT: { "$cond": [is_older, of_entry(entry::SENT), sent] },
        entry::BEAT_AT: { "$max": [of_entry(entry::BEAT_AT), "$$NOW"] },
        entry::EXPIRES_AT: { "$max": [of_entry(entry::EXPIRES_AT), now_plus_ms(life_ms)] },
    }
}

fn now_plus_ms(millis: i64) -> Document {
    doc! { "$add": ["$$NOW", millis] }
}

/// The queue after a heartbeat of the waiters with these values.
pub(super) fn beaten(values: &[Bson], sent: i64, life_ms: i64) -> Document {
    let literals: Vec<Bson> = values.iter().map(|value| literal(value.clone()).into()).collect();
    let is_ours = doc! { "$in": [of_entry(entry::VALUE), literals] };
    let again = doc! { "$mergeObjects": [ENTRY, sign_of_life(sent, life_ms)] };
    let each = doc! { "$cond": [{ "$and": [is_entry(), is_ours] }, again, ENTRY] };
    doc! { "$map": { "input": entries(), "as": "entry", "in": each } }
}

/// The stages that take out the one with this value, and hand on what it has where `holds` says that it has it: to the
/// first who lives, or to nobody.
///
/// A promotion counts from the waiter's newest sign of life where the command's `$$NOW` is older: the waiter believes
/// from the echo of that sign. It lasts no longer than an entry lives, so that a waiter that has died costs no more.
pub(super) fn handed_on(value: &str, holds: Document) -> Vec<Document> {
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
            grant::ALLOWANCE_MS: head(entry::ALLOWANCE_MS),
            grant::META: head(entry::META),
            grant::WRITES: one_more_write(),
        },
        schema::EXPIRES_AT: { "$add": [from, term, head(entry::ALLOWANCE_MS)] },
        schema::PROMOTED: echo,
        schema::QUEUE: filter(LINE, rest),
    };
    // Nobody's value: a renewal that comes late must not revive it. And never without an expiry: other programs would
    // not find it free, and the server would not remove it.
    let ended = doc! { schema::VALUE: "", schema::EXPIRES_AT: "$$NOW", schema::QUEUE: [] };
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
pub(super) const NUDGE: char = '!';

/// [`schema::PROMOTED`] after a change that the first in line has to hear of, for it waits for another moment: its
/// id, and a text that is new. As it was where nobody waits.
pub(super) fn nudged(value: &str) -> Document {
    let head = format!("$$head.{}", entry::ID);
    let now = doc! { "$toString": { "$toLong": "$$NOW" } };
    let text = doc! { "$concat": [head, format!("@{NUDGE}"), now] };
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
pub(super) fn place(value: &str) -> Document {
    let values =
        doc! { "$map": { "input": entries(), "as": "entry", "in": of_entry(entry::VALUE) } };
    doc! { "$indexOfArray": [values, literal(value)] }
}

/// That the holder's grant is in this range, as an expression.
pub(super) fn grant_id_between(from: &str, to: &str, except: Option<&str>) -> Document {
    let id = path(&grant_field(grant::ID));
    let mut all = vec![doc! { "$gte": [&id, literal(from)] }, doc! { "$lt": [&id, literal(to)] }];
    all.extend(except.map(|taken| doc! { "$ne": [&id, literal(taken)] }));
    doc! { "$and": all }
}

/// The echo of a moment on the waiter's clock and the life of an entry, as they are written.
pub(super) fn echo_and_life(sent: Instant, life: std::time::Duration) -> (i64, i64) {
    (super::echo(sent), millis_up(life))
}

/// The end of a grant to a waiter: from its newest sign of life, where that is later than `$$NOW`.
pub(super) fn until(own: &str, duration: std::time::Duration) -> Document {
    let newest = doc! { "$max": format!("{own}.{}", entry::BEAT_AT) };
    let from = doc! { "$max": ["$$NOW", newest] };
    doc! { "$add": [from, millis_up(duration)] }
}

/// The echo that belongs to [`until`].
pub(super) fn sent(own: &str, sent: i64) -> Document {
    let newest = doc! { "$max": format!("{own}.{}", entry::BEAT_AT) };
    let newest_sent = doc! { "$max": format!("{own}.{}", entry::SENT) };
    doc! { "$cond": [{ "$gt": [newest, "$$NOW"] }, newest_sent, sent] }
}
