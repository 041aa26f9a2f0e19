//! Durations, their defaults and bounds, and the inequalities between them.

use std::time::Duration;

/// The default ttl: how long a lease lasts without a renewal.
pub const TTL_DEFAULT: Duration = Duration::from_secs(30);
/// The shortest ttl: it leaves time for a round trip of a renewal.
pub const TTL_MIN: Duration = Duration::from_millis(100);
/// The longest ttl.
pub const TTL_MAX: Duration = Duration::from_secs(366 * 24 * 3600);
/// The default maximum clock skew. The server adds it to the ttl, because its members' clocks differ.
pub const MAX_CLOCK_SKEW_DEFAULT: Duration = Duration::from_secs(1);
/// The largest maximum clock skew.
pub const MAX_CLOCK_SKEW_MAX: Duration = Duration::from_secs(3600);
/// The default time limit of one attempt.
pub const ATTEMPT_TIMEOUT_DEFAULT: Duration = Duration::from_secs(5);
/// The shortest time limit of an attempt.
pub const ATTEMPT_TIMEOUT_MIN: Duration = Duration::from_millis(10);
/// The default wait of an acquire.
pub const WAIT_DEFAULT: Duration = Duration::from_secs(30);
/// The default time limit for building a manager. The driver needs up to 30 s to report that it finds no server.
pub const BUILD_TIMEOUT_DEFAULT: Duration = Duration::from_secs(35);
/// The default time limit of a release.
pub const RELEASE_TIMEOUT_DEFAULT: Duration = Duration::from_secs(10);
/// The default time limit of a shutdown.
pub const SHUTDOWN_TIMEOUT_DEFAULT: Duration = Duration::from_secs(10);
/// The default waiter ttl: how long a queue entry lasts after a heartbeat.
pub const WAITER_TTL_DEFAULT: Duration = Duration::from_secs(10);
/// The shortest waiter ttl: it leaves time for a round trip of a heartbeat.
pub const WAITER_TTL_MIN: Duration = Duration::from_millis(500);
/// The longest waiter ttl. A waiter that has died delays others by this much.
pub const WAITER_TTL_MAX: Duration = Duration::from_secs(600);
/// The default `recheck_every`: a waiter's longest pause without any signal.
pub const RECHECK_EVERY_DEFAULT: Duration = Duration::from_secs(15);
/// The longest `recheck_every`. A waiter without a time limit must send another attempt at some time.
pub const RECHECK_EVERY_MAX: Duration = Duration::from_secs(24 * 3600);
/// The maximum number of entries in a queue.
pub const QUEUE_MAX: u32 = 1_024;

/// The durations of one lease, checked against each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// How long a holder may rely on a grant, counted from sending, before the margin.
    pub ttl: Duration,
    /// Added to the ttl by the server.
    pub max_clock_skew: Duration,
    /// Subtracted from the ttl by the holder, for the drift of its clock.
    pub margin: Duration,
    /// The time from sending a command to the next renewal.
    pub renew_after: Duration,
    /// How much earlier a renewal may be sent, to share a command with others.
    pub renew_slack: Duration,
    /// The time limit of one attempt.
    pub attempt_timeout: Duration,
}

/// Why a set of durations is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimingDefect {
    /// The ttl is out of range.
    Ttl(Duration),
    /// The maximum clock skew is out of range.
    MaxClockSkew(Duration),
    /// An attempt could outlast the lease that it acquires, or has no time at all.
    AttemptTimeout {
        /// The requested time.
        attempt_timeout: Duration,
        /// The longest for this ttl.
        longest: Duration,
    },
}

