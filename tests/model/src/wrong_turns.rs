//! The deliberate mistakes, each with its world and the claim that it breaks.

mod late;
mod transactions;

use crate::bounds::{Bounds, Judges, Variant};
use crate::properties::Claim;
use crate::worlds::{self, attempts, renewals, rollback, smallest, unbounded};
use crate::worlds_of_lines as lines;

/// A deliberate mistake, or a case beyond what is promised.
#[derive(Clone, Debug)]
pub struct WrongTurn {
    /// Its description.
    pub what: &'static str,
    /// The world in which it is found.
    pub bounds: Bounds,
    /// The claim that it breaks.
    pub claim: Claim,
}

fn turn(what: &'static str, bounds: Bounds, claim: Claim) -> WrongTurn {
    WrongTurn { what, bounds, claim }
}

fn with(variant: Variant, bounds: Bounds) -> Bounds {
    Bounds { variant, ..bounds }
}

/// All of them: the mistakes, and then the cases beyond the bounds.
#[must_use]
pub fn wrong_turns() -> Vec<WrongTurn> {
    let mut turns = mistakes();
    turns.extend(late::mistakes());
    turns.extend(transactions::mistakes());
    turns.extend(mistakes_in_company());
    turns.extend(mistakes_when_cut_off());
    turns.extend(mistakes_with_damaged_documents());
    turns.extend(mistakes_in_promotions());
    turns.extend(mistakes_in_line());
    turns.extend(beyond_the_bounds());
    turns
}

fn mistakes() -> Vec<WrongTurn> {
    use Claim::{
        DocumentNamesBeliever, KeepsWhatIsHeld, LossIsFinal, NothingStaysBehind, OneBelieves,
        ReleasesOnlyOwn, TokensRise,
    };
    vec![
        turn(
            "a plain $set in a renewal",
            with(Variant::PlainSetInRenewal, renewals()),
            OneBelieves,
        ),
        turn(
            "a plain $set in a repeated acquire",
            with(Variant::PlainSetInRepeatedAcquire, attempts()),
            OneBelieves,
        ),
        turn(
            "validity counted from the reply",
            with(Variant::ValidityFromReply, smallest()),
            OneBelieves,
        ),
        turn("a retried token", with(Variant::RetriedToken, unbounded()), TokensRise),
        turn("a value used twice", with(Variant::ValueUsedTwice, smallest()), OneBelieves),
        turn(
            "w: 1 with a rollback, believers",
            with(Variant::AcknowledgedByOne, rollback()),
            OneBelieves,
        ),
        turn(
            "w: 1 with a rollback, tokens",
            with(Variant::AcknowledgedByOne, rollback()),
            TokensRise,
        ),
        turn(
            "w: 1 with a rollback, the document",
            with(Variant::AcknowledgedByOne, rollback()),
            DocumentNamesBeliever,
        ),
        turn("a release by name", with(Variant::ReleaseByName, smallest()), ReleasesOnlyOwn),
        turn(
            "a late grant that is forgotten",
            with(Variant::LateGrantForgotten, attempts()),
            NothingStaysBehind,
        ),
        turn(
            "a loss that a late renewal revokes",
            with(Variant::LossRevoked, renewals()),
            LossIsFinal,
        ),
        turn(
            "a lease that ends without its call",
            with(Variant::CallNotSettled, attempts()),
            NothingStaysBehind,
        ),
        turn("giving back at once", with(Variant::GivenBackAtOnce, attempts()), KeepsWhatIsHeld),
    ]
}

fn mistakes_in_company() -> Vec<WrongTurn> {
    use Claim::TokensRise;
    vec![
        turn(
            "many attempts in one command, without the look behind it",
            with(Variant::TakenWithoutLook, worlds::together_unbounded()),
            TokensRise,
        ),
        turn(
            "a look behind many attempts that may see what was before them",
            with(Variant::LookBefore, worlds::together_unbounded_rollback()),
            TokensRise,
        ),
        turn(
            "a look that takes a grant of an earlier attempt without an answer",
            with(Variant::TakenFromOtherAttempt, worlds::together_unbounded()),
            TokensRise,
        ),
    ]
}

fn mistakes_when_cut_off() -> Vec<WrongTurn> {
    use Claim::{
        LoserCannotCommit, NotHeldWasNotEnded, NothingStaysBehind, OneBelieves, ReleasedWasEnded,
        ReleasedWasHeld,
    };
    let judged_when_sent = Bounds { judges: Judges::WhenAnswered, ..worlds::releases_cut_off() };
    vec![
        turn(
            "a piece whose grant is valid from the piece's sending",
            with(Variant::ValidityFromPiece, worlds::cut_off()),
            OneBelieves,
        ),
        turn(
            "a piece with the identity of what was cut off",
            with(Variant::PieceWithOldId, worlds::cut_off_beside()),
            NothingStaysBehind,
        ),
        turn(
            "a piece with the identity of what was cut off, and a guard",
            with(Variant::PieceWithOldId, worlds::cut_off_unbounded()),
            LoserCannotCommit,
        ),
        turn(
            "a batch that goes on behind its error",
            with(Variant::CutOffGoesOn, worlds::cut_off()),
            NothingStaysBehind,
        ),
        turn(
            "a lease that is gone counts as released, whether it was valid or not",
            with(Variant::GoneIsReleased, worlds::releases_cut_off()),
            ReleasedWasHeld,
        ),
        turn(
            "a lease that is gone and was valid when its release was sent counts as ended by it",
            with(Variant::JudgedWhenSent, judged_when_sent),
            ReleasedWasEnded,
        ),
        turn(
            "a look behind releases that may see what was before them",
            with(Variant::LookBefore, worlds::releases_cut_off_rollback()),
            NotHeldWasNotEnded,
        ),
        turn(
            "what stands after a batch of releases is not released again",
            with(Variant::CutOffForgotten, worlds::releases_cut_off()),
            NothingStaysBehind,
        ),
    ]
}

