//! Processes that wait in the queue of one lease, each on the test's orders.

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::future::join_all;
use mongo_lease::mongodb::Client;
use mongo_lease::mongodb::options::ClientOptions;
use mongo_lease::{Error, LeaseManager, LeaseManagerBuilder, Tuning};
use mongo_lease_testbed::{Server, TestDatabase};
use rustix::time::{ClockId, clock_gettime};
use tokio::task::JoinSet;

use super::queued;
use crate::patience::Listener;
use crate::spy::Spy;
use crate::worker::{Worker, as_worker, orders, say, whereabouts};

/// The lease for which they wait.
pub(super) const NAME: &str = "a";

/// The options of a process's manager.
#[derive(Clone, Copy, Debug)]
pub(super) struct Options {
    pub(super) waiter_ttl: Duration,
    pub(super) recheck_every: Duration,
    pub(super) max_clock_skew: Duration,
}

impl Options {
    /// The defaults.
    pub(super) const USUAL: Options = Options {
        waiter_ttl: Duration::from_secs(10),
        recheck_every: Duration::from_secs(15),
        max_clock_skew: Duration::from_secs(1),
    };

    pub(super) fn of(self, database: &TestDatabase) -> LeaseManagerBuilder {
        self.apply(LeaseManager::builder(database))
    }

    fn apply(self, builder: LeaseManagerBuilder) -> LeaseManagerBuilder {
        let builder = builder.tuning(
            Tuning::default().waiter_ttl(self.waiter_ttl).recheck_every(self.recheck_every),
        );
        builder.max_clock_skew(self.max_clock_skew).wait(super::NEVER)
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
        worker.tell("pass 1").await;
        assert_eq!(worker.says().await, "queued");
    }
}

/// The token that a process was granted.
pub(super) async fn token(worker: &mut Worker) -> u64 {
    let said = worker.says().await;
    let token = said.strip_prefix("granted ").unwrap_or_else(|| panic!("{said}"));
    token.parse().expect("a token")
}

/// One time that a process held the lease.
#[derive(Clone, Copy, Debug)]
pub(super) struct Held {
    pub(super) token: u64,
    /// When the caller got it, and when it began to release it: on the clock of the machine.
    pub(super) from: Duration,
    pub(super) until: Duration,
}

/// When the processes held the lease, each this many times, in the order of the grants.
pub(super) async fn rounds_of(workers: &mut [Worker]) -> Vec<Held> {
    // All at once: a process without a reader would have to wait in the middle of its work.
    let held = join_all(workers.iter_mut().map(held)).await;
    let mut held: Vec<Held> = held.into_iter().flatten().collect();
    held.sort_unstable_by_key(|held| held.token);
    held
}

async fn held(worker: &mut Worker) -> Vec<Held> {
    let mut all = Vec::new();
    loop {
        let said = worker.says().await;
        if said == "done" {
            return all;
        }
        let numbers: Vec<u64> = said.split(' ').map(|number| number.parse().unwrap()).collect();
        let [token, from, until] = numbers[..] else { panic!("{said}") };
        let [from, until] = [from, until].map(Duration::from_nanos);
        all.push(Held { token, from, until });
    }
}

/// In a process that was started: carries out its orders, and returns true at its end. False in the test.
pub(super) async fn serve() -> bool {
    if as_worker().await.is_none() {
        return false;
    }
    let (uri, database) = whereabouts();
    let spy = Spy::default();
    let mut options = ClientOptions::parse(uri).await.unwrap();
    spy.listen(&mut options);
    let database = Client::with_options(options).unwrap().database(&database);
    let mut orders = orders();
    let Some(first) = orders.recv().await else { return true };
    let numbers = first.split(' ').map(|number| number.parse().expect("a number"));
    let times: Vec<_> = numbers.map(Duration::from_millis).collect();
    let [waiter_ttl, recheck_every, max_clock_skew] = times[..] else { panic!("{first}") };
    let options = Options { waiter_ttl, recheck_every, max_clock_skew };
    let leases = options.apply(LeaseManager::builder(&database)).build().await.unwrap();
    spy.names();
    say("ready");
    while let Some(order) = orders.recv().await {
        match order.split(' ').collect::<Vec<_>>()[..] {
            ["pass", count] => pass(&leases, count.parse().unwrap()).await,
            ["rounds", count] => rounds(&leases, count.parse().unwrap()).await,
            ["wait", count, millis] => {
                let wait = Duration::from_millis(millis.parse().unwrap());
                wait_in_vain(&leases, count.parse().unwrap(), wait).await;
            }
            ["commands"] => say(counted(spy.names())),
            _ => panic!("what is {order:?}?"),
        }
    }
    true
}

/// Makes this many calls, one behind the other: each releases the lease as soon as it is granted.
async fn pass(leases: &LeaseManager, count: usize) {
    let mut events = Listener::of(leases);
    for _ in 0..count {
        let waiting = super::start_waiting(leases.acquire(NAME));
        tokio::spawn(async move {
            let lease = waiting.await.unwrap().unwrap();
            say(format!("granted {}", lease.token().unwrap().as_u64()));
            lease.release().await.unwrap();
        });
    }
    queued(&mut events).await;
    say("queued");
}

/// Holds the lease this many times, one after the other.
async fn rounds(leases: &LeaseManager, count: usize) {
    for _ in 0..count {
        let lease = leases.acquire(NAME).await.unwrap();
        let from = now().as_nanos();
        let token = lease.token().unwrap().as_u64();
        let until = now().as_nanos();
        lease.release().await.unwrap();
        say(format!("{token} {from} {until}"));
    }
    say("done");
}

/// Makes this many calls at once, none of which is granted the lease.
async fn wait_in_vain(leases: &LeaseManager, count: usize, wait: Duration) {
    let mut waiting = JoinSet::new();
    for _ in 0..count {
        let acquire = leases.acquire(NAME).wait(wait);
        waiting.spawn(async move { acquire.await.map(drop) });
    }
    while let Some(result) = waiting.join_next().await {
        assert!(matches!(result.unwrap(), Err(Error::WaitTimeout { .. })));
    }
    say("timed out");
}

fn counted(names: Vec<String>) -> String {
    let mut counts = BTreeMap::new();
    for name in names {
        *counts.entry(name).or_insert(0) += 1;
    }
    let counts = counts.into_iter().map(|(name, count)| format!("{name}:{count}"));
    counts.collect::<Vec<_>>().join(" ")
}

/// The time on a clock that all processes of the machine share.
pub(super) fn now() -> Duration {
    let time = clock_gettime(ClockId::Monotonic);
    let seconds = u64::try_from(time.tv_sec).unwrap();
    Duration::new(seconds, u32::try_from(time.tv_nsec).unwrap())
}

/// How many commands of this name a process has reported.
pub(super) fn count_of(said: &str, command: &str) -> usize {
    let counts = said.split(' ').filter_map(|one| one.split_once(':'));
    counts
        .filter(|(name, _)| *name == command)
        .map(|(_, count)| count.parse::<usize>().unwrap())
        .sum()
}
