//! Beliefs in a write that is applied, and that the next primary has not got.

use super::{WrongTurn, turn, with};
use crate::bounds::Variant;
use crate::properties::Claim;
use crate::worlds;

pub(super) fn mistakes() -> Vec<WrongTurn> {
    vec![
        turn(
            "a grant that is believed before a majority has it",
            with(Variant::AcknowledgedByOne, worlds::late_majority()),
            Claim::OneBelieves,
        ),
        turn(
            "a grant that is confirmed by what the primary alone has",
            with(Variant::ConfirmedByPrimary, worlds::late_majority()),
            Claim::OneBelieves,
        ),
        turn(
            "a renewal that is confirmed without its echo",
            with(Variant::ConfirmedWithoutEcho, worlds::late_majority_renewal()),
            Claim::OneBelieves,
        ),
    ]
}
