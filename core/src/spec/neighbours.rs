//! The others that write to the same documents: the TTL monitor, and programs with the usual hand-written recipe.

use super::*;

/// The document as the TTL monitor leaves it: it deletes what has expired, and the queue with it. Its waiters find no
/// entry at their next heartbeat, and send an attempt: their order is lost.
pub fn ttl_delete<T: Types>(found: Option<Document<T>>, now: i64) -> Option<Document<T>> {
    found.filter(|document| !matches!(document.expiry, Expiry::At(at) if at <= now))
}

/// Another program acquires a free lease, by its own clock: it writes `value` and `expiresAt`, and passes the queue by.
/// Says whether it did.
pub fn foreign_acquire<T: Types>(
    found: Option<Document<T>>,
    value: T::Value,
    now: i64,
    ttl: i64,
) -> (Option<Document<T>>, bool) {
    let before = found.clone().unwrap_or_else(Document::empty);
    if !before.expiry.has_passed(now) {
        return (found, false);
    }
    (Some(Document { value: Some(value), expiry: Expiry::At(now + ttl), ..before }), true)
}

/// The same program releases it, and deletes the queue with it. Says whether it did.
pub fn foreign_release<T: Types>(
    found: Option<Document<T>>,
    value: &T::Value,
) -> (Option<Document<T>>, bool) {
    match found {
        Some(document) if document.is_held_by(value) => (None, true),
        found => (found, false),
    }
}
