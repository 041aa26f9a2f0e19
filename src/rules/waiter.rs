//! What one acquire call does next.

use std::time::Duration;

use super::time::Instant;

/// How far behind a lease's end the next look at it comes: the database counts whole milliseconds.
const BEHIND_EXPIRY: Duration = Duration::from_millis(1);

/// What a waiting call does after it has been refused.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Ask again at this moment.
    AskAt(Instant),
    /// Wait until the deadline, and give up.
    GiveUpAt(Instant),
}

/// What to do after a refusal by a holder whose lease runs out in `remaining`.
///
/// Asks again after `delay`, or as soon as the lease has run out, whichever comes first: a holder that has crashed is
/// followed at once, and nobody waits for the server to remove its document.
pub(crate) fn after_refusal(
    now: Instant,
    delay: Duration,
    remaining: Option<Duration>,
    deadline: Instant,
) -> Next {
    let by_delay = now.after(delay);
    let at = match remaining {
        Some(remaining) => by_delay.min(now.after(remaining).after(BEHIND_EXPIRY)),
        None => by_delay,
    };
    if at < deadline { Next::AskAt(at) } else { Next::GiveUpAt(deadline) }
}
