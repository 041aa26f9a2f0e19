//! The specification of the commands, with small numbers as identities, and the protections that can be switched off.

use mongo_lease_core::spec::{self, AsBuilt, Expiry, Protections, Types};

/// The types of the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Small;

/// A holder's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Value(pub(crate) u8);

/// The identity of a grant: an acquire call, and the number of its attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct GrantId {
    pub(crate) call: u8,
    pub(crate) attempt: u8,
}

impl Types for Small {
    type Value = Value;
    type CallId = u8;
    type GrantId = GrantId;
    type Details = ();

    fn is_of_call(grant: &GrantId, call: &u8) -> bool {
        grant.call == *call
    }

    fn nobody() -> Value {
        Value(u8::MAX)
    }

    fn shared() -> Value {
        Value(u8::MAX - 1)
    }
}

pub(crate) type Document = spec::Document<Small>;
pub(crate) type Entry = spec::Entry<Small>;
pub(crate) type GrantMatch = spec::GrantMatch<Small>;
pub(crate) type Key = spec::OwnGrant<Small>;
pub(crate) type Promoted = spec::Promoted<Small>;
pub(crate) type Queue = spec::Queue<Small>;
pub(crate) type AcquireAnswer = spec::AcquireAnswer<Small>;
pub(crate) type AcquireAttempt = spec::AcquireAttempt<Small>;

/// The id of the grant, where the grant belongs to the holder.
pub(crate) fn holders_grant(document: &Document) -> Option<GrantId> {
    document.holders_grant().map(|grant| grant.id)
}

/// The protections that are switched off. The search must find each that is off.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Off {
    /// A renewal overwrites the expiry.
    pub(crate) renewed: bool,
    /// A renewal prolongs for what the document says.
    pub(crate) renewed_for: bool,
    /// A repeated acquire overwrites the expiry.
    pub(crate) granted_again: bool,
    /// A heartbeat overwrites the time of the newest one.
    pub(crate) heartbeat_at: bool,
    /// A heartbeat overwrites the time until which its entry lives.
    pub(crate) entry_expires_at: bool,
    /// A promotion counts from `$$NOW` alone.
    pub(crate) promoted_from: bool,
    /// A take-over by a waiter counts from `$$NOW` alone.
    pub(crate) taken_over_from: bool,
    /// Newcomers go before waiters.
    pub(crate) order: bool,
    /// A repeated attempt goes to the end of the queue.
    pub(crate) position: bool,
    /// The last waiter is promoted.
    pub(crate) in_order: bool,
    /// To a repeated attempt its caller's own lease is free.
    pub(crate) own_lease: bool,
    /// A release writes to a damaged document.
    pub(crate) may_write: bool,
    /// A release without a live waiter leaves the lease held.
    pub(crate) frees: bool,
    /// A waiter that leaves the queue keeps a lease to which it was promoted.
    pub(crate) leaver_ends: bool,
    /// A tombstone still names the holder.
    pub(crate) empties_tombstones: bool,
}

impl Protections for Off {
    fn renewed(&self, old: Expiry, until: i64) -> Expiry {
        if self.renewed { Expiry::At(until) } else { AsBuilt.renewed(old, until) }
    }

    fn renewed_for(&self, stored: i64, carried: i64) -> i64 {
        if self.renewed_for { stored } else { AsBuilt.renewed_for(stored, carried) }
    }

    fn granted_again(&self, old: Expiry, until: i64) -> Expiry {
        if self.granted_again { Expiry::At(until) } else { AsBuilt.granted_again(old, until) }
    }

    fn heartbeat_at(&self, old: i64, now: i64) -> i64 {
        if self.heartbeat_at { now } else { AsBuilt.heartbeat_at(old, now) }
    }

    fn entry_expires_at(&self, old: i64, until: i64) -> i64 {
        if self.entry_expires_at { until } else { AsBuilt.entry_expires_at(old, until) }
    }

    fn promoted_from(&self, now: i64, heartbeat_at: i64) -> i64 {
        if self.promoted_from { now } else { AsBuilt.promoted_from(now, heartbeat_at) }
    }

    fn taken_over_from(&self, now: i64, heartbeat_at: i64) -> i64 {
        if self.taken_over_from { now } else { AsBuilt.taken_over_from(now, heartbeat_at) }
    }

    fn has_order(&self) -> bool {
        !self.order && AsBuilt.has_order()
    }

    fn keeps_position(&self) -> bool {
        !self.position && AsBuilt.keeps_position()
    }

    fn in_order<E>(&self, mut line: Vec<E>) -> Vec<E> {
        if self.in_order && !line.is_empty() {
            line.rotate_right(1);
        }
        AsBuilt.in_order(line)
    }

    fn keeps_own_lease(&self) -> bool {
        !self.own_lease && AsBuilt.keeps_own_lease()
    }

    fn frees_without_waiter(&self) -> bool {
        !self.frees && AsBuilt.frees_without_waiter()
    }

    fn ends_when_leaving(&self) -> bool {
        !self.leaver_ends && AsBuilt.ends_when_leaving()
    }

    fn may_write(&self, expiry: Expiry) -> bool {
        self.may_write || AsBuilt.may_write(expiry)
    }

    fn empties_tombstones(&self) -> bool {
        !self.empties_tombstones && AsBuilt.empties_tombstones()
    }
}
