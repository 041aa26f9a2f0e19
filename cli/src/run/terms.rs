//! The time limits of a command: it must be dead before its lease becomes free.
//!
//! A lease of ttl `T` is valid for `T` less the library's margin of `T`/100, counted from the sending of the last
//! granting or renewing command. The limits count backwards from the end of validity:
//!
//! ```text
//!  sent        due for renewal        SIGTERM             SIGKILL   end of validity     free for others
//!   |---- T/3 ----|--------------------|------ grace ------|- reserve -|- T/100 + clock skew (1 s) -|
//! ```
//!
//! The reserve is the time for this process to wake up and send the signal, and for the system to carry it out. The
//! grace is at most a third of the ttl. So about a third is left to retry a failed renewal before the command is ended.

use std::time::Duration;

use mongo_lease_migrations::text;

/// The shortest ttl. A shorter one leaves no time to end a process reliably.
const TTL_MIN: Duration = Duration::from_secs(1);
/// The default time for the command to stop.
const GRACE_DEFAULT: Duration = Duration::from_secs(10);
/// The longest reserve.
const RESERVE_MAX: Duration = Duration::from_millis(500);

/// The durations of one run, checked against each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TimeLimits {
    /// Between SIGTERM and SIGKILL.
    pub(super) grace: Duration,
    /// Between SIGKILL and the end of validity.
    pub(super) reserve: Duration,
}

impl TimeLimits {
    /// Checks a ttl and a grace. Returns the limits, or an error text.
    pub(super) fn new(ttl: Duration, grace: Option<Duration>) -> Result<TimeLimits, String> {
        if ttl < TTL_MIN {
            return Err(format!("--ttl must be at least {}", text::duration(TTL_MIN)));
        }
        let longest = ttl / 3;
        let grace = grace.unwrap_or_else(|| GRACE_DEFAULT.min(longest));
        if grace > longest {
            return Err(format!(
                "--grace {} is too long for --ttl {}: the maximum is a third of the ttl, {}; a \
                 renewal starts after another third, and has the last third to complete",
                text::duration(grace),
                text::duration(ttl),
                text::duration(longest)
            ));
        }
        Ok(TimeLimits { grace, reserve: (ttl / 20).min(RESERVE_MAX) })
    }

    /// The time until SIGTERM, if this much of the validity remains.
    pub(super) fn until_term(&self, remaining: Duration) -> Duration {
        remaining.saturating_sub(self.grace + self.reserve)
    }

    /// The time until SIGKILL, if this much of the validity remains.
    pub(super) fn until_kill(&self, remaining: Duration) -> Duration {
        remaining.saturating_sub(self.reserve)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::TimeLimits;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn the_defaults_fit() {
        let terms = TimeLimits::new(30 * SECOND, None).unwrap();
        assert_eq!((terms.grace, terms.reserve), (10 * SECOND, SECOND / 2));
        let short = TimeLimits::new(3 * SECOND, None).unwrap();
        assert_eq!((short.grace, short.reserve), (SECOND, 3 * SECOND / 20));
        let long = TimeLimits::new(3_600 * SECOND, None).unwrap();
        assert_eq!((long.grace, long.reserve), (10 * SECOND, SECOND / 2));
    }

    #[test]
    fn a_grace_that_does_not_fit_is_refused() {
        assert!(TimeLimits::new(30 * SECOND, Some(10 * SECOND)).is_ok());
        let refused = TimeLimits::new(30 * SECOND, Some(11 * SECOND)).unwrap_err();
        assert!(refused.starts_with("--grace 11s is too long for --ttl 30s"), "{refused}");
        assert!(TimeLimits::new(SECOND - Duration::from_millis(1), None).is_err());
        assert!(TimeLimits::new(SECOND, Some(Duration::ZERO)).is_ok());
    }

    #[test]
    fn the_command_is_told_and_killed_within_validity() {
        for ttl in [SECOND, 3 * SECOND, 30 * SECOND, 86_400 * SECOND] {
            let terms = TimeLimits::new(ttl, None).unwrap();
            let validity = ttl - ttl / 100;
            let told = terms.until_term(validity);
            let killed = terms.until_kill(validity);
            assert_eq!(killed - told, terms.grace);
            assert_eq!(killed + terms.reserve, validity);
            // A renewal is due after a third, and has most of another third for retries.
            assert!(told > ttl / 3 + ttl / 4, "{ttl:?}: {told:?}");
        }
        let terms = TimeLimits::new(3 * SECOND, None).unwrap();
        assert_eq!(terms.until_term(SECOND), Duration::ZERO);
        assert_eq!(terms.until_kill(Duration::ZERO), Duration::ZERO);
    }
}
