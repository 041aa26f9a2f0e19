//! Calls for several names beside calls for one, in simulated time: who waits for how long.

use std::collections::BTreeSet;
use std::future::IntoFuture;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use mongo_lease::{LeaseManager, MemoryStore};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout_at};

use super::trouble::manager;

const TASKS: u64 = 150;
/// So many of them ask for a set.
const SETS: u64 = 25;
const NAMES: u64 = 30;
const HOLD: Duration = Duration::from_secs(1);
const SPAN: Duration = Duration::from_secs(300);

/// The tasks' behaviour.
#[derive(Clone, Copy)]
struct Load {
    /// How many names a set has.
    size: usize,
    /// How long a task pauses after a lease, on average.
    pause_millis: u64,
}

/// The seconds that calls waited.
#[derive(Default)]
struct Waits {
    first_names: Vec<f64>,
    singles: Vec<f64>,
    sets: Vec<f64>,
    failed: usize,
    failed_sets: usize,
}

/// The same numbers for the same seed.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 16) % end
    }

    fn name(&mut self) -> String {
        format!("{:02}", self.below(NAMES))
    }
}

async fn task(leases: LeaseManager, number: u64, load: Load, waits: Arc<Mutex<Waits>>) {
    let mut numbers = Numbers((number + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15));
    let end = Instant::now() + SPAN;
    loop {
        sleep(Duration::from_millis(numbers.below(2 * load.pause_millis + 1))).await;
        let begin = Instant::now();
        let waited = || begin.elapsed().as_secs_f64();
        if number < SETS {
            let mut names = BTreeSet::new();
            while names.len() < load.size {
                names.insert(numbers.name());
            }
            let Ok(set) = timeout_at(end, leases.acquire_all(names).into_future()).await else {
                return;
            };
            let Ok(set) = set else {
                waits.lock().unwrap().failed_sets += 1;
                continue;
            };
            waits.lock().unwrap().sets.push(waited());
            sleep(HOLD).await;
            set.release().await.unwrap();
        } else {
            let name = numbers.name();
            let Ok(lease) = timeout_at(end, leases.acquire(&name).into_future()).await else {
                return;
            };
            let Ok(lease) = lease else {
                waits.lock().unwrap().failed += 1;
                continue;
            };
            waits.lock().unwrap().singles.push(waited());
            if name.as_str() < "03" {
                waits.lock().unwrap().first_names.push(waited());
            }
            sleep(HOLD).await;
            lease.release().await.unwrap();
        }
    }
}

fn mean(waits: &[f64]) -> f64 {
    let count = u32::try_from(waits.len()).unwrap();
    waits.iter().sum::<f64>() / f64::from(count.max(1))
}

async fn run(load: Load) -> Waits {
    let store = MemoryStore::new();
    let waits = Arc::<Mutex<Waits>>::default();
    let mut tasks = JoinSet::new();
    let mut managers = Vec::new();
    for _ in 0..5 {
        managers.push(manager(&store).await);
    }
    for (number, leases) in (0..TASKS).zip(managers.iter().cycle()) {
        tasks.spawn(task(leases.clone(), number, load, Arc::clone(&waits)));
    }
    while let Some(ended) = tasks.join_next().await {
        ended.unwrap();
    }
    let waits = std::mem::take(&mut *waits.lock().unwrap());
    eprintln!(
        "{} names, pause {} ms: first names {:.1} s, singles {:.1} s ({} of them, {} in vain), \
         sets {:.1} s ({}, {} in vain)",
        load.size,
        load.pause_millis,
        mean(&waits.first_names),
        mean(&waits.singles),
        waits.singles.len(),
        waits.failed,
        mean(&waits.sets),
        waits.sets.len(),
        waits.failed_sets,
    );
    waits
}

/// Below saturation, the first names in the order are not much slower than all others, and hardly a call is in vain.
#[tokio::test(start_paused = true)]
async fn sets_below_saturation_form_no_convoy() {
    let waits = run(Load { size: 3, pause_millis: 10_000 }).await;
    assert!(mean(&waits.first_names) < 4.0, "{} s", mean(&waits.first_names));
    assert!(waits.failed * 100 < waits.singles.len(), "{} in vain", waits.failed);
    assert!(waits.failed_sets * 20 < waits.sets.len(), "{} in vain", waits.failed_sets);
}

/// With more calls than the names can serve, calls for sets are still granted.
#[tokio::test(start_paused = true)]
async fn sets_are_granted_under_saturation_too() {
    let waits = run(Load { size: 3, pause_millis: 0 }).await;
    assert!(waits.sets.len() > 100, "{} of {}", waits.sets.len(), waits.failed_sets);
}
