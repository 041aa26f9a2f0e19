//! Many tasks of one process, each with names of its own: pairs a second.

use std::time::Instant;

use futures_util::future::try_join_all;
use mongo_lease_measure::{Extent, Outcome, Round, Rounds, number};

use crate::bare::{Setup, lock, unlock};
use crate::report::Report;

pub(crate) async fn measure(extent: Extent, report: &mut Report) -> Outcome<()> {
    for (tasks, goal) in [(1, ""), (8, ""), (64, "at least 2"), (256, "")] {
        let setup = Setup::new().await?;
        // Enough of them that each round takes about a second.
        let pairs = if tasks == 1 { 400 } else { 1_600_usize.div_ceil(tasks) };
        let mut rounds = Vec::new();
        for round in 0..=extent.of(12, 3) {
            let floor = rate(tasks, pairs, async |task, turn| floor(&setup, task, turn).await);
            let floor = floor.await?;
            let ours = rate(tasks, pairs, async |task, turn| ours(&setup, task, turn).await);
            let ours = ours.await?;
            if round > 0 {
                rounds.push(Round { ours, floor });
            }
        }
        let rounds = Rounds(rounds);
        let note = format!("{:.0} and {:.0} a second", rounds.ours(), rounds.floor());
        let what = format!("pairs a second, {tasks} tasks");
        report.ratio(&what, "bare pairs a second", &rounds, &note, goal);
        setup.leases.shutdown().await;
    }
    Ok(())
}

/// How many pairs a second that many tasks do.
async fn rate(
    tasks: usize,
    pairs: usize,
    pair: impl AsyncFn(usize, usize) -> Outcome<()>,
) -> Outcome<f64> {
    let task = async |task: usize| -> Outcome<()> {
        for turn in 0..pairs {
            pair(task, turn).await?;
        }
        Ok(())
    };
    let started = Instant::now();
    try_join_all((0..tasks).map(task)).await?;
    Ok(number(tasks * pairs) / started.elapsed().as_secs_f64())
}

async fn floor(setup: &Setup, task: usize, turn: usize) -> Outcome<()> {
    let lock = lock(&name(task, turn));
    let unlock = unlock(&lock);
    setup.bare.insert_one(lock).await?;
    setup.bare.delete_one(unlock).await?;
    Ok(())
}

async fn ours(setup: &Setup, task: usize, turn: usize) -> Outcome<()> {
    let lease = setup.leases.acquire(name(task, turn)).await?;
    lease.release().await?;
    Ok(())
}

/// Recurring names: the cost of ever new ones is another figure.
fn name(task: usize, turn: usize) -> String {
    format!("task:{task}:{}", turn % 4)
}
