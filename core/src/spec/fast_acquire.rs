//! Fast acquire and fast admit: the attempts that the server carries out most cheaply, and the first of most calls.

use super::admission::{self, Room};
use super::*;

/// Grants a free lease without a queue to a call for the exclusive lease; else changes nothing.
pub fn fast_acquire<T: Types>(
    found: Option<Document<T>>,
    attempt: &AcquireAttempt<T>,
    now: i64,
    protections: &impl Protections,
) -> (Option<Document<T>>, AcquireAnswer<T>) {
    let mut document = found.unwrap_or_else(Document::empty);
    let may_pass = !has_queue(&document.queue) || !protections.has_order();
    if document.expiry.has_passed(now) && may_pass {
        let own = attempt.entry(None, now, protections);
        document.value = Some(attempt.value.clone());
        document.expiry = Expiry::At(attempt.lasts_until(now));
        document.grant = Some(own.grant(now, document.writes() + 1));
    }
    let reply = fast_reply(&document, attempt, now);
    (Some(document), reply)
}

/// The answer to an attempt, from a document that was read after it.
///
/// Many attempts in one command get no documents back: one read answers them all.
pub fn fast_reply<T: Types>(
    found: &Document<T>,
    attempt: &AcquireAttempt<T>,
    now: i64,
) -> AcquireAnswer<T> {
    let is_granted = found.holders_grant().is_some_and(|grant| grant.id == attempt.id);
    let is_held_by_caller = found.is_held_by(&attempt.value);
    match found.expiry {
        Expiry::At(_) | Expiry::Absent if is_granted && is_held_by_caller => {
            AcquireAnswer::Granted(attempt.id.clone())
        }
        Expiry::At(at) if at > now && !is_held_by_caller && attempt.joins.is_none() => {
            AcquireAnswer::Refused { ahead: None, remaining: Some(at - now) }
        }
        Expiry::At(_) | Expiry::Absent | Expiry::Damaged => AcquireAnswer::UseSlowForm,
    }
}

/// Admits the caller beside the holders if nobody is in the queue, dead or alive, and it fits; else changes nothing.
///
/// It must not admit a caller that holds already: a late first attempt finds the grant of the second one.
pub fn fast_admit<T: Types>(
    found: Option<Document<T>>,
    attempt: &AcquireAttempt<T>,
    now: i64,
    protections: &impl Protections,
) -> (Option<Document<T>>, AcquireAnswer<T>) {
    let before = found.unwrap_or_else(Document::empty);
    let kept = admission::kept(&before, None, now, protections);
    let is_open = before.expiry.has_passed(now) || !kept.is_empty();
    let is_holder = kept.iter().any(|holder| attempt.is_holder(holder));
    let is_twice = is_holder && protections.fast_attempt_finds_own();
    let own = attempt.entry(None, now, protections);
    let room = Room { kept, is_open, asker: Some(&attempt.value), now, protections };
    let beside_holders = room.filled(before.clone(), vec![own]);
    let is_admitted = !has_queue(&before.queue) && !is_twice && beside_holders.queue.is_empty();
    let queue = before.queue.clone();
    let after = if is_admitted { Document { queue, ..beside_holders } } else { before };
    let reply = fast_admit_reply(&after, attempt, now);
    (Some(after), reply)
}

/// The answer to a fast attempt, from the document after it.
pub fn fast_admit_reply<T: Types>(
    found: &Document<T>,
    attempt: &AcquireAttempt<T>,
    now: i64,
) -> AcquireAnswer<T> {
    let own = found.sharers().into_iter().find(|holder| holder.grant.value == attempt.value);
    let is_held_by_caller = own.is_some() || found.is_held_by(&attempt.value);
    // Behind a dead entry there may be room, and only the slow form removes it.
    let is_slow = is_held_by_caller || attempt.joins.is_some() || has_queue(&found.queue);
    match (found.expiry, own) {
        (Expiry::At(_), Some(own)) if own.grant.id == attempt.id => {
            AcquireAnswer::Granted(own.grant.id)
        }
        (Expiry::At(at), None) if at > now && !is_slow => {
            let remaining = admission::first_expiry(found).remaining(now);
            AcquireAnswer::Refused { ahead: None, remaining }
        }
        (Expiry::At(_) | Expiry::Absent | Expiry::Damaged, _) => AcquireAnswer::UseSlowForm,
    }
}

/// Whether a queue, valid or corrupt, leaves a fast attempt to the slow form.
fn has_queue<T: Types>(queue: &Queue<T>) -> bool {
    *queue == Queue::Damaged || !queue.is_empty()
}
