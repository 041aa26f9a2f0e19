//! Many calls of many managers at once, with limits that disagree: those who hold together fit together.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use mongo_lease::{Acquire, Error, LeaseManager};
use mongo_lease_testbed::Seed;
use tokio::task::JoinSet;

use super::{permits, reader, writer};
use crate::both::check;
use crate::patience::{PATIENCE, soon};

/// The permits and the limit of a call.
type Asked = (u32, u32);

/// The holders of now, as they themselves believe.
#[derive(Default)]
struct Ledger {
    holders: Vec<(u64, Asked)>,
    grants: u64,
    most_at_once: usize,
    wrong: Vec<String>,
}

impl Ledger {
    fn enter(&mut self, worker: u64, asked: Asked) {
        self.holders.push((worker, asked));
        let in_use: u32 = self.holders.iter().map(|(_, (permits, _))| permits).sum();
        if self.holders.iter().any(|(_, (_, limit))| in_use > *limit) {
            self.wrong.push(format!("{:?}", self.holders));
        }
        self.grants += 1;
        self.most_at_once = self.most_at_once.max(self.holders.len());
    }

    fn leave(&mut self, worker: u64) {
        self.holders.retain(|(other, _)| *other != worker);
    }
}

/// A sequence of numbers that look random.
struct Dice(u64);

impl Dice {
    fn below(&mut self, sides: u32) -> u32 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963);
        u32::try_from(self.0 >> 33).expect("31 bits") % sides
    }
}

/// The next call of a worker.
type Choice = fn(&LeaseManager, &mut Dice) -> (Acquire, Asked);

fn anything(leases: &LeaseManager, dice: &mut Dice) -> (Acquire, Asked) {
    match dice.below(6) {
        0 => (writer(leases), (1, 1)),
        1 | 2 => (reader(leases), (1, 1_000)),
        3 => (permits(2, 5)(leases), (2, 5)),
        _ => {
            let count = 1 + dice.below(3);
            (permits(count, 3)(leases), (count, 3))
        }
    }
}

fn one_of_three(leases: &LeaseManager, _dice: &mut Dice) -> (Acquire, Asked) {
    (permits(1, 3)(leases), (1, 3))
}

async fn work(
    leases: LeaseManager,
    ask: Choice,
    rounds: u64,
    mut dice: Dice,
    worker: u64,
    ledger: Arc<Mutex<Ledger>>,
) {
    for _ in 0..rounds {
        let (acquire, asked) = ask(&leases, &mut dice);
        let is_brief = dice.below(5) == 0;
        let wait = if is_brief { Duration::from_millis(dice.below(60).into()) } else { PATIENCE };
        let lease = match acquire.wait(wait).await {
            Ok(lease) => lease,
            Err(Error::WaitTimeout { .. } | Error::Busy(_)) if is_brief => continue,
            Err(error) => panic!("{worker}: {error}"),
        };
        ledger.lock().unwrap().enter(worker, asked);
        match dice.below(3) {
            0 => lease.renew().await.unwrap(),
            _ => tokio::task::yield_now().await,
        }
        lease.check().unwrap();
        ledger.lock().unwrap().leave(worker);
        match dice.below(6) {
            0 => drop(lease),
            _ => drop(lease.release().await.unwrap()),
        }
    }
}

/// Managers with workers that ask so often, of which this many hold at once at some time, or it was no contest.
async fn contest((managers, workers, rounds): (usize, u64, u64), at_once: usize, ask: Choice) {
    let seed = Seed::fresh("calls for permits");
    check(async |backend| {
        let mut all = Vec::new();
        for _ in 0..managers {
            all.push(backend.manager().await);
        }
        let ledger = Arc::new(Mutex::new(Ledger::default()));
        let mut tasks = JoinSet::new();
        for (worker, leases) in (0..workers).zip(all.iter().cycle()) {
            let dice = Dice(seed.number_of(worker));
            tasks.spawn(work(leases.clone(), ask, rounds, dice, worker, Arc::clone(&ledger)));
        }
        soon("all workers have done their rounds", async {
            while let Some(done) = tasks.join_next().await {
                done.unwrap();
            }
        })
        .await;
        {
            let ledger = ledger.lock().unwrap();
            assert!(ledger.wrong.is_empty(), "{:?}", ledger.wrong);
            assert!(ledger.grants > workers * rounds / 2, "{} grants", ledger.grants);
            assert!(ledger.most_at_once >= at_once, "{} at once", ledger.most_at_once);
        }
        backend.until_nothing_is_left().await;
    })
    .await;
}

#[tokio::test]
async fn holders_always_fit_together() {
    contest((6, 18, 12), 3, anything).await;
}

/// More of them than have entries of their own in the queue.
#[tokio::test]
async fn many_calls_of_one_process_take_turns() {
    contest((1, 40, 1), 2, one_of_three).await;
}

/// The negative control.
#[test]
fn the_ledger_finds_holders_that_do_not_fit() {
    let cases: [(&[Asked], bool); 6] = [
        (&[(1, 1_000), (1, 1_000), (2, 5)], true),
        (&[(1, 3), (2, 5)], true),
        (&[(1, 1)], true),
        (&[(2, 5), (2, 3)], false),
        (&[(1, 1_000), (1, 1)], false),
        (&[(1, 1), (1, 1)], false),
    ];
    for (holders, fit) in cases {
        let mut ledger = Ledger::default();
        (0..).zip(holders).for_each(|(worker, asked)| ledger.enter(worker, *asked));
        assert_eq!(ledger.wrong.is_empty(), fit, "{holders:?}");
        ledger.leave(0);
        assert_eq!(ledger.holders.len(), holders.len() - 1);
    }
}
