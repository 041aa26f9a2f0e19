//! From one process's call of `release` to another process's grant, beside a bare delete and insert.

use std::time::Duration;

use mongo_lease::mongodb::bson::doc;
use mongo_lease_measure::host::now;
use mongo_lease_measure::{Extent, Outcome, Round, Rounds, Spread};

use crate::bare::Setup;
use crate::report::Report;
use crate::worker::NAME;
use crate::workers::{Turn, Worker, until_waiting};

/// Hand-offs of a round that count.
const COUNTED: usize = 60;

pub(crate) async fn measure(extent: Extent, report: &mut Report) -> Outcome<()> {
    for (waiting, goal) in [(1, "1.0"), (10, "1.1"), (50, "1.3")] {
        let setup = Setup::new().await?;
        let (uri, database) = (setup.server.uri(), setup.database.name());
        let mut workers = Worker::start_all(waiting + 1, uri, database).await?;
        let mut rounds = Vec::new();
        let mut commands = String::new();
        for round in 0..=extent.of(15, 4) {
            let floor = floor(&setup).await?;
            let before = setup.server.command_counts().await;
            let (ours, turns) = hand_offs(&setup, &mut workers).await?;
            let spent = setup.server.command_counts().await - before;
            // The first one opens connections and streams.
            if round > 0 {
                rounds.push(Round { ours, floor });
                commands = format!(
                    "{turns} turns: {} findAndModify, {} update, {} delete, {} getMore",
                    spent.find_and_modify, spent.update, spent.delete, spent.get_more
                );
            }
        }
        let rounds = Rounds(rounds);
        let times = format!("{:.2} ms and {:.2} ms", rounds.ours(), rounds.floor());
        let what = format!("hand-off, {waiting} waiting");
        let beside = "bare `delete_one` and `insert_one`";
        report.ratio(&what, beside, &rounds, &format!("{times}; {commands}"), goal);
        setup.leases.shutdown().await;
    }
    Ok(())
}

/// The median hand-off of a round in milliseconds, and how many turns there were in all.
async fn hand_offs(setup: &Setup, workers: &mut [Worker]) -> Outcome<(f64, usize)> {
    // All workers are in the queue before it begins.
    let lease = setup.leases.acquire(NAME).await?;
    let turns = COUNTED.div_ceil(workers.len()) + 2;
    for worker in workers.iter_mut() {
        worker.order(&format!("turns {turns}")).await?;
    }
    until_waiting(&setup.leases, workers.len()).await?;
    lease.release().await?;
    let mut all: Vec<Turn> = Vec::new();
    for (number, worker) in workers.iter_mut().enumerate() {
        all.extend(worker.turns(number).await?);
    }
    all.sort_unstable();
    // At the end fewer and fewer wait.
    let counted = all.len() - workers.len();
    let between = |pair: &[Turn]| millis(pair[1].granted - pair[0].let_go);
    let from_others = all[..counted].windows(2).filter(|pair| pair[0].worker != pair[1].worker);
    Ok((Spread::of(from_others.map(between).collect()).median, all.len()))
}

/// One bare delete and insert, in milliseconds: the median of a round.
async fn floor(setup: &Setup) -> Outcome<f64> {
    let mut times = Vec::new();
    let lock = || doc! { "name": NAME, "value": "a" };
    setup.bare.insert_one(lock()).await?;
    for _ in 0..COUNTED {
        let started = now();
        setup.bare.delete_one(lock()).await?;
        setup.bare.insert_one(lock()).await?;
        times.push(millis(now() - started));
    }
    setup.bare.delete_one(lock()).await?;
    Ok(Spread::of(times).median)
}

fn millis(nanos: i64) -> f64 {
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(0)).as_secs_f64() * 1e3
}
