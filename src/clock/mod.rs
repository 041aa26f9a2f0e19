//! Reads clocks and randomness; no other module does.
//!
//! A manager has one [`Clock`], which its parts get from its runner.

#![allow(clippy::disallowed_methods, reason = "they are disallowed everywhere else")]

#[cfg(feature = "memory")]
mod memory;

use std::pin::Pin;
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use backon::{BackoffBuilder, ExponentialBuilder};
use pin_project_lite::pin_project;
use rand::TryRng;
use rand::rngs::SysRng;

use mongo_lease_core::rules::{Delays, Instant, ManagerId, TombstoneValues};

#[cfg(feature = "memory")]
pub(crate) use memory::MemoryClock;

/// The longest single sleep, and how late a sleeper may be after a suspension of the machine: the runtime's timers stop
/// meanwhile, and [`Clock::now`] does not.
const SLEEP_MAX: Duration = Duration::from_secs(1);

/// The clock of one manager. Cheap to clone; by default the machine's.
///
/// Without the feature `memory` it has no size.
#[derive(Clone, Debug, Default)]
pub(crate) struct Clock {
    #[cfg(feature = "memory")]
    memory: Option<MemoryClock>,
}

impl Clock {
    /// The time on a monotonic clock that goes on while the machine is suspended.
    ///
    /// Linux: `CLOCK_BOOTTIME`, through `rustix`. Apple systems: `CLOCK_MONOTONIC`, which counts suspended time there.
    /// Elsewhere: `std::time::Instant`, which counts suspended time on Windows, and on other systems may not.
    pub(crate) fn now(&self) -> Instant {
        #[cfg(feature = "memory")]
        if let Some(memory) = &self.memory {
            return memory.now();
        }
        Instant::from_nanos(nanos_since_start())
    }

    pub(crate) async fn sleep_until(&self, moment: Instant) {
        #[cfg(feature = "memory")]
        if let Some(memory) = &self.memory {
            return memory.sleep_until(moment).await;
        }
        if moment == Instant::FAR_FUTURE {
            // A timer would wake each of thousands of calls that wait without a limit, once a second.
            return std::future::pending().await;
        }
        loop {
            let left = moment.since(self.now());
            if left.is_zero() {
                return;
            }
            tokio::time::sleep(left.min(SLEEP_MAX)).await;
        }
    }

    pub(crate) async fn sleep(&self, duration: Duration) {
        self.sleep_until(self.now().after(duration)).await;
    }

    /// An endless iterator of the jittered, growing delays that `delays` describes.
    pub(crate) fn jittered(
        &self,
        delays: Delays,
    ) -> impl Iterator<Item = Duration> + Send + Unpin + use<> {
        let mut seed = [0; 8];
        // Jitter only spreads load: without randomness, the same delays as in other processes will do.
        let _ = self.fill(&mut seed);
        ExponentialBuilder::new()
            .with_jitter()
            .with_jitter_seed(u64::from_le_bytes(seed))
            .with_min_delay(delays.first)
            .with_max_delay(delays.longest)
            .without_max_times()
            .build()
    }

    /// The duration less a random part, up to a quarter: calls that began together spread out.
    pub(crate) fn about(&self, duration: Duration) -> Duration {
        let mut byte = [0];
        let _ = self.fill(&mut byte);
        duration - duration / 1024 * u32::from(byte[0])
    }

    /// `BYTES` bytes of the operating system's randomness, as hexadecimal digits.
    ///
    /// Never from a generator in this process, which a copy of the process would have too: only a simulated store has
    /// one.
    pub(crate) fn random_hex<const BYTES: usize>(&self) -> Result<String, NoRandomness> {
        let mut bytes = [0; BYTES];
        self.fill(&mut bytes)?;
        let digit = |four_bits: u8| char::from(b"0123456789abcdef"[usize::from(four_bits)]);
        Ok(bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect())
    }

