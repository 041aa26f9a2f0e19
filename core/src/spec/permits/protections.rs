//! The decisions on which the rule of permits rests, each as one method.
//!
//! As with [`Protections`], the library has [`AsBuilt`] alone, and the model checker replaces one method at a time.

use super::super::protections::{AsBuilt, Protections};

/// The protections of the commands for leases in shared use.
pub trait PermitProtections: Protections {
    /// The expiry of a holder after a renewal: it is never shortened, because renewals may overtake each other.
    fn permit_renewed(&self, old: i64, until: i64) -> i64 {
        old.max(until)
    }

    /// The expiry of the document: the latest of its holders', in the order of their admission.
    fn shared_expiry(&self, expiries: &[i64]) -> Option<i64> {
        expiries.iter().max().copied()
    }

    /// Whether a fast attempt is refused where its caller holds already.
    ///
    /// An exclusive one is refused by its own earlier grant, for the lease is held. In shared use there may be room for
    /// a second grant.
    fn fast_attempt_finds_own(&self) -> bool {
        true
    }

    /// Whether a repeated attempt finds its own earlier grant.
    fn attempt_finds_own(&self) -> bool {
        true
    }

    /// The limit in force after an admission, from the one in force before it and that of the admitted call.
    fn limit_in_force(&self, before: i64, own: i64) -> i64 {
        before.min(own)
    }

    /// Whether a waiter that does not fit blocks those behind it.
    fn admits_in_order(&self) -> bool {
        true
    }

    /// Whether a call that only leaves the queue admits the waiters for which it makes room.
    ///
    /// A waiter for many permits blocks others that would fit.
    fn admits_when_leaving(&self) -> bool {
        true
    }

    /// Whether an expired holder is removed alone, and not all others with it.
    fn removes_expired_only(&self) -> bool {
        true
    }

    /// Whether an exclusive lease with the caller's own value is free for an attempt with this limit.
    ///
    /// An older version hands the whole lease to a waiter for a share, which never relies on it. Under the limit 1 it
    /// is the caller's own lease.
    fn replaces_own_exclusive_grant(&self, limit: i64) -> bool {
        limit > 1
    }

    /// Whether only a grant of the same call is free in that way.
    ///
    /// Calls may have the same value, if their user chose it. A holder of the exclusive lease with that value relies on
    /// its grant.
    fn replaces_grants_of_its_call_alone(&self) -> bool {
        true
    }

    /// Whether a release that admits nobody tells the first waiter where the lease ends earlier than before.
    ///
    /// Otherwise the waiter sleeps until the end that it has read. An expiry sends no event.
    fn tells_of_earlier_end(&self) -> bool {
        true
    }
}

impl PermitProtections for AsBuilt {}
