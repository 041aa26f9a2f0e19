//! Many calls at once, and one more after their end.

use std::sync::Arc;

use mongo_lease_checker::MILLI;
use mongo_lease_checker::history::What;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::call::Style;
use super::wish::Wish;
use super::{Worker, hold};
use crate::process::spawn;

/// The calls' ttl and their wait, in milliseconds.
const TTL_MS: u64 = 1_000;
const WAIT_MS: u64 = 2_000;
/// Of a hundred calls, so many are for the leases for which all processes compete.
const CONTENDED: u32 = 2;

/// Makes so many calls at once, each with a release, and reports when they have ended.
pub(crate) async fn burst(worker: Arc<Worker>, fault: usize, calls: u64) {
    let mut random = StdRng::seed_from_u64(worker.seed ^ calls);
    let mut tasks = Vec::new();
    for number in 0..calls {
        let is_contended = random.random_range(0..100) < CONTENDED;
        let wish = match is_contended {
            true => Wish::exclusive(&mut random, worker.plan.names),
            false => fresh(&worker, fault, &number.to_string()),
        };
        let (worker, random) = (Arc::clone(&worker), StdRng::seed_from_u64(random.random()));
        let process = Arc::clone(&worker.process);
        tasks.push(spawn(&process, async move {
            one(&worker, wish, random).await;
        }));
    }
    // In one control the load counts as over when a tenth of its calls have ended: the others stand in a line.
    let part = if worker.world.is("own-line") { tasks.len() / 10 } else { tasks.len() };
    let later = tasks.split_off(part);
    for task in tasks {
        // A panic shows as a call that never ended.
        let _ = task.await;
    }
    let began = worker.world.now();
    let wish = fresh(&worker, fault, "last");
    let is_granted = one(&worker, wish, random).await;
    let took_ms = (worker.world.now() - began) / MILLI;
    // A manager that is being shut down grants nothing.
    if is_granted || !worker.has_to_end() {
        worker.note(What::LoadOver { load: fault, wait_ms: WAIT_MS, took_ms, is_granted });
    }
    for task in later {
        let _ = task.await;
    }
}

fn fresh(worker: &Worker, fault: usize, number: &str) -> Wish {
    Wish::of(format!("fresh:{}:{fault}:{number}", worker.process.name))
}

/// Acquires a lease and releases it at once. Says whether it was granted.
async fn one(worker: &Worker, wish: Wish, mut random: StdRng) -> bool {
    let permits = wish.permits;
    let style = if wish.may_wait { Style::Wait(WAIT_MS) } else { Style::Once };
    match worker.acquire(&mut random, wish, TTL_MS, style, false).await {
        Some((call, lease)) => {
            let plan = hold::Plan::brief();
            hold::hold(worker, &mut random, call, (lease, permits), plan).await;
            true
        }
        None => false,
    }
}
