//! Processes that wait in the queue of one lease, each on the test's orders.

use std::time::Duration;

use mongo_lease::mongodb::Database;
use mongo_lease::{LeaseManager, LeaseManagerBuilder, Tuning};
use mongo_lease_testbed::{Server, TestDatabase};

use super::queued;
use crate::patience::{Listener, PATIENCE};
use crate::worker::{Worker, as_worker, orders, say};

/// The lease for which they wait.
pub(super) const NAME: &str = "a";

/// The options of a process's manager.
#[derive(Clone, Copy, Debug)]
pub(super) struct Options {
    pub(super) waiter_ttl: Duration,
    pub(super) recheck_every: Duration,
    pub(super) max_clock_skew: Duration,
}

/// Short times, for the suite, in which a busy machine still sends each heartbeat.
pub(super) const QUICK: Options = Options {
    waiter_ttl: Duration::from_secs(6),
    recheck_every: Duration::from_secs(2),
    max_clock_skew: Duration::from_millis(200),
};

impl Options {
    pub(super) fn of(self, database: &Database) -> LeaseManagerBuilder {
        let tuning =
            Tuning::default().waiter_ttl(self.waiter_ttl).recheck_every(self.recheck_every);
        let builder = LeaseManager::builder(database).tuning(tuning).wait(super::NEVER);
        // No test waits for a ttl.
        builder.max_clock_skew(self.max_clock_skew).ttl(4 * PATIENCE)
    }
}

/// Starts this many processes; each has its manager when this returns.
pub(super) async fn start(
    test: &str,
    server: &Server,
    database: &TestDatabase,
    processes: usize,
    options: Options,
) -> Vec<Worker> {
    let start = |_| Worker::start(test, server.uri(), database);
    let mut workers: Vec<Worker> = (0..processes).map(start).collect();
    let Options { waiter_ttl, recheck_every, max_clock_skew } = options;
    let millis =
        [waiter_ttl, recheck_every, max_clock_skew].map(|time| time.as_millis().to_string());
    for worker in &mut workers {
        worker.tell(&millis.join(" ")).await;
    }
    for worker in &mut workers {
        assert_eq!(worker.says().await, "ready");
    }
    workers
}

/// Makes each process join the queue before the next one. Each will release the lease as soon as it is granted.
pub(super) async fn line_up(workers: &mut [Worker]) {
    for worker in workers {
        worker.tell("pass").await;
        assert_eq!(worker.says().await, "queued");
    }
}

pub(super) async fn token(worker: &mut Worker) -> u64 {
    let said = worker.says().await;
    let token = said.strip_prefix("granted ").unwrap_or_else(|| panic!("{said}"));
    token.parse().expect("a token")
}

/// In a process that was started: carries out its orders, and returns true at its end. False in the test.
pub(super) async fn serve() -> bool {
    let Some(database) = as_worker().await else { return false };
    let mut orders = orders();
    let Some(first) = orders.recv().await else { return true };
    let numbers = first.split(' ').map(|number| number.parse().expect("a number"));
    let times: Vec<_> = numbers.map(Duration::from_millis).collect();
    let [waiter_ttl, recheck_every, max_clock_skew] = times[..] else { panic!("{first}") };
    let options = Options { waiter_ttl, recheck_every, max_clock_skew };
    let leases = options.of(&database).build().await.unwrap();
    say("ready");
    while let Some(order) = orders.recv().await {
        match &*order {
            "pass" => pass(&leases).await,
            _ => panic!("what is {order:?}?"),
        }
    }
    true
}

/// Releases the lease as soon as it is granted.
async fn pass(leases: &LeaseManager) {
    let mut events = Listener::of(leases);
    let waiting = super::start_waiting(leases.acquire(NAME));
    tokio::spawn(async move {
        let lease = waiting.await.unwrap().unwrap();
        say(format!("granted {}", lease.token().unwrap().as_u64()));
        lease.release().await.unwrap();
    });
    queued(&mut events).await;
    say("queued");
}
