//! The request of an acquire.

use super::document::{Document, Grant};
use super::types::Types;

/// The request of one attempt of an acquire call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AcquireRequest<T: Types> {
    /// The call's value. All attempts of a call have the same one.
    pub value: T::Value,
    /// The id of the grant that this attempt may get.
    pub id: T::GrantId,
    /// For how long the caller relies on the grant, less its margin.
    pub ttl: i64,
    /// The server adds this to the ttl.
    pub max_clock_skew: i64,
    /// The echo.
    pub sent: i64,
    /// How it waits in the queue where the lease is not free. `None`: it does not wait.
    pub joins: Option<QueueOptions>,
    /// An earlier call of this process that gave up. This call inherits its queue entry, or its promotion; no lease
    /// relies on that grant.
    pub predecessor: Option<T::Value>,
    /// The caller, for people.
    pub details: T::Details,
}

/// How a call waits in the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct QueueOptions {
    /// How long its entry counts after a heartbeat.
    pub life: i64,
    /// The most live entries that the queue may have.
    pub queue_max: usize,
}

impl<T: Types> AcquireRequest<T> {
    /// Whether a value is the caller's own, or that of the call whose entry it inherits.
    pub(super) fn owns(&self, value: &T::Value) -> bool {
        *value == self.value || Some(value) == self.predecessor.as_ref()
    }

    pub(super) fn holds(&self, document: &Document<T>) -> bool {
        document.value.as_ref().is_some_and(|value| self.owns(value))
    }

    /// Until when a grant lasts for the server that counts from this time.
    pub(super) fn lasts_until(&self, from: i64) -> i64 {
        from + self.ttl + self.max_clock_skew
    }

    /// A grant that nobody has had before.
    pub(super) fn new_grant(&self, sent: i64, now: i64, writes: i64) -> Grant<T> {
        Grant {
            value: self.value.clone(),
            id: self.id.clone(),
            sent,
            acquired_at: now,
            ttl: self.ttl,
            max_clock_skew: self.max_clock_skew,
            writes,
            details: self.details.clone(),
        }
    }
}