    /// The randomness of a manager's id. It begins with that of this process, by which the process knows what it has
    /// made: neither its id nor its host's name is its own, where containers share them.
    pub(crate) fn manager_randomness(&self) -> Result<String, NoRandomness> {
        #[cfg(feature = "memory")]
        if self.memory.as_ref().is_some_and(MemoryClock::is_simulated) {
            // Each simulated manager is a process.
            return self.random_hex::<12>();
        }
        const { assert!(ManagerId::OF_PROCESS == 2 * 6) };
        static PROCESS: Mutex<Option<(Process, String)>> = Mutex::new(None);
        let this = Process::this();
        let mut known = PROCESS.lock().unwrap_or_else(PoisonError::into_inner);
        // A forked child has the variable of its parent.
        let of_process = match known.take().filter(|(process, _)| *process == this) {
            Some((_, randomness)) => randomness,
            None => self.random_hex::<6>()?,
        };
        known.replace((this, of_process.clone()));
        drop(known);
        Ok(of_process + &self.random_hex::<6>()?)
    }

    /// Fresh values for the documents that one command leaves without a holder.
    pub(crate) fn tombstone_values(&self) -> Result<TombstoneValues, NoRandomness> {
        self.random_hex::<16>().map(TombstoneValues::new)
    }

    /// Describes this process as `label@host:pid`, for people who inspect a lease.
    pub(crate) fn describe_process(&self, label: &str) -> String {
        #[cfg(feature = "memory")]
        if self.memory.as_ref().is_some_and(MemoryClock::is_simulated) {
            return format!("{label}@simulation:0");
        }
        format!("{label}@{}:{}", host(), std::process::id())
    }

    fn fill(&self, bytes: &mut [u8]) -> Result<(), NoRandomness> {
        #[cfg(feature = "memory")]
        if self.memory.as_ref().is_some_and(|memory| memory.fill(bytes)) {
            return Ok(());
        }
        SysRng.try_fill_bytes(bytes).map_err(|_| NoRandomness)
    }

    /// The output of `future`, or `None` when `moment` comes first. The future is polled first, so one that is ready
    /// counts even at the last moment.
    pub(crate) fn before<F: Future>(
        &self,
        moment: Instant,
        future: F,
    ) -> impl Future<Output = Option<F::Output>> {
        Before { future, sleep: self.sleep_until(moment) }
    }
}

pin_project! {
    /// The future of [`Clock::before`]. An `async fn` would have the bytes of the other future twice, and futures like
    /// this one contain each other.
    struct Before<F, S> {
        #[pin]
        future: F,
        #[pin]
        sleep: S,
    }
}

impl<F: Future, S: Future<Output = ()>> Future for Before<F, S> {
    type Output = Option<F::Output>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<F::Output>> {
        let this = self.project();
        if let Poll::Ready(output) = this.future.poll(context) {
            return Poll::Ready(Some(output));
        }
        ready!(this.sleep.poll(context));
        Poll::Ready(None)
    }
}

#[cfg(feature = "memory")]
impl From<MemoryClock> for Clock {
    fn from(memory: MemoryClock) -> Clock {
        Clock { memory: Some(memory) }
    }
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

/// A process, as it knows itself from the child that it forks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Process(u32);

impl Process {
    /// The process that asks.
    pub(crate) fn this() -> Process {
        Process(std::process::id())
    }
}

/// The error when the operating system gives no randomness.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NoRandomness;

#[cfg(unix)]
fn host() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

#[cfg(not(unix))]
fn host() -> String {
    std::env::var("COMPUTERNAME").unwrap_or_else(|_| "unknown-host".to_owned())
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    /// Here is no runtime, in which alone a timer can be made.
    #[test]
    fn a_moment_that_never_comes_takes_no_timer() {
        assert_eq!(Clock::default().sleep_until(Instant::FAR_FUTURE).now_or_never(), None);
    }

    #[test]
    fn a_duration_is_shortened_by_a_quarter_at_most() {
        let whole = Duration::from_secs(1_024);
        for _ in 0..64 {
            let about = Clock::default().about(whole);
            assert!(about > whole / 4 * 3 && about <= whole, "{about:?}");
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_process_is_described_by_its_host_and_its_id() {
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
        let wanted = format!("billing@{}:{}", host.trim_end(), std::process::id());
        assert_eq!(Clock::default().describe_process("billing"), wanted);
    }

    #[test]
    fn the_managers_of_one_process_have_ids_that_begin_alike() {
        let id = || ManagerId::new(Clock::default().manager_randomness().unwrap());
        let (one, other) = (id(), id());
        assert_ne!(one, other);
        assert!(one.has_process_made(&other.calls().start) && !one.has_made(&other.calls().start));
    }
}
