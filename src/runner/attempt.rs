//! The limits of one attempt, and the possible effects of earlier attempts.

use super::pace::Pace;
use crate::commands::failure::Failure;
use crate::rules::time::Instant;

/// The limits of one attempt.
#[derive(Clone, Debug)]
pub(crate) struct AttemptLimits {
    /// When the caller stops waiting for it.
    pub(crate) deadline: Instant,
    /// Bounds the server's time for the command; `None` if only the deadline does.
    pub(crate) pace: Option<Pace>,
    /// Whether its one document is known to be held up.
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
    /// The server cut one off because of a held-up document. It may have been applied before that, and does nothing
    /// more.
    CutOff,
    /// One was not answered, or not confirmed by a majority. It may have been applied, or still may be.
    Unanswered,
}

impl Earlier {
    /// The effect of an attempt that failed in this way.
    pub(crate) fn of(failure: &Failure) -> Earlier {
        match failure.outcome.maybe_applied {
            false => Earlier::NotApplied,
            true if failure.is_held_up() => Earlier::CutOff,
            true => Earlier::Unanswered,
        }
    }
}
