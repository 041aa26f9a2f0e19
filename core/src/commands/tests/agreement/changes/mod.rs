//! Deliberate changes to commands. The comparison has to find each.

mod acquires;
mod admissions;
mod ends;
mod fast_attempts;
mod releases;
mod renewals;

use crate::bson::{Bson, Document, doc};

use super::edits::{argument_of, arguments, has, instead_of, is, replace};

pub(super) use acquires::OF_ACQUIRES;
pub(super) use admissions::OF_ADMISSIONS;
pub(super) use ends::OF_ENDS;
pub(super) use fast_attempts::OF_FAST_ATTEMPTS;
pub(super) use releases::OF_RELEASES;
pub(super) use renewals::OF_RENEWALS;

/// A change to one command, before it is sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Change {
    /// The command's type.
    pub(super) command: &'static str,
    /// The meaning of the changed command.
    pub(super) name: &'static str,
    pub(super) edit: fn(Document) -> Document,
}

pub(super) const ALL: [&[Change]; 6] =
    [OF_ACQUIRES, OF_ADMISSIONS, OF_ENDS, OF_FAST_ATTEMPTS, OF_RELEASES, OF_RENEWALS];

const fn change(
    command: &'static str,
    name: &'static str,
    edit: fn(Document) -> Document,
) -> Change {
    Change { command, name, edit }
}

const fn slow_acquire(name: &'static str, edit: fn(Document) -> Document) -> Change {
    change("SlowAcquire", name, edit)
}

const fn end(name: &'static str, edit: fn(Document) -> Document) -> Change {
    change("End", name, edit)
}

/// A filter, and the fields that a pipeline sets.
const FILTER: &str = "updates/0/q";
const SET: &str = "updates/0/u/0/$set";
const QUEUE_IS_EMPTY: &str = "queue.0";
const GRANT_ID: &str = "grant.id";

/// The condition that a holder or an entry has not expired.
fn is_unexpired() -> Document {
    doc! { "$gt": ["$$each.expiresAt", "$$NOW"] }
}

/// The condition that the expiry is a date.
fn is_date() -> Document {
    doc! { "$eq": [{ "$type": "$expiresAt" }, "date"] }
}

/// The condition that there is no expiry.
fn is_absent() -> Document {
    doc! { "$in": [{ "$type": "$expiresAt" }, ["missing", "null"]] }
}

/// The condition that the queue has no element.
fn has_no_queue() -> Document {
    doc! { "$in": [{ "$ifNull": ["$queue", []] }, [[]]] }
}

/// A condition on the expiry that any type fits.
fn damaged_is_sound(command: Document) -> Document {
    let types = ["date", "missing", "null"].map(Bson::from).to_vec();
    instead_of(command, &doc! { "$in": [{ "$type": "$expiresAt" }, types] }, true)
}

/// A write of the plain form that does not count itself.
fn uncounted(command: Document) -> Document {
    let so_far = doc! { "$cond": [{ "$isNumber": "$grant.writes" }, "$grant.writes", 0] };
    instead_of(command, &doc! { "$add": [so_far.clone(), 1] }, so_far)
}

/// The times of the document in place of that of the command.
fn for_the_stored_ttl(command: Document) -> Document {
    replace(command, &|found| {
        let is_until = arguments(found, "$add")?.first()?.as_str() == Some("$$NOW");
        let stored = doc! { "$add": ["$$NOW", "$grant.ttlMs", "$grant.maxClockSkewMs"] };
        is_until.then(|| stored.into())
    })
}

/// Reads elements whose field is of any type. The types found and the types wanted are two lists.
fn of_any_type(command: Document, field: &str) -> Document {
    replace(command, &|found| {
        let [Bson::Array(found), Bson::Array(wanted)] = arguments(found, "$eq")? else {
            return None;
        };
        let one = doc! { "$type": format!("$$each.{field}") };
        let place = found.iter().position(|each| is(each, one.clone()))?;
        let (mut found, mut wanted) = (found.clone(), wanted.clone());
        found.remove(place);
        wanted.remove(place);
        Some(doc! { "$eq": [found, wanted] }.into())
    })
}

/// Waiters without the bound on their admission's time.
fn for_the_whole_ttl(command: Document) -> Document {
    argument_of(command, "$min", 0, |all| {
        all[0].as_str().is_some_and(|path| path.ends_with(".ttlMs"))
    })
}

/// Admissions for a time less than nothing.
fn for_a_negative_time(command: Document) -> Document {
    argument_of(command, "$max", 1, |all| all[0] == Bson::Int64(0) && has(&all[1], "$min"))
}

/// Dead waiters are alive.
fn with_dead_waiters(command: Document) -> Document {
    argument_of(command, "$and", 1, |all| {
        all.len() == 2 && is(&all[0], is_unexpired()) && has(&all[1], "$ne")
    })
}

/// Waiters that hold something are admitted again.
fn with_holders_twice(command: Document) -> Document {
    instead_of(command, &doc! { "$not": { "$in": ["$$each.value", "$$kept.value"] } }, true)
}

/// The holder's own entry counts.
fn with_the_holders_entry(command: Document) -> Document {
    instead_of(command, &doc! { "$ne": ["$$each.value", "$value"] }, true)
}

/// Holders that do not count, because the lease is not held by several.
fn with_stale_list(command: Document) -> Document {
    instead_of(command, &doc! { "$eq": ["$value", "mongo-lease/shared"] }, true)
}

/// Holders without a permit count.
fn with_empty_holders(command: Document) -> Document {
    argument_of(command, "$and", 0, |all| {
        all.len() == 2 && is(&all[1], doc! { "$gte": ["$$each.permits", 1] })
    })
}

/// The document expires with its newest holder.
fn with_the_newest_expiry(command: Document) -> Document {
    let newest = doc! { "$arrayElemAt": ["$$all.expiresAt", -1] };
    instead_of(command, &doc! { "$max": "$$all.expiresAt" }, newest)
}
