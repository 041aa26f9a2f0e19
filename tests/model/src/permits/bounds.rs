//! Bounds of a world with permits, and the deliberate mistakes.

use mongo_lease_core::rules::holder::HoldOptions;
use mongo_lease_core::rules::permits::{Permits, fit_together};
use mongo_lease_core::rules::time::Instant;
use mongo_lease_core::rules::timing::Timing;
use mongo_lease_core::spec::{AsBuilt, Protections};

use crate::bounds::Bounds;

/// The ttl, in ticks.
pub(crate) const TTL: i64 = 2;
/// How many milliseconds a client's clock counts in a tick.
const RATE: u64 = crate::bounds::RATE_EXACT;

/// A world: its clients, its time, and what may happen to it.
#[derive(Clone, Debug)]
pub struct PermitBounds {
    /// The clients. Each makes one acquire call, with a value of its own.
    pub clients: Vec<PermitClient>,
    /// After this many ticks time stands still.
    pub ticks: i64,
    /// How far a member's clock may be ahead of another's, in ticks.
    pub skew: i64,
    /// How long a queue entry lives after a heartbeat, in ticks.
    pub waiter_ttl: i64,
    /// The most renewals of each client.
    pub renewals: u8,
    /// The most heartbeats of each client, beside those that its attempts imply.
    pub heartbeats: u8,
    /// How many clients may crash.
    pub crashes: u8,
    /// How many answers and events may be lost.
    pub losses: u8,
    /// How often another program may acquire the lease.
    pub foreign_take_overs: u8,
    /// How often another program may damage the numbers of all holders.
    pub damages: u8,
    /// Whether each release is carried out twice.
    pub repeats_releases: bool,
    /// Whether a release takes a promoted holder for alone, and another one for beside others.
    pub mistaken_hints: bool,
    /// The deliberate mistake, if any.
    pub variant: PermitVariant,
}

/// The bounds of one client.
#[derive(Clone, Copy, Debug)]
pub struct PermitClient {
    /// The permits that it asks for.
    pub permits: u32,
    /// The limit under which it asks.
    pub limit: u32,
    /// The most attempts of its call.
    pub attempts: u8,
}

/// A deliberate mistake. The search must find each of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PermitVariant {
    /// Nothing: the protocol as it is specified.
    AsSpecified,
    /// A renewal overwrites the expiry of the holder and of the document.
    PlainSetInRenewal,
    /// A renewal prolongs for the ttl in the document.
    RenewalForStoredTtl,
    /// A fast attempt does not see that its caller holds already.
    FastAttemptAddsAgain,
    /// A repeated attempt does not find its caller's grant, and adds another.
    AttemptAddsAgain,
    /// A renewal puts a holder back that was removed.
    RenewalRevives,
    /// A release that does not find its holder frees a permit all the same, as a counter would.
    ReleaseCountsDown,
    /// A waiter that fits passes one that does not.
    PassesWaiters,
    /// A promotion is valid from when the client hears of it.
    PromotionFromHearing,
    /// An admission is valid for the waiter's own term, whatever the server made of its entry.
    PromotionForOwnTerm,
    /// A promotion counts from `$$NOW`, also where that is older than the newest heartbeat.
    PromotionFromNow,
    /// The limit of the admitted call alone counts.
    OwnLimitOnly,
    /// A call that leaves the queue admits nobody.
    LeaverAdmitsNobody,
    /// The document expires with its newest holder.
    ExpiresWithNewest,
    /// Validity counts from when the reply comes.
    ValidityFromReply,
    /// A grant that is answered after its call has ended is forgotten.
    LateGrantForgotten,
    /// Where one holder has expired, all are removed.
    RemovesAllWithExpired,
    /// A late attempt for an exclusive lease is admitted as if its caller's own lease were free.
    OwnLeaseIsFree,
    /// A release tells nobody that the lease ends earlier than before.
    EarlierEndUntold,
}

impl PermitClient {
    /// Its request, by the rules.
    pub(crate) fn permits(self) -> Permits {
        match Permits::new(self.permits, self.limit) {
            Ok(permits) => permits,
            Err(defect) => unreachable!("the model's permits: {defect:?}"),
        }
    }
}

