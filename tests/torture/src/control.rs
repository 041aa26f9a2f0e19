//! The negative controls: what is broken on purpose, here and not in the crate.

use crate::check::Invariant;
use crate::nemesis::Choice;
use crate::worker;

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
    /// An acquire takes what expires within 1.5 s for free, on the wire.
    EarlyTakeOver,
    /// A grant and a renewal last for a minute longer than was asked for, on the wire.
    FarExpiry,
    /// Who joins stands first in line, and not last, on the wire.
    OutOfLine,
    /// A release takes the value away and the expiry, and leaves the document, on the wire.
    LeftDocument,
    /// A worker believes from the reply on, and asks nobody whether it has lost.
    ValidityFromReply,
    /// A worker takes its token from a later reply than the one that granted.
    RetriedToken,
    /// A worker waits for 2.5 s longer than it says.
    LateAnswer,
    /// The resource accepts whatever comes.
    OpenResource,
}

impl Control {
    /// The faults under which it shows soonest.
    pub(crate) fn nemeses(self) -> Choice {
        let names = match self {
            Control::W1 => "partition,replication+kill",
            Control::RenewalWithoutMax | Control::PromotionWithoutBeat => "lock",
            Control::ReleaseByName
            | Control::RetriedToken
            | Control::OpenResource
            | Control::EarlyTakeOver => "stop-worker",
            Control::FarExpiry | Control::OutOfLine | Control::LeftDocument => "kill-worker",
            Control::ValidityFromReply => "network,replication",
            Control::LateAnswer => "stop",
        };
        Choice::parse(names).expect("names of nemeses")
    }

    /// What it must break, all of it. Anything else that is found does not count for it.
    pub(crate) fn shows(self) -> &'static [Invariant] {
        match self {
            // What was confirmed and then taken back: a grant that is not in the oplog.
            Control::W1 => &[Invariant::Tokens],
            Control::RenewalWithoutMax => &[Invariant::Expiry],
            Control::ReleaseByName => &[Invariant::Removal],
            Control::PromotionWithoutBeat | Control::ValidityFromReply => &[Invariant::Belief],
            Control::EarlyTakeOver => &[Invariant::TakeOver, Invariant::Exclusion],
            Control::FarExpiry => &[Invariant::Abandoned],
            Control::OutOfLine => &[Invariant::Order],
            Control::LeftDocument => &[Invariant::LeftOver],
            Control::RetriedToken => &[Invariant::Tokens],
            Control::LateAnswer => &[Invariant::Deadline],
            Control::OpenResource => &[Invariant::Fence],
        }
    }

    /// Whether it is done to the commands on their way, and not by a worker or the resource.
    pub(crate) fn is_on_the_wire(self) -> bool {
        match self {
            Control::W1
            | Control::RenewalWithoutMax
            | Control::ReleaseByName
            | Control::PromotionWithoutBeat
            | Control::EarlyTakeOver
            | Control::FarExpiry
            | Control::OutOfLine
            | Control::LeftDocument => true,
            Control::ValidityFromReply
            | Control::RetriedToken
            | Control::LateAnswer
            | Control::OpenResource => false,
        }
    }

    /// For how long it is looked for at most, when all controls are gone through. What is left over is seen at the end
    /// alone, so there is no use in waiting for it.
    pub(crate) fn seconds(self) -> u64 {
        if self == Control::LeftDocument { 5 } else { 120 }
    }

    /// Of a hundred holders, so many hold on until they have lost, and release and write all the same: many, where that
    /// is what shows it.
    pub(crate) fn hold_on(self) -> u32 {
        match self {
            Control::ReleaseByName | Control::OpenResource | Control::RetriedToken => 40,
            Control::W1
            | Control::RenewalWithoutMax
            | Control::PromotionWithoutBeat
            | Control::EarlyTakeOver
            | Control::FarExpiry
            | Control::OutOfLine
            | Control::LeftDocument
            | Control::ValidityFromReply
            | Control::LateAnswer => worker::HOLD_ON,
        }
    }

    /// As it is named on the command line.
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
