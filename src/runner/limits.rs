//! How long commands and their attempts may take, and what is known of a call's earlier attempts.

use std::time::Duration;

use super::pace::Pace;
use crate::error::Failure;
use crate::rules::backoff::Delays;
use crate::rules::time::Instant;

/// How long a command may take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RetryPolicy {
    /// When an attempt has taken this long, another one goes out beside it.
    pub(crate) attempt: Duration,
    /// When the caller is answered at the latest.
    pub(crate) deadline: Instant,
    /// Between two attempts that failed.
    pub(crate) delays: Delays,
}

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

/// The reply of a command, and what is known of its earlier attempts.
#[derive(Clone, Debug)]
pub(crate) struct Answer<T> {
    pub(crate) reply: T,
    pub(crate) earlier: Earlier,
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
