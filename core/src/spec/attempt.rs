//! One attempt of an acquire.

use super::*;
use crate::rules::permits::Permits;

/// One attempt of an acquire call, under any limit. All attempts of a call have its `AcquireRequest` (`commands`), and
/// each has an id and an echo of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AcquireAttempt<T: Types> {
    /// The call's value. All attempts of a call have the same one.
    pub value: T::Value,
    /// The id of the grant that this attempt may get.
    pub id: T::GrantId,
    /// The permits that it asks for, and its limit.
    pub permits: Permits,
    /// For how long the caller relies on the grant, less its margin.
    pub ttl: i64,
    /// The server adds this to the ttl.
    pub max_clock_skew: i64,
    /// The echo.
    pub sent: i64,
    /// How it waits in the queue where the lease is not free. `None`: it does not wait.
    pub joins: Option<QueueOptions>,
    /// An earlier call of this process that gave up. This call inherits its queue entry, or its promotion; no lease
    /// relies on that grant. Only for an exclusive lease: each call for permits has an entry of its own.
    pub predecessor: Option<T::Value>,
    /// The caller, for people.
    pub details: T::Details,
}

/// How a call waits in the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct QueueOptions {
    /// How long its entry counts after a heartbeat, in milliseconds in a command.
    pub waiter_ttl: i64,
    /// The most live entries that the queue may have.
    pub max_waiting: u32,
}

impl<T: Types> AcquireAttempt<T> {
    /// Whether a value is the caller's own, or that of the call whose entry it inherits.
    pub(super) fn owns(&self, value: &T::Value) -> bool {
        *value == self.value || Some(value) == self.predecessor.as_ref()
    }

    /// Whether the caller has the exclusive lease already.
    ///
    /// Calls may have the same value, if their user chose it. So a call for a share does not take an exclusive lease
    /// for its own, nor the other way round.
    pub(super) fn has_lease(&self, document: &Document<T>) -> bool {
        self.permits.is_exclusive()
            && document.is_held_by(&self.value)
            && document.expiry != Expiry::Damaged
    }

    /// Whether the call whose entry it inherits has the exclusive lease.
    pub(super) fn inherits_lease(&self, document: &Document<T>) -> bool {
        let is_held = self.predecessor.as_ref().is_some_and(|value| document.is_held_by(value));
        is_held && document.expiry != Expiry::Damaged
    }

    /// Whether this holder in the list is the caller.
    pub(super) fn is_holder(&self, holder: &Holder<T>) -> bool {
        !self.permits.is_exclusive() && holder.grant.value == self.value
    }

    /// Until when a grant lasts for the server that counts from this time.
    pub(super) fn lasts_until(&self, from: i64) -> i64 {
        from + self.ttl + self.max_clock_skew
    }

    /// The caller's entry, as it joins the queue or stays there. `old` is the one that it has.
    pub(super) fn entry(
        &self,
        old: Option<&Entry<T>>,
        now: i64,
        protections: &impl Protections,
    ) -> Entry<T> {
        let waiter_ttl = self.joins.map_or(self.ttl, |joins| joins.waiter_ttl);
        let new = Entry {
            value: self.value.clone(),
            id: self.id.clone(),
            sent: self.sent,
            heartbeat_at: now,
            expires_at: now + waiter_ttl,
            ttl: self.ttl,
            max_clock_skew: self.max_clock_skew,
            permits: self.permits.count().into(),
            limit: self.permits.limit().into(),
            details: self.details.clone(),
        };
        let Some(old) = old else { return new };
        let Entry { heartbeat_at, expires_at, sent, id, .. } =
            old.after_heartbeat(self.sent, now, waiter_ttl, protections);
        // The change stream names a promoted entry by its id, and the process finds the call by that id. So an
        // inherited entry gets this attempt's id.
        let id = if old.value == self.value { id } else { new.id };
        Entry { heartbeat_at, expires_at, sent, id, ..new }
    }
}
