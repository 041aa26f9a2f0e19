//! The queue in the document: which entries live, and heartbeats.
//!
//! - An *entry* is an element of the queue that a call wrote. Any other element is corrupt.
//! - An entry is *live* for its `waiter_ttl` after its newest heartbeat. Only a live entry can be promoted.
//! - A *dead* entry gets no grant and blocks nobody's turn. While it is there, the queue is not empty. A heartbeat
//!   revives it, and the next acquire or release that changes the queue removes it.

use super::*;

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
        waiter_ttl: i64,
        protections: &impl Protections,
    ) -> Entry<T> {
        Entry {
            sent: if self.heartbeat_at > now { self.sent } else { sent },
            heartbeat_at: protections.heartbeat_at(self.heartbeat_at, now),
            expires_at: protections.entry_expires_at(self.expires_at, now + waiter_ttl),
            ..self.clone()
        }
    }
}

/// The queue after a write that leaves these entries in it. A value that is no list counts as no queue, and stays where
/// it is while nobody waits.
pub(super) fn after<T: Types>(before: &Queue<T>, rest: Vec<Entry<T>>) -> Queue<T> {
    match before {
        Queue::Damaged if rest.is_empty() => Queue::Damaged,
        Queue::Damaged | Queue::Absent | Queue::List(_) => {
            Queue::of(rest.into_iter().map(Element::Entry).collect())
        }
    }
}

/// Writes a heartbeat to the entry with this value, and says whether it was there. The entries of a damaged document do
/// not count.
pub fn heartbeat<T: Types>(
    found: Option<Document<T>>,
    value: &T::Value,
    now: i64,
    sent: i64,
    waiter_ttl: i64,
    protections: &impl Protections,
) -> (Option<Document<T>>, bool) {
    match found {
        Some(mut document) if document.expiry != Expiry::Damaged => {
            let is_there = document.queue.position(value).is_some();
            for element in document.queue.elements_mut() {
                if let Element::Entry(entry) = element
                    && entry.value == *value
                {
                    *entry = entry.after_heartbeat(sent, now, waiter_ttl, protections);
                }
            }
            (Some(document), is_there)
        }
        found => (found, false),
    }
}
