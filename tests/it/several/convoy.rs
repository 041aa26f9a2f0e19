//! Calls for several names beside calls for one, in simulated time: who waits for how long.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::join_all;
use mongo_lease::{LeaseManager, LeaseSet, MemoryStore};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};

use super::trouble::manager;
use crate::common::short_or_long;
use crate::patience::pass;

const TASKS: u64 = 150;
/// So many of them ask for a set.
const SETS: u64 = 25;
/// How many names a set has.
const SIZE: usize = 3;
const NAMES: u64 = 30;
const HOLD: Duration = Duration::from_secs(1);

/// How long the tasks go on.
fn span() -> Duration {
    short_or_long(Duration::from_secs(100), Duration::from_secs(300))
}

/// The calls for sets, or for one name.
#[derive(Debug, Default)]
struct Calls {
    granted: usize,
    in_vain: usize,
}

#[derive(Debug, Default)]
struct Waits {
    sets: Calls,
    singles: Calls,
    /// How many seconds each of the singles waited that was granted one of the first names in the order.
    first_names: Vec<f64>,
}

impl Waits {
    fn note(&mut self, names: &[String], waited: Duration, is_granted: bool) {
        let calls = if names.len() > 1 { &mut self.sets } else { &mut self.singles };
        calls.granted += usize::from(is_granted);
        calls.in_vain += usize::from(!is_granted);
        if is_granted && names.len() == 1 && names[0].as_str() < "03" {
            self.first_names.push(waited.as_secs_f64());
        }
    }
}

fn any_name(dice: &mut StdRng) -> String {
    format!("{:02}", dice.random_range(0..NAMES))
}

async fn task(leases: LeaseManager, number: u64, pause_millis: u64, waits: Arc<Mutex<Waits>>) {
    let mut dice = StdRng::seed_from_u64(number);
    let end = Instant::now() + span();
    loop {
        pass(Duration::from_millis(dice.random_range(0..=2 * pause_millis))).await;
        let mut names = vec![any_name(&mut dice)];
        while number < SETS && names.len() < SIZE {
            let name = any_name(&mut dice);
            if !names.contains(&name) {
                names.push(name);
            }
        }
        let begin = Instant::now();
        let call = async {
            if number < SETS {
                return leases.acquire_all(names.clone()).await.map(LeaseSet::into_leases);
            }
            leases.acquire(&names[0]).await.map(|lease| vec![lease])
        };
        let Ok(granted) = timeout_at(end, call).await else { return };
        waits.lock().unwrap().note(&names, begin.elapsed(), granted.is_ok());
        let Ok(held) = granted else { continue };
        pass(HOLD).await;
        for lease in held {
            lease.release().await.unwrap();
        }
    }
}

/// The waits of calls with pauses of this length between them, on average.
async fn run(pause_millis: u64) -> Waits {
    let store = MemoryStore::new();
    let waits = Arc::<Mutex<Waits>>::default();
    let mut tasks = JoinSet::new();
    let managers = join_all((0..5).map(|_| manager(&store))).await;
    for (number, leases) in (0..TASKS).zip(managers.iter().cycle()) {
        tasks.spawn(task(leases.clone(), number, pause_millis, Arc::clone(&waits)));
    }
    tasks.join_all().await;
    std::mem::take(&mut *waits.lock().unwrap())
}

/// Below saturation, the first names in the order are not much slower than all others, and hardly a call is in vain.
#[tokio::test(start_paused = true)]
async fn sets_below_saturation_form_no_convoy() {
    let Waits { sets, singles, first_names } = run(10_000).await;
    let count = u32::try_from(first_names.len()).unwrap();
    let mean = first_names.iter().sum::<f64>() / f64::from(count);
    assert!(mean < 4.0, "{mean} s for {count} calls for the first names");
    assert!(singles.in_vain * 100 < singles.granted, "{} in vain", singles.in_vain);
    assert!(sets.in_vain * 20 < sets.granted, "{} in vain", sets.in_vain);
}

#[tokio::test(start_paused = true)]
async fn sets_are_granted_under_saturation_too() {
    let Calls { granted, in_vain } = run(0).await.sets;
    assert!(granted as u64 > span().as_secs() / 3, "{granted}, and {in_vain} in vain");
}