impl Timing {
    /// Checks the ttl and the maximum clock skew, and derives the other timings.
    ///
    /// A renewal is due after a third of the ttl, and an attempt takes at most half of it. So one attempt at a renewal
    /// always ends, and another begins, before the validity ends: `1/3 + 1/2 < 1 - 1/100`.
    pub fn new(
        ttl: Duration,
        max_clock_skew: Duration,
        attempt_timeout: Option<Duration>,
    ) -> Result<Timing, TimingDefect> {
        if ttl < TTL_MIN || ttl > TTL_MAX {
            return Err(TimingDefect::Ttl(ttl));
        }
        if max_clock_skew > MAX_CLOCK_SKEW_MAX {
            return Err(TimingDefect::MaxClockSkew(max_clock_skew));
        }
        let longest = ttl / 2;
        let asked = attempt_timeout.unwrap_or(ATTEMPT_TIMEOUT_DEFAULT.min(longest));
        if asked < ATTEMPT_TIMEOUT_MIN || asked > longest {
            return Err(TimingDefect::AttemptTimeout { attempt_timeout: asked, longest });
        }
        let timing = Timing {
            ttl,
            max_clock_skew,
            margin: margin_of(ttl),
            renew_after: ttl / 3,
            renew_slack: ttl / 48,
            attempt_timeout: asked,
        };
        debug_assert!(timing.renew_after + timing.attempt_timeout < timing.ttl - timing.margin);
        Ok(timing)
    }

    /// The time limit of a bulk renewal. It is short, so that a document that a transaction holds delays the other
    /// leases only a little, and there is time to try again without it.
    pub fn bulk_deadline(&self) -> Duration {
        self.attempt_timeout * 2 / 5
    }

    /// How long a holder may rely on a grant, counted from sending.
    pub fn validity(&self) -> Duration {
        self.ttl - self.margin
    }

    /// The same for a promotion that grants no more than `term`.
    pub fn validity_of(&self, term: Duration) -> Duration {
        self.validity().min(term.saturating_sub(margin_of(term)))
    }
}

/// The holder's safety margin for a requested time: its clock drifts during that time only.
pub fn margin_of(time: Duration) -> Duration {
    (time / 100).max(Duration::from_millis(2))
}

/// How long the release of a lease that was lost before may take. After that it goes on in the background.
pub const LOST_RELEASE_TIMEOUT: Duration = Duration::from_secs(1);

/// The time limit of the search for documents of another format, which reads the whole collection if there are none.
pub const FORMAT_TIMEOUT: Duration = Duration::from_secs(1);

/// How long the server may take for a command whose caller waits for `left`. It gives up a little earlier than the
/// caller: its answer distinguishes a document that a transaction blocks from a server that does not answer.
pub fn server_time(left: Duration) -> Duration {
    left - (left / 8).min(Duration::from_millis(250))
}

/// The longest wait of a primary for a majority, before it answers that the write is applied and unconfirmed.
///
/// A later confirmation costs a read. Until the answer a command occupies one of its manager's slots.
const ACKNOWLEDGEMENT_MAX: Duration = Duration::from_millis(250);

/// The same where a majority was as late as that last: it would be waited for in vain. Zero would be no limit.
const ACKNOWLEDGEMENT_LATE: Duration = Duration::from_millis(1);

/// How long a primary waits for a majority to have the write of a command that has so much time in all. The rest of it
/// is for locks. `delay` is how late a majority was last.
pub fn acknowledgement_time(command: Duration, delay: Duration) -> Duration {
    let longest =
        if delay >= ACKNOWLEDGEMENT_MAX { ACKNOWLEDGEMENT_LATE } else { ACKNOWLEDGEMENT_MAX };
    (command / 2).min(longest)
}

/// Growing delays with a bound. The caller adds the jitter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delays {
    /// The first delay.
    pub first: Duration,
    /// The bound.
    pub longest: Duration,
}

/// Between two attempts at a command that failed.
pub const RETRY: Delays =
    Delays { first: Duration::from_millis(20), longest: Duration::from_secs(1) };
/// Between two attempts of the first waiter in the queue, without a change stream.
pub const POLL: Delays =
    Delays { first: Duration::from_millis(10), longest: Duration::from_millis(250) };