/// Beliefs that rest on the numbers in the document, and writes to it, where another program may have damaged it.
fn mistakes_with_damaged_documents() -> Vec<WrongTurn> {
    vec![
        turn(
            "a release of a damaged document",
            with(Variant::DamagedReleased, worlds::damaged_expiry()),
            Claim::DamagedIsSpared,
        ),
        turn(
            "a release with waiters of a damaged document",
            with(Variant::DamagedReleased, lines::line_with_damaged_expiry()),
            Claim::DamagedIsSpared,
        ),
        turn(
            "a renewal for the ttl in the document",
            with(Variant::RenewalForStoredTtl, worlds::damaged_numbers()),
            Claim::OneBelieves,
        ),
        turn(
            "a promotion for the waiter's own term",
            with(Variant::PromotionForOwnTerm, lines::damaged_line()),
            Claim::OneBelieves,
        ),
    ]
}

fn mistakes_in_promotions() -> Vec<WrongTurn> {
    use Claim::{DocumentNamesBeliever, OneBelieves};
    vec![
        turn(
            "a promotion that is valid from when it is heard of",
            with(Variant::PromotionFromHearing, lines::rival()),
            OneBelieves,
        ),
        turn(
            "a promotion without its grant's id",
            with(Variant::PromotionWithoutGrantId, lines::two_wait()),
            DocumentNamesBeliever,
        ),
        turn(
            "a late attempt to which its caller's own lease is free",
            with(Variant::OwnLeaseIsFree, lines::two_wait()),
            DocumentNamesBeliever,
        ),
        turn(
            "a promotion that counts from $$NOW alone",
            with(Variant::PromotionFromNow, lines::rival()),
            OneBelieves,
        ),
        turn(
            "a heartbeat that takes heartbeatAt back and keeps the echo",
            with(Variant::PlainBeatAt, lines::two_signs()),
            OneBelieves,
        ),
    ]
}

fn mistakes_in_line() -> Vec<WrongTurn> {
    use Claim::{
        FirstIsPromoted, LoserIsNotRenewed, NobodyBarges, NobodySleeps, NothingStaysBehind,
        OrderIsKept, SignsCount, WaitsEnd,
    };
    vec![
        turn(
            "a heartbeat that shortens a waiter_ttl",
            with(Variant::PlainLife, lines::one_waits()),
            SignsCount,
        ),
        turn(
            "a renewal by value only",
            with(Variant::RenewalWithoutGrantId, lines::unbounded_line()),
            LoserIsNotRenewed,
        ),
        turn(
            "a give-up that ends nothing",
            with(Variant::LeaverEndsNothing, lines::gives_up()),
            NothingStaysBehind,
        ),
        turn(
            "a give-up that is sent once",
            with(Variant::LeavesOnce, lines::gives_up()),
            NothingStaysBehind,
        ),
        turn(
            "a tombstone is the holder's still",
            with(Variant::TombstoneAsItWas, worlds::tombstones(renewals())),
            NothingStaysBehind,
        ),
        turn(
            "a release without a waiter that does not free",
            with(Variant::FreesNothing, lines::gives_up()),
            NothingStaysBehind,
        ),
        turn("barging", with(Variant::Barging, lines::rival()), NobodyBarges),
        turn(
            "barging in the short form",
            with(Variant::Barging, lines::short_in_line()),
            NobodyBarges,
        ),
        turn(
            "waiting to be told",
            with(Variant::WaitsToBeTold, lines::broken_stream()),
            NobodySleeps,
        ),
        turn(
            "a stream that breaks unnoticed",
            with(Variant::BrokenStreamUnnoticed, lines::broken_stream()),
            NobodySleeps,
        ),
        turn(
            "waiting to be told, in time",
            with(Variant::WaitsToBeTold, lines::prompt()),
            WaitsEnd,
        ),
        turn(
            "a lease to which the last waiter is promoted",
            with(Variant::LastPromoted, lines::two_wait()),
            FirstIsPromoted,
        ),
        turn(
            "asking again at the end of the line",
            with(Variant::AskedAgainAtTheEnd, lines::broken_stream()),
            OrderIsKept,
        ),
    ]
}

/// Cases that are not promised. They show that the promised bounds are needed.
fn beyond_the_bounds() -> Vec<WrongTurn> {
    use Claim::{NothingStaysBehind, OneBelieves};
    vec![
        turn(
            "a connection that breaks before its command is carried out",
            worlds::overtaken_by_its_release(),
            NothingStaysBehind,
        ),
        turn("a clock slower than the margin covers", worlds::clock_too_slow(), OneBelieves),
        turn("members' clocks too far apart", worlds::clocks_too_far_apart(), OneBelieves),
    ]
}
