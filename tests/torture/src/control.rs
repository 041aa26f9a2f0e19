//! The negative controls: deliberate mistakes in the suite, not in the crate.

use mongo_lease_checker::Invariant;

use crate::arguments::Options;
use crate::nemesis::Choice;
use crate::worker;

/// A deliberate mistake. The same run must find it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Control {
    /// The write concern of every command becomes `{w: 1}`, on the wire.
    W1,
    /// A renewal overwrites the expiry, and may set it back, on the wire.
    RenewalWithoutMax,
    /// A release matches the name alone, on the wire.
    ReleaseByName,
    /// An acquire takes a lease that expires within 1.5 s for a free one, on the wire.
    EarlyTakeOver,
    /// A grant and a renewal last a minute longer than requested, on the wire.
    FarExpiry,
    /// A new waiter joins at the front of the queue, and not at its end, on the wire.
    OutOfLine,
    /// A release removes the value and the expiry, and leaves the document, on the wire.
    LeftDocument,
    /// A worker counts validity from the reply, and does not check whether it has lost.
    ValidityFromReply,
    /// A worker takes its token from a later reply than the one that granted.
    RetriedToken,
    /// A worker waits for 2.5 s longer than it reports.
    LateAnswer,
    /// A worker makes a call that waits 4.5 s later than it reports.
    HeldBack,
    /// The resource accepts every write.
    OpenResource,
    /// Permits fit if they exceed the smallest limit by one, on the wire.
    OneTooMany,
    /// The first attempt of a call for a share ignores an exclusive holder, on the wire.
    ReaderBesideWriter,
    /// A document that several hold expires with its first holder, and not with its last one, on the wire.
    FirstExpiry,
    /// A worker keeps the first token that it got for each lease.
    KeptToken,
    /// The first attempt of a call for permits ignores the queue, on the wire.
    Barging,
    /// No waiter is admitted before all holders have gone, on the wire.
    EmptyFirst,
    /// A worker renews by the stored ttl, and believes in each renewal that found its lease, whatever expiry it left.
    StoredTtl,
    /// A worker makes no more calls at once than usual, and keeps the others in a line of its own, beside their waits.
    OwnLine,
    /// The last holder's release leaves the document of a lease that several hold, without an expiry, on the wire.
    LeftShare,
    /// A worker's transactions are the driver's own, and commit when the lease may be released.
    UnguardedTransaction,
}

impl Control {
    /// The faults under which the mistake shows soonest.
    pub(crate) fn nemeses(self) -> Choice {
        let names = match self {
            Control::W1 => "partition,replication+kill",
            Control::RenewalWithoutMax => "lock",
            Control::ReleaseByName
            | Control::RetriedToken
            | Control::OpenResource
            | Control::EarlyTakeOver
            | Control::FirstExpiry
            | Control::ReaderBesideWriter
            | Control::OneTooMany
            | Control::UnguardedTransaction
            | Control::KeptToken => "stop-worker",
            Control::FarExpiry
            | Control::OutOfLine
            | Control::LeftDocument
            | Control::Barging
            | Control::EmptyFirst
            | Control::HeldBack
            | Control::LeftShare => "kill-worker",
            Control::ValidityFromReply => "network,replication",
            Control::LateAnswer => "stop",
            Control::StoredTtl => "damage",
            Control::OwnLine => "overload",
        };
        Choice::parse(names).expect("names of nemeses")
    }

