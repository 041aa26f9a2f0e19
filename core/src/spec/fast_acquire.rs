//! Fast acquire: the attempt that the server carries out most cheaply, and the first one of most calls.

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
    /// The call has to send a full acquire: it may have to join the queue, or the document is unclear.
    UseFullForm,
}

/// Grants a free lease without a queue; else changes nothing.
pub fn fast_acquire<T: Types>(
    found: Option<Document<T>>,
    request: &AcquireRequest<T>,
    now: i64,
    protections: &impl Protections,
) -> (Option<Document<T>>, FastReply) {
    let before = found.unwrap_or_else(Document::empty);
    let has_queue = matches!(before.queue, Queue::Damaged) || !before.queue.is_empty();
    let is_free = before.expiry.has_passed(now) && (!has_queue || !protections.has_order());
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
        Expiry::At(_) | Expiry::Absent | Expiry::Damaged => FastReply::UseFullForm,
    }
}
