//! What one acquire call does next while it waits in line.
//!
//! A waiter has an entry in the queue of the lease's document. A holder that lets go promotes the first entry that
//! lives, and a change event tells its waiter. Invariants:
//!
//! 1. A waiter always has a moment at which it asks again, whatever it hears or does not hear. Events only make it
//!    quicker: no wake-up can be lost for good.
//! 2. It believes in a promotion from the echo of its own clock on, and only for as long as the promotion grants. One
//!    whose echo is older than a refusal has been overtaken: then it asks.
//! 3. What it is answered, it was told by the server itself. That its entry has gone, or that the stream was broken,
//!    only makes it ask.

use std::time::Duration;

use super::time::Instant;
use super::timing::Timing;

/// How far behind a lease's end the next look at it comes: the database counts whole milliseconds.
const BEHIND_EXPIRY: Duration = Duration::from_millis(1);
/// Who stands further back in line looks so many times more seldom, where no stream tells.
const STEPS_BACK_MAX: u32 = 9;

/// One acquire call that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Waiter {
    deadline: Instant,
    ask_at: Instant,
    /// The newest refusal was asked for at this moment.
    refused_at: Instant,
    /// How long an entry counts after a sign of life.
    life: Duration,
}

/// What happens to a waiter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum WaitEvent {
    /// Time has passed.
    Timer,
    /// The server has refused.
    Refused(WaitRefusal),
    /// A change event says that the waiter was promoted.
    Promoted {
        /// The echo of the sign of life from which it counts.
        sent: Instant,
    },
    /// Something has changed that only the server can tell: the entry has gone, or the stream was broken.
    Recheck,
}

/// A refusal, and what chance and the state of the stream make of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct WaitRefusal {
    /// When it was asked for.
    pub(crate) sent: Instant,
    /// How many entries stand before ours.
    pub(crate) ahead: u32,
    /// For how long somebody else has the lease, as far as he has asked for.
    pub(crate) remaining: Option<Duration>,
    /// Whether a change stream will tell of a promotion.
    pub(crate) is_told: bool,
    /// After what time to look again where it does not.
    pub(crate) poll: Duration,
    /// After what time to look again in any case.
    pub(crate) poll_floor: Duration,
}

/// What a waiter does next.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum WaitAction {
    /// Ask the server.
    Acquire,
    /// Wait, and look at the clock again at this moment.
    WakeAt(Instant),
    /// Take what it was promoted to.
    TakePromotion,
    /// Its time is over.
    GiveUp,
}

impl Waiter {
    /// A call that asks at once.
    pub(crate) fn new(deadline: Instant, life: Duration) -> Waiter {
        Waiter { deadline, ask_at: Instant::START, refused_at: Instant::START, life }
    }

    /// The call that takes over the place in line of one that has given up.
    pub(crate) fn with_deadline(self, deadline: Instant) -> Waiter {
        Waiter { deadline, ..self }
    }

    /// Takes an event, and says what to do.
    pub(crate) fn on(&mut self, timing: &Timing, now: Instant, event: WaitEvent) -> WaitAction {
        match event {
            WaitEvent::Timer => {}
            WaitEvent::Refused(refusal) => {
                self.refused_at = self.refused_at.max(refusal.sent);
                self.ask_at = self.look_again_at(now, &refusal);
            }
            WaitEvent::Recheck => self.ask_at = Instant::START,
            WaitEvent::Promoted { sent } => {
                let is_current = sent >= self.refused_at && sent <= now;
                if is_current && self.has_enough_left(timing, now, sent) {
                    return WaitAction::TakePromotion;
                }
                self.ask_at = Instant::START;
            }
        }
        if now >= self.deadline {
            WaitAction::GiveUp
        } else if now >= self.ask_at {
            WaitAction::Acquire
        } else {
            WaitAction::WakeAt(self.ask_at.min(self.deadline))
        }
    }

    /// For how long a promotion grants the lease at first.
    pub(crate) fn term(&self, timing: &Timing) -> Duration {
        timing.ttl.min(self.life)
    }

    /// Whether the caller has something of a promotion, or had better ask for the whole ttl before it is told.
    fn has_enough_left(&self, timing: &Timing, now: Instant, sent: Instant) -> bool {
        let term = self.term(timing);
        now.after(term / 3) <= sent.after(timing.validity_of(term))
    }

    /// When to ask again after a refusal.
    ///
    /// The first in line follows a holder whose lease runs out at once, and nobody waits for the server to remove its
    /// document. Who stands behind is not told that the one before it was promoted and has died: it looks once in an
    /// entry's life, which is how long that one had.
    fn look_again_at(&self, now: Instant, refusal: &WaitRefusal) -> Instant {
        let free_at = refusal
            .remaining
            .map_or(Instant::FAR_FUTURE, |remaining| now.after(remaining).after(BEHIND_EXPIRY));
        let is_first = refusal.ahead == 0;
        match (refusal.is_told, is_first) {
            (true, true) => now.after(refusal.poll_floor).min(free_at),
            (true, false) => now.after(self.life.min(refusal.poll_floor)),
            (false, true) => now.after(refusal.poll).min(free_at),
            (false, false) => now.after(refusal.poll * (1 + refusal.ahead.min(STEPS_BACK_MAX))),
        }
    }
}

/// When a waiter's entry needs the next sign of life, if it was given one at `beaten` and the waiter gives up at
/// `deadline`: after a third of its life, unless it outlives the waiter.
pub(crate) fn next_heartbeat_at(beaten: Instant, life: Duration, deadline: Instant) -> Instant {
    match beaten.after(life) >= deadline {
        true => Instant::FAR_FUTURE,
        false => beaten.after(life / 3),
    }
}
