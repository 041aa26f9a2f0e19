//! A transaction after its first `commitTransaction`: when that is repeated, and what is known.
//!
//! 1. Only the commit is repeated, never the guard: the transaction may be committed already.
//! 2. "Not committed" is said only where the server has said it.
//! 3. The answer comes by the bound, whatever the server does.

use std::time::Duration;

use super::{Instant, Outcome};

/// How long a commit is repeated, from its first sending. A failover takes less than half of this.
pub const COMMIT_TIMEOUT: Duration = Duration::from_secs(30);

/// The labels by which drivers tell what a failed commit means, as their specification of transactions has them.
const UNKNOWN_COMMIT_RESULT: &str = "UnknownTransactionCommitResult";
const TRANSIENT_ERROR: &str = "TransientTransactionError";

const MAX_TIME_MS_EXPIRED: i32 = 50;

/// One answer to `commitTransaction`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CommitAnswer {
    /// A majority has the transaction.
    Committed,
    /// The server, or the driver, does not know. The driver's rules say whether the commit may be repeated.
    Unknown {
        /// It may be sent again.
        may_repeat: bool,
    },
    /// The server has aborted the transaction: to repeat all of it may help.
    Aborted,
    /// The server refuses the commit, and nothing of it was carried out.
    Refused,
}

impl CommitAnswer {
    /// The meaning of an error, by its labels, its code, and what it says of a single write.
    pub fn of_error(
        has_label: impl Fn(&str) -> bool,
        code: Option<i32>,
        outcome: Outcome,
    ) -> CommitAnswer {
        if has_label(UNKNOWN_COMMIT_RESULT) {
            return CommitAnswer::Unknown { may_repeat: code != Some(MAX_TIME_MS_EXPIRED) };
        }
        if has_label(TRANSIENT_ERROR) {
            return CommitAnswer::Aborted;
        }
        match outcome.maybe_applied {
            true => CommitAnswer::Unknown { may_repeat: false },
            false => CommitAnswer::Refused,
        }
    }
}

/// The end of the commit, as far as it is known, or its repetition.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CommitAction {
    /// Send the commit again after this pause.
    Repeat(Duration),
    /// It is committed.
    Committed,
    /// It is not committed.
    NotCommitted,
    /// The outcome is unknown, and nothing more is sent.
    GiveUp,
}

/// A commit that was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Commit {
    deadline: Instant,
    /// An earlier answer was that nobody knows.
    is_doubtful: bool,
}

impl Commit {
    /// A commit that is sent `now`.
    pub fn sent(now: Instant) -> Commit {
        Commit { deadline: now.after(COMMIT_TIMEOUT), is_doubtful: false }
    }

    /// When its caller is told at the latest.
    pub fn deadline(&self) -> Instant {
        self.deadline
    }

    /// Takes an answer, and returns what it means. `pause` is how long to wait before a repetition.
    pub fn on(&mut self, now: Instant, answer: CommitAnswer, pause: Duration) -> CommitAction {
        match answer {
            CommitAnswer::Committed => CommitAction::Committed,
            // A server that has committed a transaction says so to each repetition.
            CommitAnswer::Aborted => CommitAction::NotCommitted,
            CommitAnswer::Refused if self.is_doubtful => CommitAction::GiveUp,
            CommitAnswer::Refused => CommitAction::NotCommitted,
            CommitAnswer::Unknown { may_repeat } => {
                self.is_doubtful = true;
                match may_repeat && now.after(pause) < self.deadline {
                    true => CommitAction::Repeat(pause),
                    false => CommitAction::GiveUp,
                }
            }
        }
    }
}
