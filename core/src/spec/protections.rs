//! The decisions on which exclusion, order and progress rest, each as one method.
//!
//! The library has [`AsBuilt`] alone. The model checker replaces one method at a time by a plausible mistake. For each
//! but `taken_over_from`, which is a second protection, it finds a sequence of commands in which that mistake does
//! harm. `cargo run --release -p mongo-lease-model --example explore wrong` prints the sequences.

use super::*;

/// The protections of the commands.
pub trait Protections {
    /// The expiry after a renewal, and after any other command that prolongs a grant: it is never shortened.
    ///
    /// A renewal may be carried out after a later one, and the holder believes the later one.
    fn renewed(&self, old: Expiry, until: i64) -> Expiry {
        old.max(Expiry::At(until))
    }

    /// How long a renewal prolongs a grant: for as long as its command says, because the holder relies on that. The
    /// number in the document may be damaged.
    fn renewed_for(&self, _stored: i64, carried: i64) -> i64 {
        carried
    }

    /// The expiry when a repeated attempt finds its own earlier grant: it is never shortened, for the same reason.
    fn granted_again(&self, old: Expiry, until: i64) -> Expiry {
        old.max(Expiry::At(until))
    }

    /// When the newest heartbeat of an entry arrived: it never moves back.
    ///
    /// The echo in the entry belongs to this time. With an older time beside the newest echo, a promotion would count
    /// from too early.
    fn heartbeat_at(&self, old: i64, now: i64) -> i64 {
        old.max(now)
    }

    /// Until when an entry counts: no heartbeat shortens it.
    fn entry_expires_at(&self, old: i64, until: i64) -> i64 {
        old.max(until)
    }

    /// The time from which a promotion counts: that of the waiter's newest heartbeat, where `now` is older. The waiter
    /// believes in its lease from the echo of that heartbeat on.
    fn promoted_from(&self, now: i64, heartbeat_at: i64) -> i64 {
        now.max(heartbeat_at)
    }

    /// The time from which a waiter's own attempt counts, where its newest heartbeat is later than `now`.
    ///
    /// A second protection: the caller of an attempt believes from that attempt's own sending.
    fn taken_over_from(&self, _now: i64, heartbeat_at: i64) -> i64 {
        heartbeat_at
    }

    /// Whether live waiters go before a newcomer.
    fn has_order(&self) -> bool {
        true
    }

    /// Whether a repeated attempt keeps its position in the queue.
    fn keeps_position(&self) -> bool {
        true
    }

    /// The order in which waiters are admitted: that of the queue.
    fn in_order<E>(&self, line: Vec<E>) -> Vec<E> {
        line
    }

    /// Whether a command that ends a lease may write to a document with this expiry: not where it is damaged. Nobody
    /// knows whose the lease is then, and an operator has to find out.
    fn may_write(&self, expiry: Expiry) -> bool {
        expiry != Expiry::Damaged
    }

    /// Whether a release without a waiter frees the lease.
    fn frees_without_waiter(&self) -> bool {
        true
    }

    /// Whether a waiter that leaves the queue, and was promoted meanwhile, ends its lease.
    fn ends_when_leaving(&self) -> bool {
        true
    }

    /// Whether a tombstone drops the holder and its grant. A late renewal would find them, and revive the lease.
    fn empties_tombstones(&self) -> bool {
        true
    }

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
    /// An exclusive one is refused by its own earlier grant, for the lease is held. Of permits there may be room for
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

    /// Whether a call that only leaves the queue admits the waiters for which it makes room: one for many permits
    /// blocks others that would fit.
    fn admits_when_leaving(&self) -> bool {
        true
    }

    /// Whether an expired holder is removed alone, and not all others with it.
    fn removes_expired_only(&self) -> bool {
        true
    }

    /// Whether an attempt for an exclusive lease only prolongs the lease that its caller has already. If that lease
    /// were free for the attempt, a late attempt of its holder would give it to the first waiter.
    fn keeps_own_lease(&self) -> bool {
        true
    }

    /// Whether a release that admits nobody tells the first waiter where the lease ends earlier than before. Otherwise
    /// the waiter sleeps until the end that it has read: an expiry sends no event.
    fn tells_of_earlier_end(&self) -> bool {
        true
    }
}

/// All protections, as the library's commands have them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AsBuilt;

impl Protections for AsBuilt {}
