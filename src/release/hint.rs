//! The commands of a release, in the order in which they are sent.

use mongo_lease_core::info::LeaseInfo;
use mongo_lease_core::rules::Permits;
use mongo_lease_core::spec::EndScope;

/// The state in which a release is likely to find its grant. A wrong guess costs a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReleaseHint {
    /// The only holder, with an empty queue.
    Alone,
    /// A holder beside others, or with waiters.
    BesideOthers,
    /// Nobody knows whether it holds or waits. The release also takes the entry out of the queue.
    MaybeQueued {
        /// Whether it is more likely to hold, alone.
        is_alone: bool,
    },
}

/// One command that ends grants. A release sends them in turn until one of them matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReleaseStep {
    /// Deletes the document or makes it a tombstone, where the holder is alone.
    Free,
    /// Ends the grant and admits waiters.
    End(EndScope),
}

impl ReleaseHint {
    pub(super) fn steps(self) -> &'static [ReleaseStep] {
        const FREE: ReleaseStep = ReleaseStep::Free;
        const BESIDE_OTHERS: ReleaseStep = ReleaseStep::End(EndScope::BesideOthers);
        const ANYWHERE: ReleaseStep = ReleaseStep::End(EndScope::Anywhere);
        const HELD_OR_QUEUED: ReleaseStep = ReleaseStep::End(EndScope::HeldOrQueued);
        match self {
            ReleaseHint::Alone => &[FREE, ANYWHERE],
            ReleaseHint::BesideOthers => &[BESIDE_OTHERS, FREE, ANYWHERE],
            ReleaseHint::MaybeQueued { is_alone: true } => &[FREE, HELD_OR_QUEUED],
            ReleaseHint::MaybeQueued { is_alone: false } => &[HELD_OR_QUEUED],
        }
    }

    /// For a grant that a reply has shown, with these permits.
    pub(crate) fn of_grant(permits: Permits, info: &LeaseInfo) -> ReleaseHint {
        let is_only_holder = permits.is_exclusive() || info.in_use == Some(permits.count());
        match is_only_holder && info.waiting == 0 {
            true => ReleaseHint::Alone,
            false => ReleaseHint::BesideOthers,
        }
    }
}
