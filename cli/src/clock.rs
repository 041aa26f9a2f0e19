//! Clocks: the servers' compared with ours, and the monotonic clock since boot.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use mongodb::Database;
use mongodb::bson::doc;
use mongodb::error::{Error as DriverError, Result};

/// How often a server's time is measured. The fastest reply is the most precise.
const SAMPLES: usize = 5;

/// How far a server's clock is ahead of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Difference {
    /// Negative if it is behind.
    pub(crate) ahead_ms: i64,
    /// The possible error: half of the round-trip time, and the precision of the server's clock.
    pub(crate) uncertain_ms: i64,
}

impl Difference {
    /// Measures the difference to a server's clock.
    pub(crate) async fn to(database: &Database) -> Result<Difference> {
        let mut best: Option<Difference> = None;
        for _ in 0..SAMPLES {
            let asked = wall();
            let reply = database.run_command(doc! { "hello": 1 }).await?;
            let answered = wall();
            let theirs = reply
                .get_datetime("localTime")
                .map_err(|_| DriverError::custom("the server's reply contains no time"))?;
            let uncertain_ms = (answered - asked) / 2 + 1;
            if best.is_none_or(|best| uncertain_ms < best.uncertain_ms) {
                let ahead_ms = theirs.timestamp_millis() - i64::midpoint(asked, answered);
                best = Some(Difference { ahead_ms, uncertain_ms });
            }
        }
        best.ok_or_else(|| DriverError::custom("no query was sent to the server"))
    }

    /// The server's time now.
    pub(crate) fn there(self) -> i64 {
        wall() + self.ahead_ms
    }
}

/// Our own time, in milliseconds since 1970.
fn wall() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

/// The time since boot, including suspension. All processes read the same value.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(crate) fn since_boot() -> Duration {
    of_rustix(rustix::time::ClockId::Boottime)
}

/// The variant for other systems. On Apple's systems this clock also counts suspension.
#[cfg(all(unix, not(any(target_os = "linux", target_os = "android"))))]
pub(crate) fn since_boot() -> Duration {
    of_rustix(rustix::time::ClockId::Monotonic)
}

#[cfg(unix)]
fn of_rustix(clock: rustix::time::ClockId) -> Duration {
    let time = rustix::time::clock_gettime(clock);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    Duration::new(seconds, u32::try_from(time.tv_nsec).unwrap_or(0))
}
