//! Fast acquire and fast admit: the attempts that the server carries out most cheaply, and the first of most calls.

use super::admission::{self, Room};
use super::document::{Document, Expiry, Queue};
use super::protections::Protections;
use super::request::AcquireRequest;
use super::types::Types;

/// The answer to a fast acquire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FastReply {
    /// The lease is this attempt's.
    Granted,
    /// Another call holds the lease, and this call may not wait.
    Refused {
        /// How long it is still held.
        remaining: i64,
    },
    /// The call has to send a slow acquire: it may have to join the queue, or the document is unclear.
    UseSlowForm,
}

/// Grants a free lease without a queue to a call for the exclusive lease; else changes nothing.
pub fn fast_acquire<T: Types>(
    found: Option<Document<T>>,
    request: &AcquireRequest<T>,
    now: i64,
    protections: &impl Protections,
) -> (Option<Document<T>>, FastReply) {
    let before = found.unwrap_or_else(Document::empty);
    let may_pass = !has_queue(&before.queue) || !protections.has_order();
    let is_free = before.expiry.has_passed(now) && may_pass;
    let after = if is_free { granted(before, request, now) } else { before };
    let reply = fast_reply(&after, request, now);
    (Some(after), reply)
}

fn granted<T: Types>(before: Document<T>, request: &AcquireRequest<T>, now: i64) -> Document<T> {
    let grant = request.new_grant(request.sent, now, before.writes() + 1);
    let expiry = Expiry::At(request.lasts_until(now));
    Document { value: Some(request.value.clone()), expiry, grant: Some(grant), ..before }
}

/// The answer to an attempt, from a document that was read after it.
///
/// Many attempts in one command get no documents back: one read answers them all.
pub fn fast_reply<T: Types>(
    found: &Document<T>,
    request: &AcquireRequest<T>,
    now: i64,
) -> FastReply {
    let is_granted = found.holders_grant().is_some_and(|grant| grant.id == request.id);
    let is_held_by_caller = found.is_held_by(&request.value);
    match found.expiry {
        Expiry::At(_) | Expiry::Absent if is_granted && is_held_by_caller => FastReply::Granted,
        Expiry::At(at) if at > now && !is_held_by_caller && request.joins.is_none() => {
            FastReply::Refused { remaining: at - now }
        }
        Expiry::At(_) | Expiry::Absent | Expiry::Damaged => FastReply::UseSlowForm,
    }
}

/// Admits the caller beside the holders if nobody is in the queue, dead or alive, and it fits; else changes nothing.
///
/// It must not admit a caller that holds already: a late first attempt finds the grant of the second one.
pub fn fast_admit<T: Types>(
    found: Option<Document<T>>,
    request: &AcquireRequest<T>,
    now: i64,
    protections: &impl Protections,
) -> (Option<Document<T>>, FastReply) {
    let before = found.unwrap_or_else(Document::empty);
    let kept = admission::kept(&before, None, now, protections);
    let is_open = before.expiry.has_passed(now) || !kept.is_empty();
    let is_holder = kept.iter().any(|holder| request.is_holder(holder));
    let is_twice = is_holder && protections.fast_attempt_finds_own();
    let own = request.entry(None, now, protections);
    let room = Room { kept, is_open, asker: Some(&request.value), now };
    let beside_holders = room.filled(before.clone(), vec![own], protections);
    let is_admitted = !has_queue(&before.queue) && !is_twice && beside_holders.queue.is_empty();
    let after = match is_admitted {
        true => Document { queue: before.queue, ..beside_holders },
        false => before,
    };
    let reply = fast_admit_reply(&after, request, now);
    (Some(after), reply)
}

/// The answer to a fast attempt, from the document after it.
pub fn fast_admit_reply<T: Types>(
    found: &Document<T>,
    request: &AcquireRequest<T>,
    now: i64,
) -> FastReply {
    let value = &request.value;
    let own = found.sharers().into_iter().find(|holder| holder.value == *value);
    let is_attempts = own.as_ref().is_some_and(|holder| holder.id == request.id);
    let is_held_by_caller = own.is_some() || found.is_held_by(value);
    let may_wait = request.joins.is_some();
    match found.expiry {
        Expiry::At(_) if is_attempts => FastReply::Granted,
        // Behind a dead entry there may be room, and only the slow form removes it.
        Expiry::At(at)
            if at > now && !is_held_by_caller && !may_wait && !has_queue(&found.queue) =>
        {
            FastReply::Refused {
                remaining: admission::first_expiry(found).remaining(now).unwrap_or(0),
            }
        }
        Expiry::At(_) | Expiry::Absent | Expiry::Damaged => FastReply::UseSlowForm,
    }
}

/// Whether a queue, valid or corrupt, leaves a fast attempt to the slow form.
fn has_queue<T: Types>(queue: &Queue<T>) -> bool {
    matches!(queue, Queue::Damaged) || !queue.is_empty()
}
