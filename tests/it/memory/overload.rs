//! One process makes far more calls at once than a server carries out in their time: exact, on a server with one
//! processor that all commands share.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::join_all;
use mongo_lease::simulated::{BoxedTask, SentCommand, SimulatedAnswer, SimulatedProcess};
use mongo_lease::{Acquire, CommandKind, Error, Lease, LeaseManager, MemoryStore, Tuning};
use mongo_lease_core::commands::{Delete, End, FastAcquireMany, StreamEvent};
use tokio::task::JoinSet;
use tokio::time::{Instant, interval, sleep_until};

use crate::common::short_or_long;

/// The time that the server takes for each statement.
const STATEMENT: Duration = Duration::from_millis(1);
/// The ttl of a lease that is held meanwhile.
const TTL: Duration = Duration::from_secs(3);
/// How many calls are made after an overload, one in each of these periods.
const CALLS_AFTER: usize = 80;
const PERIOD: Duration = Duration::from_millis(100);
/// How long a call may take afterwards: a statement of each of the ten commands that share the server, and its own.
const SOON: Duration = Duration::from_millis(20);

/// A command under way, and what the server has done of it.
struct UnderWay {
    command: Box<dyn SentCommand>,
    statements_left: usize,
    begins_at: Instant,
    ends_at: Instant,
}

/// A server that carries out a statement of each command in turn.
#[derive(Clone)]
struct BusyServer {
    under_way: Arc<Mutex<VecDeque<UnderWay>>>,
    /// How late a majority is.
    late: Duration,
}

fn statements(command: &mut dyn SentCommand) -> usize {
    let command = command.parts().0;
    let acquires = command.downcast_ref::<FastAcquireMany>().map(|it| it.acquires.len());
    let deletes = command.downcast_ref::<Delete>().map(|it| it.targets.len());
    let ends = command.downcast_ref::<End>().map(|it| it.targets.len());
    acquires.or(deletes).or(ends).unwrap_or(1)
}

impl SimulatedProcess for BusyServer {
    fn drift(&self) -> i32 {
        0
    }

    fn run(&self, task: BoxedTask) -> BoxedTask {
        task
    }

    fn send(&self, mut command: Box<dyn SentCommand>) {
        let statements_left = statements(&mut *command);
        let now = Instant::now();
        let late = command.sees_all_until().map_or(Duration::ZERO, |_| self.late);
        let (begins_at, ends_at) = (now + late, now + command.time_limit());
        let next = UnderWay { command, statements_left, begins_at, ends_at };
        self.under_way.lock().unwrap().push_back(next);
    }

    fn hear(&self) -> Pin<Box<dyn Future<Output = bool> + Send>> {
        Box::pin(std::future::ready(true))
    }

    fn change(&self, _event: &mut StreamEvent) {}
}

fn brief(leases: &LeaseManager, name: String, late: Duration) -> Acquire {
    const WAIT: Duration = Duration::from_secs(2);
    leases.acquire(name).ttl(WAIT / 2 + 2 * late).renew(false).wait(WAIT)
}

impl BusyServer {
    /// A manager whose commands go to such a server.
    async fn manager(late: Duration) -> LeaseManager {
        let server = BusyServer { under_way: Arc::default(), late };
        let client = MemoryStore::simulated(0, 1).client_of(Arc::new(server.clone()));
        tokio::spawn(async move { server.work().await });
        LeaseManager::in_memory(&client).build().await.unwrap()
    }

    async fn work(self) {
        let mut ticks = interval(STATEMENT);
        loop {
            let now = ticks.tick().await;
            let mut under_way = self.under_way.lock().unwrap();
            let is_due = |it: &UnderWay| it.begins_at <= now || it.ends_at <= now;
            let Some(place) = under_way.iter().position(is_due) else { continue };
            let Some(mut next) = under_way.remove(place) else { continue };
            next.statements_left -= 1;
            let is_cut_off = next.ends_at <= now;
            if next.statements_left > 0 && !is_cut_off {
                under_way.push_back(next);
                continue;
            }
            drop(under_way);
            // One that is cut off may have been carried out.
            next.command.carry_out();
            let answer = match next.command.kind() {
                _ if is_cut_off => SimulatedAnswer::CutOff,
                Some(CommandKind::Read) | None => SimulatedAnswer::Reply,
                Some(_) if self.late.is_zero() => SimulatedAnswer::Reply,
                Some(_) => SimulatedAnswer::NoMajority,
            };
            next.command.answer(answer);
        }
    }
}

/// Beside so many calls at once it renews a lease, and afterwards it is granted others.
async fn bears(calls: usize, late: Duration) {
    let leases = BusyServer::manager(late).await;
    let held = leases.acquire("held").ttl(TTL).await.unwrap();
    let overload = (0..calls).map(|number| {
        let call = brief(&leases, format!("lease:{number}"), late).into_future();
        async move { call.await.ok()?.release().await.ok() }
    });
    join_all(overload).await;
    assert!(held.is_valid(), "beside {calls} calls, {late:?}");
    // The process gives back now whatever they may have been granted.
    for number in 0..CALLS_AFTER {
        let asked = Instant::now();
        let lease = brief(&leases, format!("after:{number}"), late).await.unwrap();
        let took = asked.elapsed();
        // The read before the one that confirms it may have begun.
        assert!(
            took <= 2 * late + SOON,
            "{took:?} in period {number} after {calls} calls, {late:?}"
        );
        drop(lease);
        sleep_until(asked + PERIOD).await;
    }
    assert!(held.is_valid(), "after {calls} calls, {late:?}");
}

#[tokio::test(start_paused = true)]
async fn an_overload_delays_no_renewals_and_no_later_calls() {
    for calls in [10, short_or_long(1_000, 100_000)] {
        bears(calls, Duration::ZERO).await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_overload_with_a_late_majority_delays_no_renewals_and_no_later_calls() {
    for calls in [10, short_or_long(1_000, 100_000)] {
        bears(calls, Duration::from_millis(500)).await;
    }
}

/// They wait in the process meanwhile, and attempts are unanswered, and are repeated. A bounded call ends on time.
#[tokio::test(start_paused = true)]
async fn calls_of_a_database_that_hangs_are_granted_when_it_goes_on() {
    const CALLS: usize = 500;
    const BOUND: Duration = Duration::from_secs(4);
    let store = MemoryStore::new();
    let tuning = Tuning::default().attempt_timeout(BOUND / 2);
    let leases = LeaseManager::in_memory(&store).tuning(tuning).build().await.unwrap();
    let hang = store.hang();
    let mut calls = JoinSet::new();
    for number in 0..CALLS {
        calls.spawn(leases.acquire(format!("lease:{number}")).wait(25 * BOUND).into_future());
    }
    let asked = Instant::now();
    let error = leases.acquire("bounded").wait(BOUND).await.unwrap_err();
    assert!(matches!(error, Error::WaitTimeout { .. }), "{error}");
    let took = asked.elapsed();
    assert!(took >= BOUND && took <= BOUND + Duration::from_millis(5), "{took:?}");
    drop(hang);
    let held: Result<Vec<_>, _> = calls.join_all().await.into_iter().collect();
    let held = held.expect("each call is granted its lease");
    assert!(held.iter().all(Lease::is_valid));
    assert_eq!(leases.shutdown().await.released, CALLS);
    assert_eq!(store.leases_in_use(), 0);
}
