//! The clock of a store in memory: tokio's time, and what a test has added to it.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::sync::watch;
use tokio::time::Instant as TokioInstant;

use mongo_lease_core::rules::Instant;

/// The first reading of the clock. Later than zero, because times before the start are calculated too.
const AT_FIRST: Instant = Instant::from_nanos(3_600_000_000_000);

/// How far a clock can be put forward in all: two hundred years. An `Instant` has 64 bits of nanoseconds.
const ADDED_MAX: Duration = Duration::from_secs(200 * 366 * 24 * 3_600);

/// A clock that follows tokio's time and can be put forward. Cheap to clone; all clones are one clock.
///
/// It follows a paused tokio clock too.
#[derive(Clone, Debug)]
pub(crate) struct MemoryClock(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    started: TokioInstant,
    /// The date when the clock was made, in milliseconds since 1970.
    date_ms: i64,
    /// How far the clock was put forward.
    added: watch::Sender<Duration>,
}

impl MemoryClock {
    /// A clock that begins with the machine's date.
    pub(crate) fn new() -> MemoryClock {
        let date = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        MemoryClock(Arc::new(Inner {
            started: TokioInstant::now(),
            date_ms: i64::try_from(date.as_millis()).unwrap_or(i64::MAX / 2),
            added: watch::Sender::new(Duration::ZERO),
        }))
    }

    pub(crate) fn now(&self) -> Instant {
        AT_FIRST.after(self.0.started.elapsed()).after(*self.0.added.borrow())
    }

    /// The date that the store shows as its own, in milliseconds since 1970.
    pub(crate) fn date_ms(&self) -> i64 {
        let elapsed = self.now().since(AT_FIRST).as_millis();
        self.0.date_ms.saturating_add(i64::try_from(elapsed).unwrap_or(i64::MAX))
    }

    /// Puts the clock forward, and wakes the sleepers whose time has come.
    pub(crate) fn advance(&self, duration: Duration) {
        self.0.added.send_modify(|added| *added = added.saturating_add(duration).min(ADDED_MAX));
    }

    pub(super) async fn sleep_until(&self, moment: Instant) {
        if moment == Instant::FAR_FUTURE {
            // A timer would be the next event for a paused clock, which would jump to it.
            return std::future::pending().await;
        }
        let mut added = self.0.added.subscribe();
        loop {
            // Marked as seen before the clock is read: any later change wakes this task.
            added.mark_unchanged();
            let left = moment.since(self.now());
            if left.is_zero() {
                return;
            }
            tokio::select! {
                biased;
                changed = added.changed() => debug_assert!(changed.is_ok(), "we have the sender"),
                () = tokio::time::sleep(left) => {}
            }
        }
    }
}