impl PermitBounds {
    /// Whether these clients may hold at the same time.
    pub(crate) fn fit(&self, clients: impl IntoIterator<Item = usize>) -> bool {
        let permits = clients.into_iter().map(|client| self.clients[client].permits());
        fit_together(&permits.collect::<Vec<_>>())
    }

    /// A client's own clock. Each starts at another time, and they are never compared.
    pub(crate) fn clock(&self, client: usize, tick: i64) -> Instant {
        const MS: u64 = 1_000_000;
        let offset = 1_000 * (client as u64 + 1);
        let ticks = u64::try_from(tick).unwrap_or(0);
        Instant::from_nanos((offset + ticks * RATE) * MS)
    }

    /// The library's own timing for this ttl and this maximum clock skew.
    pub(crate) fn timing(&self) -> Timing {
        match Timing::new(Bounds::ticks(TTL), Bounds::ticks(self.skew), None) {
            Ok(timing) => timing,
            Err(defect) => unreachable!("the model's timing: {defect:?}"),
        }
    }

    /// Renewals are steps of their own here, at any moment.
    pub(crate) fn hold_options() -> HoldOptions {
        HoldOptions { renews: false, max_hold: None }
    }

    pub(crate) fn is(&self, variant: PermitVariant) -> bool {
        self.variant == variant
    }
}

impl PermitVariant {
    /// Whether a waiter relies on a promotion for its own term, as in the model of exclusive leases.
    pub(crate) fn trusts_promotions(self) -> bool {
        matches!(
            self,
            PermitVariant::PromotionForOwnTerm
                | PermitVariant::PromotionFromHearing
                | PermitVariant::PromotionFromNow
        )
    }
}

impl Protections for PermitVariant {
    fn renewed_for(&self, stored: i64, carried: i64) -> i64 {
        if *self == PermitVariant::RenewalForStoredTtl {
            stored
        } else {
            AsBuilt.renewed_for(stored, carried)
        }
    }

    fn promoted_from(&self, now: i64, heartbeat_at: i64) -> i64 {
        if *self == PermitVariant::PromotionFromNow {
            now
        } else {
            AsBuilt.promoted_from(now, heartbeat_at)
        }
    }

    fn permit_renewed(&self, old: i64, until: i64) -> i64 {
        if *self == PermitVariant::PlainSetInRenewal {
            until
        } else {
            AsBuilt.permit_renewed(old, until)
        }
    }

    fn shared_expiry(&self, expiries: &[i64]) -> Option<i64> {
        if *self == PermitVariant::ExpiresWithNewest {
            expiries.last().copied()
        } else {
            AsBuilt.shared_expiry(expiries)
        }
    }

    fn fast_attempt_finds_own(&self) -> bool {
        *self != PermitVariant::FastAttemptAddsAgain && AsBuilt.fast_attempt_finds_own()
    }

    fn attempt_finds_own(&self) -> bool {
        *self != PermitVariant::AttemptAddsAgain && AsBuilt.attempt_finds_own()
    }

    fn limit_in_force(&self, before: i64, own: i64) -> i64 {
        if *self == PermitVariant::OwnLimitOnly { own } else { AsBuilt.limit_in_force(before, own) }
    }

    fn admits_in_order(&self) -> bool {
        *self != PermitVariant::PassesWaiters && AsBuilt.admits_in_order()
    }

    fn admits_when_leaving(&self) -> bool {
        *self != PermitVariant::LeaverAdmitsNobody && AsBuilt.admits_when_leaving()
    }

    fn removes_expired_only(&self) -> bool {
        *self != PermitVariant::RemovesAllWithExpired && AsBuilt.removes_expired_only()
    }

    fn keeps_own_lease(&self) -> bool {
        *self != PermitVariant::OwnLeaseIsFree && AsBuilt.keeps_own_lease()
    }

    fn tells_of_earlier_end(&self) -> bool {
        *self != PermitVariant::EarlierEndUntold && AsBuilt.tells_of_earlier_end()
    }
}
