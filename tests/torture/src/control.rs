//! The negative controls: deliberate mistakes in the suite, not in the crate. The simulation has each of them too, and
//! many more. These show that the history of real processes and a real oplog is read as it was.

use mongo_lease_checker::Invariant;

use crate::arguments::Options;
use crate::nemesis::Choice;
use crate::worker;

/// A deliberate mistake. The same run must find it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Control {
    /// The write concern of every command becomes `{w: 1}`, on the wire.
    W1,
    /// A release matches the name alone, on the wire.
    ReleaseByName,
    /// Permits fit if they exceed the smallest limit by one, on the wire.
    OneTooMany,
    /// A worker counts validity from the reply, and does not check whether it has lost.
    ValidityFromReply,
    /// The resource accepts every write.
    OpenResource,
    /// A worker's transactions are the driver's own, and commit when the lease may be released.
    UnguardedTransaction,
}

impl Control {
    /// The faults under which the mistake shows soonest.
    pub(crate) fn nemeses(self) -> Choice {
        let names = match self {
            Control::W1 => "partition,partition+kill",
            Control::ReleaseByName
            | Control::OpenResource
            | Control::OneTooMany
            | Control::UnguardedTransaction => "stop-worker",
            Control::ValidityFromReply => "network",
        };
        Choice::parse(names).expect("names of nemeses")
    }

    /// The invariant that the mistake must break. Other findings do not count for it.
    pub(crate) fn shows(self) -> Invariant {
        match self {
            // A grant that was confirmed and then rolled back is not in the oplog.
            Control::W1 => Invariant::TokenTimes,
            Control::ReleaseByName => Invariant::Removal,
            Control::OneTooMany => Invariant::Limit,
            Control::ValidityFromReply => Invariant::Belief,
            Control::OpenResource => Invariant::Fence,
            Control::UnguardedTransaction => Invariant::Transactions,
        }
    }

    /// The options of its run: only calls for the leases that it concerns.
    pub(crate) fn with_its_leases(self, options: &Options) -> Options {
        let Options { tasks, shared_tasks, .. } = *options;
        let (tasks, shared_tasks) = match self {
            Control::OneTooMany => (0, shared_tasks.max(1)),
            Control::W1
            | Control::ReleaseByName
            | Control::ValidityFromReply
            | Control::OpenResource
            | Control::UnguardedTransaction => (tasks.max(1), 0),
        };
        Options { tasks, shared_tasks, ..options.clone() }
    }

    /// How many of a hundred holders hold on until they have lost, and release and write all the same: many, where that
    /// shows the mistake.
    pub(crate) fn hold_on(self) -> u32 {
        match self {
            Control::ReleaseByName | Control::OpenResource => 40,
            Control::W1
            | Control::OneTooMany
            | Control::ValidityFromReply
            | Control::UnguardedTransaction => worker::HOLD_ON,
        }
    }

    /// Its name on the command line.
    pub(crate) fn name(self) -> String {
        clap::ValueEnum::to_possible_value(&self)
            .map(|value| value.get_name().to_owned())
            .unwrap_or_default()
    }
}
