//! Many calls of many managers at once, with limits that disagree: those who hold together fit together.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::join_all;
use mongo_lease::{Acquire, Error, LeaseManager};
use mongo_lease_testbed::Seed;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::{permits, reader, writer};
use crate::both::{Backend, check};
use crate::common::short_or_long;
use crate::patience::MUCH_PATIENCE;

const MANAGERS: usize = 6;
const WORKERS: u64 = 18;
const ROUNDS: u64 = 12;
/// With a server. In memory the rounds take next to no time.
const FEW_ROUNDS: u64 = 4;

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

/// The next call of a worker.
fn anything(leases: &LeaseManager, dice: &mut StdRng) -> (Acquire, Asked) {
    match dice.random_range(0..6) {
        0 => (writer(leases), (1, 1)),
        1 | 2 => (reader(leases), (1, 1_000)),
        3 => (permits(2, 5)(leases), (2, 5)),
        _ => {
            let count = dice.random_range(1..=3);
            (permits(count, 3)(leases), (count, 3))
        }
    }
}

async fn work(leases: LeaseManager, mut dice: StdRng, at: (u64, u64), ledger: Arc<Mutex<Ledger>>) {
    let (worker, rounds) = at;
    for _ in 0..rounds {
        let (acquire, asked) = anything(&leases, &mut dice);
        let is_brief = dice.random_range(0..5) == 0;
        let wait =
            if is_brief { Duration::from_millis(dice.random_range(0..60)) } else { MUCH_PATIENCE };
        let lease = match acquire.wait(wait).await {
            Ok(lease) => lease,
            Err(Error::WaitTimeout { .. } | Error::Busy(_)) if is_brief => continue,
            Err(error) => panic!("{worker}: {error}"),
        };
        ledger.lock().unwrap().enter(worker, asked);
        match dice.random_range(0..3) {
            0 => lease.renew().await.unwrap(),
            _ => tokio::task::yield_now().await,
        }
        lease.check().unwrap();
        ledger.lock().unwrap().leave(worker);
        match dice.random_range(0..6) {
            0 => drop(lease),
            _ => drop(lease.release().await.unwrap()),
        }
    }
}

#[tokio::test]
async fn holders_always_fit_together() {
    let seed = Seed::fresh("calls for permits");
    check(async |backend| {
        let managers = join_all((0..MANAGERS).map(|_| backend.manager())).await;
        let ledger = Arc::new(Mutex::new(Ledger::default()));
        let rounds = match backend {
            Backend::Server(_) => short_or_long(FEW_ROUNDS, ROUNDS),
            Backend::Memory(_) => ROUNDS,
        };
        let mut tasks = JoinSet::new();
        for (worker, leases) in (0..WORKERS).zip(managers.iter().cycle()) {
            let dice = StdRng::seed_from_u64(seed.number_of(worker));
            tasks.spawn(work(leases.clone(), dice, (worker, rounds), Arc::clone(&ledger)));
        }
        timeout(MUCH_PATIENCE, tasks.join_all()).await.expect("all workers have done their rounds");
        {
            let ledger = ledger.lock().unwrap();
            assert!(ledger.wrong.is_empty(), "{:?}", ledger.wrong);
            assert!(ledger.grants > WORKERS * rounds / 2, "{} grants", ledger.grants);
            // Or it was no contest. With a server that hangs on who is faster than whom.
            let is_exact = matches!(backend, Backend::Memory(_));
            assert!(ledger.most_at_once >= 3 || !is_exact, "{} at once", ledger.most_at_once);
        }
        backend.until_nothing_is_left().await;
    })
    .await;
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
