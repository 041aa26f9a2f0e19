//! Decides the next action of one acquire call that waits in the queue.
//!
//! A waiter has an entry in the queue of the lease document. A release promotes the first live entry, and a change
//! event notifies its waiter.
//!
//! 1. A waiter always has a time for its next attempt, whatever signals it receives or misses. Events only make that
//!    attempt earlier: no lost wake-up delays it forever.
//! 2. A promotion counts from the echo of the waiter's own clock, and only for its term. If the echo is older than a
//!    refusal, the promotion is outdated: then the waiter sends an attempt.
//! 3. A promotion counts no longer than its expiry on the server, by the server's time in the waiter's newest refusal.
//!    The expiry is made of numbers in the entry, and another program may have damaged them.
//! 4. Only the server's answers and promotions decide. Any other signal only makes the waiter send an attempt.

use std::time::Duration;

use super::{Instant, Timing, from_millis, margin_of};

/// An attempt comes so long after the lease ends, because the database counts whole milliseconds.
const BEHIND_EXPIRY: Duration = Duration::from_millis(1);
/// The first renewal of a promotion is sent so long after it, at most.
const RENEWED_AFTER: Duration = Duration::from_millis(200);
/// Without a stream, each earlier entry makes polls rarer, up to this many entries.
const STEPS_BACK_MAX: u32 = 9;

/// One acquire call that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Waiter {
    deadline: Instant,
    acquire_at: Instant,
    /// When the newest refused attempt was sent.
    refused_at: Instant,
    /// The time that the server's clock showed then, or later.
    server_ms: Option<i64>,
    /// The waiter ttl: how long an entry lasts after a heartbeat.
    waiter_ttl: Duration,
    /// How long the first renewal of a promotion may take.
    reserve: Duration,
}

/// An event for a waiter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WaitEvent {
    /// Time has passed.
    Timer,
    /// The server has refused an attempt.
    Refused(WaitRefusal),
    /// A change event says that the waiter was promoted.
    Promoted {
        /// The echo of the heartbeat that it counts from.
        sent: Instant,
        /// When it expires by the server's clock.
        expires_at_ms: Option<i64>,
    },
    /// A change that needs an attempt: the entry has gone, the stream failed, or the lease ends at another time.
    Recheck,
    /// The calls of this process that were before it wait no longer: from now on this one rechecks for all, after this
    /// delay at the latest.
    Leads(Duration),
}

/// A refusal, with jittered delays and the state of the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct WaitRefusal {
    /// When the refused attempt was sent.
    pub sent: Instant,
    /// The time that the server's clock showed when it refused.
    pub server_ms: Option<i64>,
    /// How many entries are before ours.
    pub ahead: u32,
    /// How many calls of this process, with entries of their own, are before this one.
    pub led_by: u32,
    /// The remaining time of the current holder, as far as it has renewed.
    pub remaining: Option<Duration>,
    /// Whether a change stream will report a promotion.
    pub is_notified: bool,
    /// The delay until the next attempt without a stream.
    pub poll: Duration,
    /// The longest delay until the next attempt.
    pub recheck_every: Duration,
}

/// The next action of a waiter.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WaitAction {
    /// Send an attempt.
    Acquire,
    /// Wait until this moment.
    WakeAt(Instant),
    /// Accept the promotion, which lasts for this time, counted from its echo.
    TakePromotion(Duration),
    /// Its time is over.
    GiveUp,
}

/// The server's clock, as a reply showed it.
#[derive(Clone, Copy, Debug)]
pub struct ServerTime {
    /// A moment before the server's clock was read, by the waiter's own clock.
    pub at: Instant,
    /// The time that the server's clock showed, in milliseconds.
    pub ms: i64,
}

impl ServerTime {
    /// A moment of the waiter's own clock at which this expiry has not passed on any server, by the maximum clock skew.
    pub fn until(self, timing: &Timing, expires_at_ms: i64) -> Instant {
        let left = from_millis(expires_at_ms.saturating_sub(self.ms));
        // The server's time counts whole milliseconds.
        let left = left.saturating_sub(timing.max_clock_skew + Duration::from_millis(1));
        self.at.after(left.saturating_sub(margin_of(left)))
    }
}

impl Waiter {
    /// A call that sends its first attempt at once.
    pub fn new(deadline: Instant, waiter_ttl: Duration) -> Waiter {
        let start = Instant::START;
        let (server_ms, reserve) = (None, Duration::ZERO);
        Waiter { deadline, acquire_at: start, refused_at: start, server_ms, waiter_ttl, reserve }
    }

    /// The call that inherits the queue entry of one that has given up.
    pub fn with_deadline(self, deadline: Instant) -> Waiter {
        Waiter { deadline, ..self }
    }

    /// Notes how late a majority was last. A promotion is accepted only if its first renewal can be confirmed in time.
    pub fn expect_majority_after(&mut self, delay: Duration) {
        let is_late = !delay.is_zero();
        self.reserve = if is_late { delay.saturating_add(RENEWED_AFTER) } else { delay };
    }

