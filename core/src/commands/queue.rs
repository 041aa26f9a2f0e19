//! Expressions on the queue in a lease document: which entries count, and how it changes.
//!
//! An element of `queue` is ignored unless every field that is read has our type; the next change removes it. A queue
//! that is not an array counts as empty.

use super::*;

/// The times of our own entries and holders stay below this many milliseconds. With more, sums of times could overflow,
/// and the command would fail.
pub(super) const MILLIS_MAX: i64 = 1_000_000_000_000;

/// The list in this field, whatever the field holds.
pub(super) fn list(field: &str) -> Document {
    cond(doc! { "$isArray": [path(field)] }, path(field), NO_ELEMENT)
}

/// The queue as an array.
pub(super) fn entries() -> Document {
    list(format::QUEUE)
}

/// A condition: every field that is read has our type, and a call may have asked for the share.
pub(super) fn is_entry(each: Variable) -> Document {
    const FIELDS: [(&str, &str); 9] = [
        (entry::VALUE, "string"),
        (entry::ID, "string"),
        (entry::SENT_MICROS, "long"),
        (entry::HEARTBEAT_AT, "date"),
        (entry::EXPIRES_AT, "date"),
        (entry::TTL_MS, "long"),
        (entry::MAX_CLOCK_SKEW_MS, "long"),
        (entry::PERMITS, "long"),
        (entry::LIMIT, "long"),
    ];
    let sum = max(each.field(entry::TTL_MS), each.field(entry::MAX_CLOCK_SKEW_MS));
    let [permits, limit] = [entry::PERMITS, entry::LIMIT].map(|field| each.field(field));
    all([
        has_types(each, FIELDS),
        doc! { "$lt": [sum, MILLIS_MAX] },
        doc! { "$lt": [each.field(entry::HEARTBEAT_AT), now_plus(MILLIS_MAX)] },
        doc! { "$gte": [&permits, 1] },
        doc! { "$lte": [permits, &limit] },
        doc! { "$lte": [limit, i64::from(LIMIT_MAX)] },
    ])
}

/// A condition: these fields have these types.
pub(super) fn has_types<const N: usize>(each: Variable, fields: [(&str, &str); N]) -> Document {
    let found = fields.map(|(field, _)| Bson::from(doc! { "$type": each.field(field) }));
    let wanted = fields.map(|(_, wanted)| Bson::from(wanted));
    eq(found.to_vec(), wanted.to_vec())
}

/// A condition: the entry has not expired, and its waiter has not been granted the lease.
pub(super) fn is_live(each: Variable) -> Document {
    all([
        doc! { "$gt": [each.field(entry::EXPIRES_AT), "$$NOW"] },
        doc! { "$ne": [each.field(entry::VALUE), path(format::VALUE)] },
    ])
}

/// A condition: the queue has no element, live or dead. A value that is no list counts as one.
pub(super) fn is_empty() -> Document {
    is_in(doc! { "$ifNull": [path(format::QUEUE), []] }, vec![NO_ELEMENT])
}

/// A filter: the queue is a list, and has an element whose value fits this condition.
pub(super) fn has_element_of(value: impl Into<Bson>) -> Document {
    let waits = format!("{}.{}", format::QUEUE, entry::VALUE);
    // Only a list: a path also leads into a document.
    doc! { format::QUEUE: { "$type": "array" }, waits: value.into() }
}

/// The field after a write that leaves these entries. A document without a queue gets none while nobody waits.
pub(super) fn left(rest: impl Into<Bson>) -> Document {
    let rest = rest.into();
    let is_list = doc! { "$isArray": [path(format::QUEUE)] };
    cond(any([is_list, doc! { "$ne": [&rest, []] }]), rest, "$$REMOVE")
}

/// The fields that a heartbeat changes in an entry that was `old`. Times only move forwards: `$$NOW` may be older than
/// that of a heartbeat that overtook. The echo stays with the heartbeat that it belongs to.
pub(super) fn heartbeat_fields(old: Variable, sent: i64, waiter_ttl_ms: i64) -> Document {
    let before = old.field(entry::HEARTBEAT_AT);
    let is_older = doc! { "$gt": [&before, "$$NOW"] };
    doc! {
        entry::SENT_MICROS: cond(is_older, old.field(entry::SENT_MICROS), sent),
        entry::HEARTBEAT_AT: max("$$NOW", before),
        entry::EXPIRES_AT: max(old.field(entry::EXPIRES_AT), now_plus(waiter_ttl_ms)),
    }
}

/// The queue after a heartbeat of the waiters with these values.
pub(super) fn heartbeat(values: &[Bson], sent: i64, waiter_ttl_ms: i64) -> Document {
    let literals: Vec<Bson> = values.iter().map(|value| literal(value.clone()).into()).collect();
    map(entries(), |each| {
        let is_ours = is_in(each.field(entry::VALUE), literals);
        let again = merge(each, heartbeat_fields(each, sent, waiter_ttl_ms));
        cond(all([is_entry(each), is_ours]), again, each)
    })
}

/// The character after the entry's id and `@` in [`format::PROMOTED`] if no waiter was promoted.
pub(super) const RECHECK: char = '!';

/// The value of [`format::PROMOTED`] after a change of the time for which the first waiter waits.
///
/// It is the waiter's id with a new text, so that the waiter is notified. Unchanged if nobody waits.
pub(super) fn recheck() -> Document {
    let live = filter(entries(), |each| all([is_entry(each), is_live(each)]));
    bind("head", doc! { "$arrayElemAt": [live, 0] }, |head| {
        let text = recheck_of(head.field(entry::ID));
        cond(eq(doc! { "$type": head }, "object"), text, path(format::PROMOTED))
    })
}

/// The same where the first waiter's entry has this id.
pub(super) fn recheck_of(id: impl Into<Bson>) -> Document {
    doc! { "$concat": [id.into(), format!("@{RECHECK}"), millis("$$NOW")] }
}

/// The text of a date: its milliseconds.
pub(super) fn millis(date: impl Into<Bson>) -> Document {
    doc! { "$toString": { "$toLong": date.into() } }
}

/// The number of entries ahead of the one with this value, for a projection; `-1` when it is not there.
pub(super) fn index_of(value: &str) -> Document {
    let queue = path(format::QUEUE);
    let values = format!("{queue}.{}", entry::VALUE);
    let at = doc! { "$indexOfArray": [values, literal(value)] };
    cond(doc! { "$isArray": [queue] }, at, -1)
}
