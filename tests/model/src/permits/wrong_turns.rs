//! The deliberate mistakes with permits, each with its world and the claim that it breaks.

use crate::permits::bounds::{PermitBounds, PermitVariant as Variant};
use crate::permits::claims::PermitClaim;
use crate::permits::worlds;

/// A deliberate mistake.
#[derive(Clone, Debug)]
pub struct PermitWrongTurn {
    /// Its description.
    pub what: &'static str,
    /// The world in which it is found.
    pub bounds: PermitBounds,
    /// The claim that it breaks.
    pub claim: PermitClaim,
}

/// All of them.
#[must_use]
pub fn permit_wrong_turns() -> Vec<PermitWrongTurn> {
    let mut turns = in_admissions();
    turns.extend(in_renewals_and_releases());
    turns.extend(in_clients());
    turns
}

fn turn(
    what: &'static str,
    variant: Variant,
    world: fn() -> PermitBounds,
    claim: PermitClaim,
) -> PermitWrongTurn {
    PermitWrongTurn { what, bounds: PermitBounds { variant, ..world() }, claim }
}

fn in_admissions() -> Vec<PermitWrongTurn> {
    use PermitClaim::{
        DocumentNamesBelievers, ExpiresWithLast, HoldersFit, NobodyPasses, OneGrantEach,
    };
    vec![
        turn(
            "a fast attempt that does not look for its own",
            Variant::FastAttemptAddsAgain,
            worlds::two_attempts,
            OneGrantEach,
        ),
        turn(
            "a repeated attempt that adds",
            Variant::AttemptAddsAgain,
            worlds::two_attempts,
            OneGrantEach,
        ),
        turn(
            "passing a waiter that does not fit",
            Variant::PassesWaiters,
            worlds::both_between,
            NobodyPasses,
        ),
        turn(
            "the limit of the admitted call alone",
            Variant::OwnLimitOnly,
            worlds::limits_differ,
            HoldersFit,
        ),
        turn(
            "a document that expires with its newest holder",
            Variant::ExpiresWithNewest,
            worlds::two_attempts,
            ExpiresWithLast,
        ),
        turn(
            "all holders removed when one has expired",
            Variant::RemovesAllWithExpired,
            worlds::two_attempts,
            DocumentNamesBelievers,
        ),
        turn(
            "a late attempt to which its caller's own lease is free",
            Variant::OwnLeaseIsFree,
            worlds::writer_twice,
            DocumentNamesBelievers,
        ),
    ]
}

fn in_renewals_and_releases() -> Vec<PermitWrongTurn> {
    use PermitClaim::{DocumentNamesBelievers, EarlierEndIsTold, HoldersFit, NobodySleeps};
    vec![
        turn(
            "a plain $set in a renewal",
            Variant::PlainSetInRenewal,
            worlds::renewals,
            DocumentNamesBelievers,
        ),
        turn(
            "a renewal for the ttl in the document",
            Variant::RenewalForStoredTtl,
            worlds::damaged_numbers,
            DocumentNamesBelievers,
        ),
        turn(
            "a promotion for the waiter's own term",
            Variant::PromotionForOwnTerm,
            worlds::damaged_numbers,
            DocumentNamesBelievers,
        ),
        turn(
            "a renewal that puts back a removed holder",
            Variant::RenewalRevives,
            worlds::renewals,
            HoldersFit,
        ),
        turn(
            "a release that counts down",
            Variant::ReleaseCountsDown,
            worlds::repeated_releases,
            DocumentNamesBelievers,
        ),
        turn(
            "no heartbeatAt in a promotion",
            Variant::PromotionFromNow,
            worlds::one_twice,
            DocumentNamesBelievers,
        ),
        turn(
            "a give-up that admits nobody",
            Variant::LeaverAdmitsNobody,
            worlds::both_between,
            NobodySleeps,
        ),
        turn(
            "a release that tells nobody of an earlier end",
            Variant::EarlierEndUntold,
            worlds::readers_and_writer,
            EarlierEndIsTold,
        ),
    ]
}

fn in_clients() -> Vec<PermitWrongTurn> {
    use PermitClaim::{DocumentNamesBelievers, NothingStaysBehind};
    vec![
        turn(
            "a promotion that counts from when it is heard of",
            Variant::PromotionFromHearing,
            worlds::one_twice,
            DocumentNamesBelievers,
        ),
        turn(
            "validity counted from the reply",
            Variant::ValidityFromReply,
            worlds::two_attempts,
            DocumentNamesBelievers,
        ),
        turn(
            "a late grant that is forgotten",
            Variant::LateGrantForgotten,
            worlds::two_attempts,
            NothingStaysBehind,
        ),
    ]
}
