//! The limits of one attempt, and what is known of the attempts before it.

use super::pace::Pace;
use crate::commands::failure::Failure;
use crate::rules::time::Instant;

/// How one attempt goes.
#[derive(Clone, Debug)]
pub(crate) struct AttemptLimits {
    /// When nobody waits for it any more.
    pub(crate) deadline: Instant,
    /// For how long the server may work on it; nothing where the deadline alone says so.
    pub(crate) pace: Option<Pace>,
    /// Whether the one document that it is about is known to be held up.
    pub(crate) is_held_up: bool,
}

impl From<Instant> for AttemptLimits {
    fn from(deadline: Instant) -> AttemptLimits {
        AttemptLimits { deadline, pace: None, is_held_up: false }
    }
}

/// The most that an earlier attempt of a call may have done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Earlier {
    /// None of them was applied.
    NotApplied,
    /// One that the server cut off for a held-up document may have been applied. Nothing of it will be any more.
    CutOff,
    /// One was not answered, or not confirmed by a majority. It may have been applied, or may be yet.
    Unanswered,
}

impl Earlier {
    /// The same for an attempt that failed so.
    pub(crate) fn of(failure: &Failure) -> Earlier {
        match failure.outcome.maybe_applied {
            false => Earlier::NotApplied,
            true if failure.is_held_up() => Earlier::CutOff,
            true => Earlier::Unanswered,
        }
    }
}
