//! Deliberate mistakes, which the simulation must find. They exist under a private feature alone.

#[cfg(feature = "__mistakes")]
use std::cell::Cell;

/// A mistake in what goes on over time.
#[cfg_attr(not(feature = "__mistakes"), allow(unreachable_pub))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mistake {
    /// The slot of a first attempt is not given back.
    SlotKept,
    /// The answers of a batch go to the next call each.
    AnswersShifted,
    /// An attempt is counted twice.
    AttemptCountedTwice,
    /// A release believes the hint about the form of its lease.
    HintBelieved,
    /// A renewal that failed is not tried again.
    RenewalForgotten,
    /// A heartbeat leaves one of its entries out.
    EntrySkipped,
    /// A shutdown forgets one of the leases.
    LeaseForgotten,
    /// A promotion is accepted by each call of its process that waits for the lease.
    PromotionShared,
    /// The things that a caller drops are not given back.
    DroppedKept,
    /// A turn is not passed on to the next call.
    TurnKept,
    /// A possible grant of an attempt is given back at once, also while the caller holds.
    GivenBackAtOnce,
    /// A grant that a cut-off command made counts from the sending of a later piece.
    PieceCountsAnew,
    /// A piece of a cut-off command has the ids of that command.
    PieceKeepsIds,
    /// A write that no majority has is believed in.
    BelievedAtOnce,
    /// A write is confirmed by its id alone.
    EchoIgnored,
    /// A write is confirmed by whatever another primary shows.
    AnyAnswerConfirms,
    /// An attempt that waits for a majority is repeated.
    AppliedRepeated,
    /// An acquire does not wait for the release of what its process has dropped.
    DropNotAwaited,
}

#[cfg(feature = "__mistakes")]
thread_local! {
    static MADE: Cell<Option<Mistake>> = const { Cell::new(None) };
}

/// Makes this mistake from now on, in this thread alone.
#[cfg(feature = "__mistakes")]
pub fn make(mistake: Option<Mistake>) {
    MADE.set(mistake);
}

/// Whether this mistake is made.
#[cfg(feature = "__mistakes")]
pub(crate) fn is_made(mistake: Mistake) -> bool {
    MADE.get() == Some(mistake)
}

/// Whether this mistake is made: never.
#[cfg(not(feature = "__mistakes"))]
pub(crate) const fn is_made(_mistake: Mistake) -> bool {
    false
}
