//! The commands of a release, in the order in which they are sent.

use mongo_lease_core::commands::permits::ReleaseScope;
use mongo_lease_core::commands::release::HandOffTo;
use mongo_lease_core::info::LeaseInfo;
use mongo_lease_core::rules::permits::Permits;

use super::share::ShareStep;

/// The state in which a release is likely to find its lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReleaseHint {
    /// Held, with an empty queue.
    NoWaiters,
    /// Held, with waiters.
    HasWaiters,
    /// Held or in the queue: the release also removes the queue entry.
    HeldOrQueued,
    /// In the queue.
    Queued,
    /// Permits or a share, with no other holder and an empty queue.
    LastShare,
    /// Permits or a share, beside other holders and with an empty queue.
    OneOfShares,
    /// Held, with an empty queue, and other holders of this name have asked for permits or a share.
    NoWaitersAmongShares,
    /// Held, where some of the waiters ask for permits or a share.
    AmongShares,
    /// The same, or in the queue: the release also removes the queue entry.
    AmongSharesOrQueued,
}

/// One command that ends leases. A release sends them in turn until one of them matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReleaseStep {
    Batched(BatchedStep),
    Share(ShareStep),
}

/// A command that may be about many leases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BatchedStep {
    Free,
    HandOff(HandOffTo),
}

const FREE: ReleaseStep = ReleaseStep::Batched(BatchedStep::Free);
const HAND_OFF_IF_ALIVE: ReleaseStep = hand_off(HandOffTo::LiveWaiter);
const HAND_OFF: ReleaseStep = hand_off(HandOffTo::LiveWaiterOrNobody);
const LEAVE: ReleaseStep = hand_off(HandOffTo::AfterLeavingQueue);
const DELETE_LAST: ReleaseStep = ReleaseStep::Share(ShareStep::DeleteLast);
const END_ONE: ReleaseStep = ReleaseStep::Share(ShareStep::EndOne);
/// It ends what a hand-off leaves: an exclusive lease for which somebody waits who asks for a share.
const ADMIT: ReleaseStep = ReleaseStep::Share(ShareStep::EndAndAdmit(ReleaseScope::Grant));
const ADMIT_OR_LEAVE: ReleaseStep =
    ReleaseStep::Share(ShareStep::EndAndAdmit(ReleaseScope::GrantOrEntry));

const fn hand_off(to: HandOffTo) -> ReleaseStep {
    ReleaseStep::Batched(BatchedStep::HandOff(to))
}

impl ReleaseHint {
    pub(super) fn steps(self, tombstones: bool) -> &'static [ReleaseStep] {
        match self {
            ReleaseHint::NoWaiters => &[FREE, HAND_OFF],
            ReleaseHint::HasWaiters => &[HAND_OFF_IF_ALIVE, FREE, HAND_OFF],
            ReleaseHint::HeldOrQueued => &[FREE, LEAVE],
            ReleaseHint::Queued => &[LEAVE],
            ReleaseHint::LastShare if !tombstones => &[DELETE_LAST, ADMIT],
            ReleaseHint::LastShare | ReleaseHint::OneOfShares => &[END_ONE, ADMIT],
            ReleaseHint::NoWaitersAmongShares => &[FREE, ADMIT],
            ReleaseHint::AmongShares => &[ADMIT],
            ReleaseHint::AmongSharesOrQueued => &[ADMIT_OR_LEAVE],
        }
    }

    /// The step after one whose command found the lease and left it to the general form.
    pub(super) fn general(self) -> &'static [ReleaseStep] {
        match self {
            ReleaseHint::HeldOrQueued | ReleaseHint::Queued | ReleaseHint::AmongSharesOrQueued => {
                &[ADMIT_OR_LEAVE]
            }
            ReleaseHint::NoWaiters
            | ReleaseHint::HasWaiters
            | ReleaseHint::LastShare
            | ReleaseHint::OneOfShares
            | ReleaseHint::NoWaitersAmongShares
            | ReleaseHint::AmongShares => &[ADMIT],
        }
    }

    /// The same of a name that is used for permits or shares too. Then the last step is the likeliest one.
    pub(super) fn among_shares(self) -> ReleaseHint {
        match self {
            ReleaseHint::NoWaiters => ReleaseHint::NoWaitersAmongShares,
            ReleaseHint::HasWaiters => ReleaseHint::AmongShares,
            ReleaseHint::HeldOrQueued | ReleaseHint::Queued => ReleaseHint::AmongSharesOrQueued,
            ReleaseHint::LastShare
            | ReleaseHint::OneOfShares
            | ReleaseHint::NoWaitersAmongShares
            | ReleaseHint::AmongShares
            | ReleaseHint::AmongSharesOrQueued => self,
        }
    }

    /// For a grant that a reply has shown, with these permits.
    pub(crate) fn of_grant(permits: Permits, info: &LeaseInfo) -> ReleaseHint {
        match (permits.is_exclusive(), info.waiting > 0) {
            (true, true) => ReleaseHint::HasWaiters,
            (true, false) => ReleaseHint::NoWaiters,
            (false, true) => ReleaseHint::AmongShares,
            (false, false) if info.in_use == Some(permits.count()) => ReleaseHint::LastShare,
            (false, false) => ReleaseHint::OneOfShares,
        }
    }

    /// For a promotion. It implies a queue; assume more waiters.
    pub(crate) fn of_promotion(permits: Permits) -> ReleaseHint {
        match permits.is_exclusive() {
            true => ReleaseHint::HasWaiters,
            false => ReleaseHint::AmongShares,
        }
    }
}
