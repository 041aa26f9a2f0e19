//! Whether a change stream tells waiters of their promotions.

use mongo_lease_core::rules::Instant;

use crate::token::Token;

/// The state of the change stream that reports promotions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stream {
    /// No waiter has needed it.
    Closed,
    /// It is being opened, and will report events from this oplog time on.
    Wanted { since: Option<Token> },
    /// It reports events from `since` on, and in any case events after `opened`.
    Open { since: Option<Token>, opened: Instant },
    /// It does not work.
    Absent,
}

impl Stream {
    /// Whether the stream may have missed this waiter's promotion.
    ///
    /// Its attempt was sent at `sent`, and joined at oplog time `at`.
    pub(super) fn may_have_missed(self, sent: Instant, at: Option<Token>) -> bool {
        match self {
            // No waiter relies on an absent stream. After one with an unknown start is opened, every waiter sends an
            // attempt.
            Stream::Closed | Stream::Absent | Stream::Wanted { since: None } => false,
            Stream::Wanted { since } => at < since,
            Stream::Open { since, opened } => sent < opened && (since.is_none() || at < since),
        }
    }
}