    /// The invariants that the mistake must break, all of them. Other findings do not count for it.
    pub(crate) fn shows(self) -> &'static [Invariant] {
        match self {
            // A grant that was confirmed and then rolled back is not in the oplog.
            Control::W1 => &[Invariant::TokenTimes],
            Control::RenewalWithoutMax => &[Invariant::Expiry],
            Control::ReleaseByName => &[Invariant::Removal],
            Control::ValidityFromReply | Control::StoredTtl => &[Invariant::Belief],
            Control::EarlyTakeOver => &[Invariant::TakeOver, Invariant::Exclusion],
            Control::FarExpiry => &[Invariant::Abandoned],
            Control::OutOfLine => &[Invariant::Order],
            Control::LeftDocument => &[Invariant::LeftOver],
            Control::RetriedToken => &[Invariant::TokenTimes],
            Control::LateAnswer => &[Invariant::Deadline],
            Control::HeldBack => &[Invariant::Progress],
            Control::OwnLine => &[Invariant::Deadline, Invariant::Recovery],
            Control::OpenResource => &[Invariant::Fence],
            Control::OneTooMany => &[Invariant::Limit],
            Control::ReaderBesideWriter => &[Invariant::Sharing],
            Control::FirstExpiry => &[Invariant::Records],
            Control::KeptToken => &[Invariant::Tokens],
            Control::Barging => &[Invariant::Order],
            Control::EmptyFirst => &[Invariant::Gap],
            Control::LeftShare => &[Invariant::LeftOver],
            Control::UnguardedTransaction => &[Invariant::Transactions],
        }
    }

    /// Whether the mistake concerns permits and shares, and not exclusive leases.
    pub(crate) fn is_of_shares(self) -> bool {
        match self {
            Control::OneTooMany
            | Control::ReaderBesideWriter
            | Control::FirstExpiry
            | Control::KeptToken
            | Control::Barging
            | Control::EmptyFirst
            | Control::LeftShare => true,
            Control::W1
            | Control::RenewalWithoutMax
            | Control::ReleaseByName
            | Control::EarlyTakeOver
            | Control::FarExpiry
            | Control::OutOfLine
            | Control::LeftDocument
            | Control::ValidityFromReply
            | Control::RetriedToken
            | Control::LateAnswer
            | Control::HeldBack
            | Control::StoredTtl
            | Control::OwnLine
            | Control::UnguardedTransaction
            | Control::OpenResource => false,
        }
    }

    /// The options of its run: only calls for the leases that it concerns.
    pub(crate) fn with_its_leases(self, options: &Options) -> Options {
        let Options { tasks, shared_tasks, names, .. } = *options;
        let (tasks, shared_tasks) = match self.is_of_shares() {
            true => (0, shared_tasks.max(1)),
            false => (tasks.max(1), 0),
        };
        // Where calls travel together, a token is any time at which its holder held, so also that of a later reply.
        let tasks = if self == Control::RetriedToken { 1 } else { tasks };
        // Only the last release of a document can leave it there at the end, and only a delete does.
        let names = if self == Control::LeftDocument { names.max(20) } else { names };
        Options { tasks, shared_tasks, names, ..options.clone() }
    }

    /// Whether the mistake is made in the commands on the wire, and not by a worker or the resource.
    pub(crate) fn is_on_the_wire(self) -> bool {
        match self {
            Control::W1
            | Control::RenewalWithoutMax
            | Control::ReleaseByName
            | Control::EarlyTakeOver
            | Control::FarExpiry
            | Control::OutOfLine
            | Control::LeftDocument
            | Control::OneTooMany
            | Control::ReaderBesideWriter
            | Control::FirstExpiry
            | Control::Barging
            | Control::EmptyFirst
            | Control::LeftShare => true,
            Control::ValidityFromReply
            | Control::RetriedToken
            | Control::KeptToken
            | Control::LateAnswer
            | Control::HeldBack
            | Control::StoredTtl
            | Control::OwnLine
            | Control::UnguardedTransaction
            | Control::OpenResource => false,
        }
    }

    /// For how many seconds at most the mistake is searched for when all controls run. Remains are seen at the end
    /// alone, so there is no use in waiting for them.
    pub(crate) fn seconds(self) -> u64 {
        if matches!(self, Control::LeftDocument | Control::LeftShare) { 5 } else { 120 }
    }

    /// How many of a hundred holders hold on until they have lost, and release and write all the same: many, where that
    /// shows the mistake.
    pub(crate) fn hold_on(self) -> u32 {
        match self {
            Control::ReleaseByName
            | Control::OpenResource
            | Control::RetriedToken
            | Control::EmptyFirst => 40,
            Control::W1
            | Control::RenewalWithoutMax
            | Control::EarlyTakeOver
            | Control::FarExpiry
            | Control::OutOfLine
            | Control::LeftDocument
            | Control::ValidityFromReply
            | Control::LateAnswer
            | Control::HeldBack
            | Control::StoredTtl
            | Control::OwnLine
            | Control::OneTooMany
            | Control::ReaderBesideWriter
            | Control::FirstExpiry
            | Control::KeptToken
            | Control::Barging
            | Control::UnguardedTransaction
            | Control::LeftShare => worker::HOLD_ON,
        }
    }

    /// Its name on the command line.
    pub(crate) fn name(self) -> String {
        clap::ValueEnum::to_possible_value(&self)
            .map(|value| value.get_name().to_owned())
            .unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum;

    use super::*;

    #[test]
    fn every_invariant_has_a_control_that_must_find_it() {
        for invariant in Invariant::ALL {
            let finds = |control: &Control| control.shows().contains(&invariant);
            assert!(Control::value_variants().iter().any(finds), "{invariant:?}");
        }
    }
}
