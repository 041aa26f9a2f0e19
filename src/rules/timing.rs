//! Durations that bound things, their defaults, and the inequalities between them.

use std::time::Duration;

/// How long a lease lasts unless its holder renews it.
pub(crate) const TTL_DEFAULT: Duration = Duration::from_secs(30);
/// The shortest ttl: with less, a renewal cannot make its way to a server and back.
pub(crate) const TTL_MIN: Duration = Duration::from_millis(100);
/// The longest ttl. A lease for longer is no lease: nobody would wait for it to run out.
pub(crate) const TTL_MAX: Duration = Duration::from_secs(366 * 24 * 3600);
/// What the server is given above the ttl, for the difference between the clocks of its members.
pub(crate) const MAX_CLOCK_SKEW_DEFAULT: Duration = Duration::from_secs(1);
/// The largest maximum clock skew.
pub(crate) const MAX_CLOCK_SKEW_MAX: Duration = Duration::from_secs(3600);
/// How long one attempt at a command may take.
pub(crate) const ATTEMPT_DEADLINE_DEFAULT: Duration = Duration::from_secs(5);
/// The shortest attempt.
pub(crate) const ATTEMPT_DEADLINE_MIN: Duration = Duration::from_millis(10);
/// How long an acquire waits unless told otherwise.
pub(crate) const WAIT_DEFAULT: Duration = Duration::from_secs(30);
/// How long a manager may take to be built: the driver's default for finding a server is 30 s, and then it says why.
pub(crate) const BUILD_DEADLINE_DEFAULT: Duration = Duration::from_secs(35);
/// How long a release goes on trying.
pub(crate) const RELEASE_DEADLINE_DEFAULT: Duration = Duration::from_secs(10);
/// How long a shutdown may take.
pub(crate) const SHUTDOWN_DEADLINE_DEFAULT: Duration = Duration::from_secs(10);

/// How long an entry in line counts after a sign of life.
pub(crate) const WAITER_TTL_DEFAULT: Duration = Duration::from_secs(10);
/// The shortest life of an entry: with less, a heartbeat cannot make its way to a server and back.
pub(crate) const WAITER_TTL_MIN: Duration = Duration::from_millis(500);
/// The longest: for so long a waiter that has died keeps others waiting.
pub(crate) const WAITER_TTL_MAX: Duration = Duration::from_secs(600);
/// After how long a waiter asks again whom nothing has told anything.
pub(crate) const POLL_FLOOR_DEFAULT: Duration = Duration::from_secs(15);
/// The longest time after which it does: whoever waits for ever has to look again some day.
pub(crate) const POLL_FLOOR_MAX: Duration = Duration::from_secs(24 * 3600);
/// How many entries a queue has at most.
pub(crate) const QUEUE_MAX: u32 = 1_024;

/// The durations of one lease, checked against each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Timing {
    /// How long the holder may believe in a grant, counted from when it sent for it.
    pub(crate) ttl: Duration,
    /// What the server adds to the ttl.
    pub(crate) max_clock_skew: Duration,
    /// What the holder takes off the ttl, for the drift of its clock.
    pub(crate) margin: Duration,
    /// After how long a renewal is due.
    pub(crate) renew_after: Duration,
    /// How much earlier than due it may go out, to travel with others.
    pub(crate) renew_slack: Duration,
    /// How long one attempt may take.
    pub(crate) attempt_deadline: Duration,
}

/// Two timings that contradict each other, or one out of its range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TimingDefect {
    /// The ttl is out of range.
    Ttl(Duration),
    /// The maximum clock skew is out of range.
    MaxClockSkew(Duration),
    /// An attempt could outlast the lease that it asks for, or has no time at all.
    AttemptDeadline {
        /// The deadline that was asked for.
        attempt_deadline: Duration,
        /// The longest that fits the ttl.
        longest: Duration,
    },
}

impl Timing {
    /// The timings for a ttl and a maximum clock skew; `attempt_deadline` is the caller's own, if any.
    ///
    /// A renewal is due after a third of the ttl. With an attempt of at most half of it, one attempt at a renewal
    /// always ends, and another begins, before the validity does: `1/3 + 1/2 < 1 - 1/100`.
    pub(crate) fn new(
        ttl: Duration,
        max_clock_skew: Duration,
        attempt_deadline: Option<Duration>,
    ) -> Result<Timing, TimingDefect> {
        if ttl < TTL_MIN || ttl > TTL_MAX {
            return Err(TimingDefect::Ttl(ttl));
        }
        if max_clock_skew > MAX_CLOCK_SKEW_MAX {
            return Err(TimingDefect::MaxClockSkew(max_clock_skew));
        }
        let longest = ttl / 2;
        let asked = attempt_deadline.unwrap_or(ATTEMPT_DEADLINE_DEFAULT.min(longest));
        if asked < ATTEMPT_DEADLINE_MIN || asked > longest {
            return Err(TimingDefect::AttemptDeadline { attempt_deadline: asked, longest });
        }
        let timing = Timing {
            ttl,
            max_clock_skew,
            margin: margin_of(ttl),
            renew_after: ttl / 3,
            renew_slack: ttl / 48,
            attempt_deadline: asked,
        };
        debug_assert!(timing.renew_after + timing.attempt_deadline < timing.ttl - timing.margin);
        Ok(timing)
    }

    /// The timings of one lease with a ttl of its own. An attempt deadline that is the manager's, and too long for
    /// this ttl, is cut to what fits.
    pub(crate) fn for_ttl(
        ttl: Duration,
        max_clock_skew: Duration,
        attempt_deadline: Option<Duration>,
    ) -> Result<Timing, TimingDefect> {
        Timing::new(ttl, max_clock_skew, attempt_deadline.map(|asked| asked.min(ttl / 2)))
    }

    /// How long a command that renews many may take. It is cut short, so that one document which somebody's
    /// transaction holds costs the others little, and there is time to try again without it.
    pub(crate) fn bulk_deadline(&self) -> Duration {
        self.attempt_deadline * 2 / 5
    }

    /// How long a holder may believe in what was sent for at one moment.
    pub(crate) fn validity(&self) -> Duration {
        self.ttl - self.margin
    }

    /// The same for a promotion that grants no more than `term`.
    pub(crate) fn validity_of(&self, term: Duration) -> Duration {
        self.validity().min(term.saturating_sub(margin_of(term)))
    }
}

/// What a holder takes off the time that it asked for: its clock drifts in that time, and not in another.
fn margin_of(time: Duration) -> Duration {
    (time / 100).max(Duration::from_millis(2))
}
