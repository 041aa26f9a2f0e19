//! The negative controls: what is broken on purpose, here and not in the crate.

use crate::check::Invariant;
use crate::nemesis::Choice;

/// One thing that is broken. The same run must find it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Control {
    /// The write concern of every command becomes `{w: 1}`, on the wire.
    W1,
    /// A renewal sets the expiry as it is, and may set it back, on the wire.
    RenewalWithoutMax,
    /// A release matches the name alone, on the wire.
    ReleaseByName,
    /// A promotion counts from the server's clock alone, not from the newest sign of life, on the wire.
    PromotionWithoutBeat,
    /// A worker believes from the reply on, and asks nobody whether it has lost.
    ValidityFromReply,
    /// A worker takes its token from a later reply than the one that granted.
    RetriedToken,
}

impl Control {
    /// The faults under which it shows soonest.
    pub(crate) fn nemeses(self) -> Choice {
        let names = match self {
            Control::W1 => "partition,replication+kill",
            Control::RenewalWithoutMax | Control::PromotionWithoutBeat => "lock",
            Control::ReleaseByName | Control::RetriedToken => "stop-worker",
            Control::ValidityFromReply => "network,replication",
        };
        Choice::parse(names).expect("names of nemeses")
    }

    /// What it must break. Anything else that is found does not count for it.
    pub(crate) fn shows(self) -> &'static [Invariant] {
        match self {
            // What was confirmed and then taken back: grants, renewals, releases.
            Control::W1 => {
                &[Invariant::Exclusion, Invariant::Tokens, Invariant::Removal, Invariant::Belief]
            }
            Control::RenewalWithoutMax => &[Invariant::Expiry],
            Control::ReleaseByName => &[Invariant::Removal, Invariant::Exclusion],
            Control::PromotionWithoutBeat | Control::ValidityFromReply => {
                &[Invariant::Belief, Invariant::Exclusion]
            }
            Control::RetriedToken => &[Invariant::Tokens, Invariant::Fence],
        }
    }

    /// Whether it is done to the commands on their way, and not by the workers.
    pub(crate) fn is_on_the_wire(self) -> bool {
        match self {
            Control::W1
            | Control::RenewalWithoutMax
            | Control::ReleaseByName
            | Control::PromotionWithoutBeat => true,
            Control::ValidityFromReply | Control::RetriedToken => false,
        }
    }

    /// As it is named on the command line.
    pub(crate) fn name(self) -> String {
        clap::ValueEnum::to_possible_value(&self)
            .map(|value| value.get_name().to_owned())
            .unwrap_or_default()
    }
}
