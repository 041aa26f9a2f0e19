//! Many calls at once, and one more after their end.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use mongo_lease::{Lease, LeaseManager};
use mongo_lease_checker::MILLI;
use mongo_lease_checker::history::What;
use mongo_lease_checker::permits::Permits;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tokio::task::JoinSet;

use super::hold::{self, Plan};
use super::wish::Wish;
use super::{Style, Worker};
use crate::clock;
use crate::control::Control;
use crate::load::{Load, TTL_MS, WAIT_MS};

/// Of a hundred calls, so many are for the leases for which all workers compete.
const CONTENDED: u32 = 2;
/// How long the call after a load may take: its wait, and the margin of the checker.
const PATIENCE: Duration = Duration::from_millis(WAIT_MS + 1_100);

/// Makes the calls of a load, each with a release, and reports when they have ended.
pub(super) async fn bear(worker: Arc<Worker>, manager: LeaseManager, load: Load) {
    let mut random = StdRng::seed_from_u64(worker.orders.seed ^ load.calls);
    let mut calls = JoinSet::new();
    for number in 0..load.calls {
        let wish = any(&worker, &mut random, &format!("{}-{number}", load.number));
        let (worker, manager) = (Arc::clone(&worker), manager.clone());
        let random = StdRng::seed_from_u64(random.random());
        calls.spawn(async move { one(&worker, &manager, wish, random).await });
    }
    // In the control the load counts as over when a tenth of the calls have ended: all others stand in the line.
    let part = if worker.is(Control::OwnLine) { 10 } else { 1 };
    for _ in 0..load.calls / part {
        let _ended = calls.join_next().await;
    }
    let fresh = fresh(&worker, &format!("{}-after", load.number));
    let asked = clock::now();
    let mut call = pin!(acquired(&worker, &manager, fresh));
    // A call that is late is noted when it is, and still has its end.
    let in_time = tokio::time::timeout(PATIENCE, &mut call).await;
    let took_ms = (clock::now() - asked) / MILLI;
    let is_granted = matches!(in_time, Ok(Some(_)));
    let over = What::LoadOver { load: load.number, wait_ms: WAIT_MS, took_ms, is_granted };
    worker.history.note(over);
    let held = match in_time {
        Ok(held) => held,
        Err(_) => call.await,
    };
    if let Some(held) = held {
        hold_briefly(&worker, &mut random, held).await;
    }
    while calls.join_next().await.is_some() {}
    // Nobody reads it when the suite has gone.
    let _gone = mongo_lease_testbed::say(load.report());
}

/// A lease for which nobody competes, or sometimes one of the others.
fn any(worker: &Worker, random: &mut StdRng, number: &str) -> Wish {
    if random.random_range(0..100) >= CONTENDED {
        return fresh(worker, number);
    }
    match worker.orders.tasks {
        0 => Wish::shared(random),
        _ => Wish::exclusive(random, worker.orders.names),
    }
}

fn fresh(worker: &Worker, number: &str) -> Wish {
    Wish { name: format!("lease:{}:{number}", worker.orders.id), permits: Permits::EXCLUSIVE }
}

/// Acquires a lease and releases it at once.
async fn one(worker: &Worker, manager: &LeaseManager, wish: Wish, mut random: StdRng) {
    if let Some(held) = acquired(worker, manager, wish).await {
        hold_briefly(worker, &mut random, held).await;
    }
}

/// A call, and the lease that it was granted.
type HeldLease = (String, (Lease, Permits));

async fn acquired(worker: &Worker, manager: &LeaseManager, wish: Wish) -> Option<HeldLease> {
    let permits = wish.permits;
    let acquire = wish.acquire(manager).ttl(Duration::from_millis(TTL_MS)).renew(false);
    let style = Style::Wait(Duration::from_millis(WAIT_MS));
    let (call, lease) = worker.acquire(acquire, wish, TTL_MS, style).await?;
    Some((call, (lease, permits)))
}

async fn hold_briefly(worker: &Worker, random: &mut StdRng, (call, held): HeldLease) {
    hold::hold(worker, random, call, held, Plan::brief(TTL_MS)).await;
}
