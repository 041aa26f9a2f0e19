//! Mistakes in transactions under a lease.

use super::{WrongTurn, turn, with};
use crate::bounds::Variant;
use crate::properties::Claim::{CommittedOnce, LoserCannotCommit, RenewedInTransaction};
use crate::worlds::unbounded;
use crate::worlds_of_transactions::{guards_last, guards_last_unbounded};

pub(super) fn mistakes() -> Vec<WrongTurn> {
    vec![
        turn(
            "a guard by name and value only",
            with(Variant::GuardWithoutGrantId, unbounded()),
            LoserCannotCommit,
        ),
        turn(
            "a guard that writes nothing",
            with(Variant::GuardThatWritesNothing, unbounded()),
            LoserCannotCommit,
        ),
        turn(
            "a commit without a guard",
            with(Variant::CommitWithoutGuard, guards_last_unbounded()),
            LoserCannotCommit,
        ),
        turn(
            "a guard after the commit",
            with(Variant::GuardAfterCommit, guards_last_unbounded()),
            LoserCannotCommit,
        ),
        turn(
            "a guard that is repeated with its commit",
            with(Variant::GuardWithRepeatedCommit, guards_last()),
            CommittedOnce,
        ),
        turn(
            "renewals that a transaction holds back for ever",
            with(Variant::HeldBackForEver, guards_last()),
            RenewedInTransaction,
        ),
    ]
}
