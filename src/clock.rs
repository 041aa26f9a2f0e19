//! The only reader of clocks and of randomness.

#![allow(clippy::disallowed_methods, reason = "they are disallowed everywhere else")]

use std::time::Duration;

use backon::{BackoffBuilder, ExponentialBuilder};
use rand::TryRng;
use rand::rngs::SysRng;

use crate::commands::failure::{Cause, Failure};
use crate::error::Error;
use crate::rules::backoff::Delays;
use crate::rules::outcome::REFUSED;
use crate::rules::time::Instant;
use crate::rules::tombstone::TombstoneValues;

/// The longest sleep in one piece. The runtime's timers stand still while the machine is suspended, and [`now`] does
/// not: so a sleeper looks at the clock again at least this often, and is at most this late after a suspension.
const SLEEP_MAX: Duration = Duration::from_secs(1);

/// The time on a monotonic clock that goes on while the machine is suspended.
///
/// Linux: `CLOCK_BOOTTIME`, through `rustix`. Apple systems: `CLOCK_MONOTONIC`, which counts suspended time there.
/// Elsewhere: `std::time::Instant`, which counts suspended time on Windows, and on other systems may not.
pub(crate) fn now() -> Instant {
    Instant::from_nanos(nanos_since_start())
}

#[cfg(any(target_os = "linux", target_os = "android", target_vendor = "apple"))]
fn nanos_since_start() -> u64 {
    use rustix::time::{ClockId, clock_gettime};
    #[cfg(target_vendor = "apple")]
    let time = clock_gettime(ClockId::Monotonic);
    #[cfg(not(target_vendor = "apple"))]
    let time = clock_gettime(ClockId::Boottime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let nanos = u64::try_from(time.tv_nsec).unwrap_or(0);
    seconds.saturating_mul(1_000_000_000).saturating_add(nanos)
}

#[cfg(not(any(target_os = "linux", target_os = "android", target_vendor = "apple")))]
fn nanos_since_start() -> u64 {
    use std::sync::LazyLock;
    static START: LazyLock<std::time::Instant> = LazyLock::new(std::time::Instant::now);
    u64::try_from(START.elapsed().as_nanos()).unwrap_or(u64::MAX)
}

/// Sleeps until `moment`.
pub(crate) async fn sleep_until(moment: Instant) {
    loop {
        let left = moment.since(now());
        if left.is_zero() {
            return;
        }
        tokio::time::sleep(left.min(SLEEP_MAX)).await;
    }
}

/// What `future` gives, or `None` when `moment` comes first. The future is asked first, so one that is ready counts
/// also at the last moment.
pub(crate) async fn before<F: Future>(moment: Instant, future: F) -> Option<F::Output> {
    tokio::select! {
        biased;
        output = future => Some(output),
        () = sleep_until(moment) => None,
    }
}

/// The jittered, growing delays that `delays` describes, without end.
pub(crate) fn jittered(delays: Delays) -> impl Iterator<Item = Duration> + Send + Unpin {
    let mut seed = [0; 8];
    // Jitter only spreads load: without randomness the same delays as everybody else's will do.
    let _ = SysRng.try_fill_bytes(&mut seed);
    ExponentialBuilder::new()
        .with_jitter()
        .with_jitter_seed(u64::from_ne_bytes(seed))
        .with_min_delay(delays.first)
        .with_max_delay(delays.longest)
        .without_max_times()
        .build()
}

/// The duration less up to a quarter, by chance: so that those who began together do not come together.
pub(crate) fn about(duration: Duration) -> Duration {
    let mut byte = [0];
    let _ = SysRng.try_fill_bytes(&mut byte);
    duration - duration / 1024 * u32::from(byte[0])
}

/// That many bytes of the operating system's randomness, as hexadecimal digits.
///
/// Never from a generator in this process: a copy of the process would draw the same values, and a value that is used
/// twice makes two holders.
pub(crate) fn random_hex<const BYTES: usize>() -> Result<String, Error> {
    let mut bytes = [0; BYTES];
    SysRng
        .try_fill_bytes(&mut bytes)
        .map_err(|_| Error::unsupported("cannot read randomness from the operating system"))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Fresh values for the documents that outlive their holders in one command.
pub(crate) fn tombstone_values() -> Result<TombstoneValues, Failure> {
    let cause =
        |_| Cause::Unsupported("cannot read randomness from the operating system".to_owned());
    let failed = |error| Failure { outcome: REFUSED, cause: cause(error) };
    random_hex::<16>().map(TombstoneValues::new).map_err(failed)
}

/// `label@host:pid`: who we are, for people who look at a lease.
pub(crate) fn describe_process(label: &str) -> String {
    format!("{label}@{}:{}", host(), std::process::id())
}

#[cfg(unix)]
fn host() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

#[cfg(not(unix))]
fn host() -> String {
    std::env::var("COMPUTERNAME").unwrap_or_else(|_| "unknown-host".to_owned())
}
