//! The resources that processes use, where the system reports them (Linux).

use std::fs;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Nanoseconds on a clock that all processes of the machine share.
#[must_use]
pub fn now() -> i64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec * 1_000_000_000 + time.tv_nsec
}

/// The processor time of this process so far; zero where the system does not say.
#[must_use]
pub fn own_processor_time() -> Duration {
    processor_time("self")
}

/// The processor time of another process so far; zero where there is none, or the system does not say.
#[must_use]
pub fn processor_time_of(process: Option<u32>) -> Duration {
    process.map_or(Duration::ZERO, |id| processor_time(&id.to_string()))
}

fn processor_time(process: &str) -> Duration {
    let text = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    // The name may contain anything but ends with the last bracket; user and system time are the 12th and 13th fields
    // after it.
    let fields = text.rsplit(')').next().unwrap_or_default().split_whitespace();
    let ticks: u64 = fields.skip(11).take(2).filter_map(|field| field.parse::<u64>().ok()).sum();
    Duration::from_millis(ticks * 1_000 / rustix::param::clock_ticks_per_second().max(1))
}

/// The resident set of this process, in bytes; zero where the system does not say.
#[must_use]
pub fn memory_bytes() -> u64 {
    let text = fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = text.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok()).unwrap_or(0);
    pages * u64::try_from(rustix::param::page_size()).unwrap_or(0)
}