    /// Applies an event, and returns the next action.
    pub fn on(&mut self, timing: &Timing, now: Instant, event: WaitEvent) -> WaitAction {
        match event {
            WaitEvent::Timer => {}
            WaitEvent::Refused(refusal) => {
                if refusal.sent >= self.refused_at {
                    (self.refused_at, self.server_ms) = (refusal.sent, refusal.server_ms);
                }
                self.acquire_at = self.recheck_at(now, &refusal);
            }
            WaitEvent::Recheck => self.acquire_at = Instant::START,
            WaitEvent::Leads(recheck_every) => {
                self.acquire_at = self.acquire_at.min(self.dead_at(now, recheck_every));
            }
            WaitEvent::Promoted { sent, expires_at_ms } => {
                let is_current = sent >= self.refused_at && sent <= now;
                let term = self.term(timing, sent, expires_at_ms);
                // Otherwise the waiter first sends an attempt for the whole ttl.
                let reserve = self.reserve.max(self.longest(timing) / 3);
                let has_enough_left = now.after(reserve) <= sent.after(timing.validity_of(term));
                if is_current && has_enough_left {
                    return WaitAction::TakePromotion(term);
                }
                self.acquire_at = Instant::START;
            }
        }
        if now >= self.deadline {
            WaitAction::GiveUp
        } else if now >= self.acquire_at {
            WaitAction::Acquire
        } else {
            WaitAction::WakeAt(self.acquire_at.min(self.deadline))
        }
    }

    /// The first term of a promotion, counted from its echo: zero where nothing bounds it.
    fn term(&self, timing: &Timing, sent: Instant, expires_at_ms: Option<i64>) -> Duration {
        let Some((server_ms, expires_at_ms)) = self.server_ms.zip(expires_at_ms) else {
            return Duration::ZERO;
        };
        let server = ServerTime { at: self.refused_at, ms: server_ms };
        self.longest(timing).min(server.until(timing, expires_at_ms).since(sent))
    }

    /// The first term of a promotion of a sound entry.
    fn longest(&self, timing: &Timing) -> Duration {
        timing.ttl.min(self.waiter_ttl)
    }

    /// When to send the next attempt after a refusal.
    ///
    /// The first waiter tries right after the current lease expires. Later waiters are not notified if the one before
    /// them was promoted and has died. So each sends an attempt once per waiter ttl, because such a promotion lasts no
    /// longer.
    ///
    /// Where several calls of a process have entries, the first one does this for all: its attempt admits whoever fits,
    /// and the heartbeats find out whose entry has gone. While a stream reports promotions, the others only poll, by
    /// their place: the second one after two floors, because the program may not poll the first call's future.
    fn recheck_at(&self, now: Instant, refusal: &WaitRefusal) -> Instant {
        let free_at = refusal
            .remaining
            .map_or(Instant::FAR_FUTURE, |remaining| now.after(remaining).after(BEHIND_EXPIRY));
        let is_first = refusal.ahead == 0;
        match (refusal.is_notified, is_first) {
            (true, true) => now.after(refusal.recheck_every).min(free_at),
            (true, false) if refusal.led_by > 0 => {
                now.after(refusal.recheck_every.saturating_mul(refusal.led_by.saturating_add(1)))
            }
            (true, false) => self.dead_at(now, refusal.recheck_every),
            (false, true) => now.after(refusal.poll).min(free_at),
            (false, false) => now.after(refusal.poll * (1 + refusal.ahead.min(STEPS_BACK_MAX))),
        }
    }

    /// When a waiter before this one that was promoted just now, and has died, holds no longer.
    fn dead_at(&self, now: Instant, recheck_every: Duration) -> Instant {
        now.after(self.waiter_ttl.min(recheck_every))
    }
}

/// When a queue entry, whose last heartbeat was sent at `beaten`, needs the next one: after a third of its ttl. None is
/// needed if the entry outlives the waiter, which gives up at `deadline`.
pub fn next_heartbeat_at(beaten: Instant, waiter_ttl: Duration, deadline: Instant) -> Instant {
    if beaten.after(waiter_ttl) >= deadline {
        Instant::FAR_FUTURE
    } else {
        beaten.after(heartbeat_every(waiter_ttl))
    }
}

/// The time from one heartbeat to the next one, whatever becomes of it.
pub fn heartbeat_every(waiter_ttl: Duration) -> Duration {
    waiter_ttl / 3
}

/// How long a command of heartbeats may take. Those that are due within this time go along with a due one.
pub fn heartbeat_slack(waiter_ttl: Duration) -> Duration {
    waiter_ttl / 6
}

/// When a heartbeat that has failed is sent again: at most four times as often as usual.
pub fn heartbeat_again(waiter_ttl: Duration) -> Duration {
    waiter_ttl / 12
}
