//! The fast-path acquire: a call's first attempt.

use super::{AcquireRequest, Build, Document, Expiry, Grant, Queue};

/// The answer to a fast-path acquire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Taken {
    /// The lease is this attempt's.
    Granted,
    /// Another holds it, and the caller does not wait.
    Refused {
        /// How long it is still held.
        remaining: i64,
    },
    /// Only a full acquire can tell, or do what the caller wants.
    Unclear,
}

/// Grants a free lease without a queue; else changes nothing.
pub(crate) fn take(
    found: Option<Document>,
    ask: &AcquireRequest,
    now: i64,
    build: &Build,
) -> (Option<Document>, Taken) {
    let before = found.unwrap_or_else(Document::empty);
    let is_held = match before.expiry {
        Expiry::Absent => false,
        Expiry::At(at) => at > now,
        Expiry::Damaged => true,
    };
    let has_queue = before.queue == Queue::Damaged || !before.queue.is_empty();
    let may_be_granted = !is_held && (!has_queue || !build.keeps_turns);
    let after = if may_be_granted { granted(before, ask, now) } else { before };
    let taken = said_to(&after, ask, now);
    (Some(after), taken)
}

/// The answer for an attempt, from a document that was read behind it.
pub(crate) fn said_to(found: &Document, ask: &AcquireRequest, now: i64) -> Taken {
    let is_of_this_value = found.value == Some(ask.value);
    match found.expiry {
        Expiry::At(_) | Expiry::Absent
            if found.holders_grant() == Some(ask.id) && is_of_this_value =>
        {
            Taken::Granted
        }
        Expiry::At(at) if at > now && !is_of_this_value && ask.joins.is_none() => {
            Taken::Refused { remaining: at - now }
        }
        Expiry::At(_) | Expiry::Absent | Expiry::Damaged => Taken::Unclear,
    }
}

fn granted(before: Document, ask: &AcquireRequest, now: i64) -> Document {
    let grant = Grant {
        value: ask.value,
        id: ask.id,
        sent: ask.sent,
        acquired_at: now,
        ttl: ask.ttl,
        max_clock_skew: ask.max_clock_skew,
        writes: before.writes() + 1,
    };
    let expiry = Expiry::At(now + ask.ttl + ask.max_clock_skew);
    Document { value: Some(ask.value), expiry, grant: Some(grant), ..before }
}
