//! The resources that processes use, where the system reports them.

use std::fs;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Nanoseconds on a clock that all processes of the machine share.
#[must_use]
pub fn now() -> i64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec * 1_000_000_000 + time.tv_nsec
}

/// The processor time of this process so far, all threads, in nanoseconds' resolution.
#[must_use]
pub fn own_processor_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    duration(time.tv_sec, time.tv_nsec)
}

/// The processor time of another process so far, in nanoseconds' resolution (Linux).
///
/// Zero where there is no such process, or the system does not say.
#[must_use]
pub fn processor_time_of(process: Option<u32>) -> Duration {
    process.map_or(Duration::ZERO, clock_of)
}

/// The clock of the process, and not `/proc/PID/stat`, which counts ticks of 10 ms.
#[cfg(target_os = "linux")]
fn clock_of(process: u32) -> Duration {
    use nix::time::{clock_getcpuclockid, clock_gettime};
    use nix::unistd::Pid;

    let id = i32::try_from(process).map(Pid::from_raw);
    let time = id.ok().and_then(|id| clock_getcpuclockid(id).and_then(clock_gettime).ok());
    time.map_or(Duration::ZERO, |time| duration(time.tv_sec(), time.tv_nsec()))
}

#[cfg(not(target_os = "linux"))]
fn clock_of(_process: u32) -> Duration {
    Duration::ZERO
}

fn duration(seconds: i64, nanos: i64) -> Duration {
    let seconds = Duration::from_secs(u64::try_from(seconds).unwrap_or(0));
    seconds + Duration::from_nanos(u64::try_from(nanos).unwrap_or(0))
}

/// The resident set of this process, in bytes; zero where the system does not say.
#[must_use]
pub fn memory_bytes() -> u64 {
    let text = fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = text.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok()).unwrap_or(0);
    pages * u64::try_from(rustix::param::page_size()).unwrap_or(0)
}

/// The name of this machine, which tells runs on different machines apart.
#[must_use]
pub fn machine() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// How many processors this process may use; 0 where the system does not say.
#[must_use]
pub fn processors() -> usize {
    std::thread::available_parallelism().map_or(0, usize::from)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{own_processor_time, processor_time_of};

    #[test]
    #[cfg(target_os = "linux")]
    fn both_clocks_tell_the_processor_time_of_a_process() {
        let before = own_processor_time();
        let seen = processor_time_of(Some(std::process::id()));
        let after = own_processor_time();
        assert!((before..=after).contains(&seen), "{before:?} {seen:?} {after:?}");
        assert!(before > Duration::ZERO);
        assert_eq!(processor_time_of(None), Duration::ZERO);
    }
}
