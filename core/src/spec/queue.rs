//! The queue in the document: which entries count, how a caller joins, and heartbeats.
//!
//! Waiters form a FIFO queue in the lease's document.
//!
//! - An *entry* is an element of the queue that a call wrote. Any other element is corrupt.
//! - An entry is *live* for the waiter ttl (`life`) after its newest heartbeat. Only a live entry can be promoted.
//! - A *dead* entry gets no grant and blocks nobody's turn. While it is there, the queue is not empty. A heartbeat
//!   revives it, and the next join, grant or hand-off removes it.

use super::document::{Document, Element, Entry, Expiry, Queue};
use super::protections::Protections;
use super::request::AcquireRequest;
use super::types::Types;

impl<T: Types> Entry<T> {
    /// Whether the waiter lives, and was not granted the lease already.
    pub(super) fn is_live(&self, document: &Document<T>, now: i64) -> bool {
        self.expires_at > now && !document.is_held_by(&self.value)
    }

    /// The entry after a heartbeat. The echo stays with the heartbeat that it belongs to.
    pub(super) fn after_heartbeat(
        &self,
        sent: i64,
        now: i64,
        life: i64,
        protections: &impl Protections,
    ) -> Entry<T> {
        Entry {
            sent: if self.heartbeat_at > now { self.sent } else { sent },
            heartbeat_at: protections.heartbeat_at(self.heartbeat_at, now),
            expires_at: protections.entry_expires_at(self.expires_at, now + life),
            ..self.clone()
        }
    }
}

/// The entries that count for a caller, in order: the live ones, and the caller's own, because the caller lives.
pub(super) fn live_entries_for<T: Types>(
    document: &Document<T>,
    request: &AcquireRequest<T>,
    now: i64,
) -> Vec<Entry<T>> {
    let counts = |entry: &&Entry<T>| request.owns(&entry.value) || entry.is_live(document, now);
    document.queue.entries().filter(counts).cloned().collect()
}

/// The live entries except the one with this value.
pub(super) fn live_entries_without<T: Types>(
    document: &Document<T>,
    value: &T::Value,
    now: i64,
) -> Vec<Entry<T>> {
    let counts = |entry: &&Entry<T>| entry.value != *value && entry.is_live(document, now);
    document.queue.entries().filter(counts).cloned().collect()
}

/// The document with the caller in the queue: in the position that it has, or at the end.
///
/// It is unchanged where the caller does not wait, the queue is full, or the document is corrupt. `live` are the
/// entries that count for the caller.
pub(super) fn joined<T: Types>(
    before: Document<T>,
    request: &AcquireRequest<T>,
    now: i64,
    mut live: Vec<Entry<T>>,
    protections: &impl Protections,
) -> Document<T> {
    let queue = before.queue.clone().without_empty_list();
    let Some(joins) = request.joins.filter(|_| before.expiry != Expiry::Damaged) else {
        return Document { queue, ..before };
    };
    if !protections.keeps_position() {
        live.retain(|entry| !request.owns(&entry.value));
    }
    if let Some(old) = live.iter().find(|entry| request.owns(&entry.value)) {
        let entry = old.after_heartbeat(request.sent, now, joins.life, protections);
        let is_inherited = entry.value != request.value;
        // The change stream names a promoted entry by its id, and the process finds the call by that id. So an
        // inherited entry gets this attempt's id.
        let id = if is_inherited { request.id.clone() } else { entry.id };
        let entry =
            Entry { id, ..own_entry(request, entry.heartbeat_at, entry.expires_at, entry.sent) };
        let own = live.iter_mut().filter(|entry| request.owns(&entry.value));
        own.for_each(|own| *own = entry.clone());
    } else if live.len() < joins.queue_max {
        live.push(own_entry(request, now, now + joins.life, request.sent));
    } else {
        return Document { queue, ..before };
    }
    Document { queue: Queue::of(live), ..before }
}

/// A caller's entry, with these times.
pub(super) fn own_entry<T: Types>(
    request: &AcquireRequest<T>,
    heartbeat_at: i64,
    expires_at: i64,
    sent: i64,
) -> Entry<T> {
    Entry {
        value: request.value.clone(),
        id: request.id.clone(),
        sent,
        heartbeat_at,
        expires_at,
        ttl: request.ttl,
        max_clock_skew: request.max_clock_skew,
        share: None,
        details: request.details.clone(),
    }
}

/// Writes a heartbeat to the entry with this value, and says whether it was there. The entries of a damaged document do
/// not count.
pub fn heartbeat<T: Types>(
    found: Option<Document<T>>,
    value: &T::Value,
    now: i64,
    sent: i64,
    life: i64,
    protections: &impl Protections,
) -> (Option<Document<T>>, bool) {
    let Some(mut document) = found else {
        return (None, false);
    };
    if document.expiry == Expiry::Damaged {
        return (Some(document), false);
    }
    let is_there = document.queue.position(value).is_some();
    if let Queue::List(elements) = &mut document.queue {
        for element in elements {
            if let Element::Entry(entry) = element
                && entry.value == *value
            {
                *entry = entry.after_heartbeat(sent, now, life, protections);
            }
        }
    }
    (Some(document), is_there)
}
