//! The clock of a store in memory: tokio's time, and what a test has added to it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use tokio::sync::Notify;
use tokio::time::Instant as TokioInstant;

use mongo_lease_core::rules::Instant;

/// The first reading of the clock. Later than zero, because times before the start are calculated too.
const AT_FIRST: Instant = Instant::from_nanos(3_600_000_000_000);

/// How far a clock can be put forward in all: two hundred years. An `Instant` has 64 bits of nanoseconds.
const ADDED_MAX: u64 = 200 * 366 * 24 * 3_600 * 1_000_000_000;

/// A clock that follows tokio's time and can be put forward. Cheap to clone; all clones are one clock.
///
/// It follows a paused tokio clock too.
#[derive(Clone, Debug)]
pub(crate) struct MemoryClock {
    shared: Arc<Inner>,
    /// In a simulation, by how many millionths this client's clock is too fast.
    drift: i32,
}

#[derive(Debug)]
struct Inner {
    started: TokioInstant,
    /// The date when the clock was made, in milliseconds since 1970.
    date_ms: i64,
    /// How far the clock was put forward, in nanoseconds.
    added: AtomicU64,
    /// Notified when it is put forward.
    advanced: Notify,
    /// Of a simulated store alone: the randomness of its managers.
    random: Option<AtomicU64>,
}

impl MemoryClock {
    /// A clock that begins with the machine's date.
    pub(crate) fn new() -> MemoryClock {
        let date = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        MemoryClock::starting(i64::try_from(date.as_millis()).unwrap_or(i64::MAX / 2), None)
    }

    /// A clock that begins with this date, and whose managers draw their random numbers from the seed.
    pub(crate) fn simulated(date_ms: i64, seed: u64) -> MemoryClock {
        MemoryClock::starting(date_ms, Some(AtomicU64::new(seed)))
    }

    fn starting(date_ms: i64, random: Option<AtomicU64>) -> MemoryClock {
        let (started, added, advanced) = (TokioInstant::now(), AtomicU64::new(0), Notify::new());
        let shared = Arc::new(Inner { started, date_ms, added, advanced, random });
        MemoryClock { shared, drift: 0 }
    }

    /// The clock of a client that is too fast by so many millionths.
    pub(crate) fn drifting(&self, drift: i32) -> MemoryClock {
        MemoryClock { shared: Arc::clone(&self.shared), drift }
    }

    /// Whether its managers must show nothing of this process and this machine.
    pub(super) fn is_simulated(&self) -> bool {
        self.shared.random.is_some()
    }

    /// Fills the bytes from the seed. Returns false if there is none.
    pub(super) fn fill(&self, bytes: &mut [u8]) -> bool {
        let Some(state) = &self.shared.random else {
            return false;
        };
        for part in bytes.chunks_mut(8) {
            part.copy_from_slice(&split_mix(state).to_le_bytes()[..part.len()]);
        }
        true
    }

    pub(crate) fn now(&self) -> Instant {
        let shown = match self.drift {
            0 => self.shared.started.elapsed(),
            _ => self.shared.started.elapsed().mul_f64(self.speed()),
        };
        AT_FIRST.after(shown).after(Duration::from_nanos(self.shared.added.load(Ordering::Relaxed)))
    }

    fn speed(&self) -> f64 {
        1.0 + f64::from(self.drift) / 1e6
    }

    /// The date that the store shows as its own, in milliseconds since 1970.
    pub(crate) fn date_ms(&self) -> i64 {
        let elapsed = self.now().since(AT_FIRST).as_millis();
        self.shared.date_ms.saturating_add(i64::try_from(elapsed).unwrap_or(i64::MAX))
    }

    /// Puts the clock forward, and wakes the sleepers whose time has come.
    pub(crate) fn advance(&self, duration: Duration) {
        let more = u64::try_from(duration.as_nanos()).unwrap_or(ADDED_MAX);
        let added = |added: u64| Some(added.saturating_add(more).min(ADDED_MAX));
        let _ = self.shared.added.fetch_update(Ordering::Relaxed, Ordering::Relaxed, added);
        self.shared.advanced.notify_waiters();
    }

    pub(super) async fn sleep_until(&self, moment: Instant) {
        if moment == Instant::FAR_FUTURE {
            // A timer would be the next event for a paused clock, which would jump to it.
            return std::future::pending().await;
        }
        loop {
            // Made before the clock is read: any later change wakes this task.
            let advanced = self.shared.advanced.notified();
            let left = moment.since(self.now());
            if left.is_zero() {
                return;
            }
            let wait = if self.drift == 0 { left } else { left.div_f64(self.speed()) };
            tokio::select! {
                biased;
                () = advanced => {}
                () = tokio::time::sleep(wait) => {}
            }
        }
    }
}

/// The next number of the generator SplitMix64. Nothing but a simulation draws from it.
fn split_mix(state: &AtomicU64) -> u64 {
    const STEP: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut number = state.fetch_add(STEP, Ordering::Relaxed).wrapping_add(STEP);
    number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// The first numbers of the generator from this seed, as its authors give them.
    #[tokio::test(start_paused = true)]
    async fn a_simulated_clock_draws_the_numbers_of_its_seed() {
        let clock = MemoryClock::simulated(0, 1_234_567);
        let mut bytes = [0; 20];
        assert!(clock.is_simulated() && clock.fill(&mut bytes));
        let numbers = [6_457_827_717_110_365_317_u64, 3_203_168_211_198_807_973];
        let wanted = numbers.map(u64::to_le_bytes).concat();
        assert_eq!(bytes[..16], wanted);
        assert_ne!(bytes[16..], [0; 4]);
        let usual = MemoryClock::new();
        assert!(!usual.is_simulated() && !usual.fill(&mut bytes));
    }

    #[tokio::test(start_paused = true)]
    async fn a_clock_that_is_too_fast_shows_more_and_wakes_earlier() {
        let clock = MemoryClock::simulated(0, 1);
        for (drift, shown_ms) in [(0, 10_000), (250_000, 12_500), (-200_000, 8_000)] {
            let drifting = clock.drifting(drift);
            let (began, real) = (drifting.now(), TokioInstant::now());
            tokio::time::sleep(10 * SECOND).await;
            let shown = drifting.now().since(began);
            assert_eq!(shown.as_millis(), shown_ms, "{drift}");
            drifting.sleep_until(drifting.now().after(shown)).await;
            assert_eq!(real.elapsed().as_millis(), 20_000, "{drift}");
        }
    }
}
