//! Many tasks of one process, each with names of its own: pairs a second.

use std::time::{Duration, Instant};

use futures_util::future::try_join_all;
use mongo_lease_measure::{Extent, Outcome, number};

use crate::report::Report;
use crate::setup::Setup;

use super::Comparison;

pub(crate) async fn measure(only: &[String], extent: Extent, report: &mut Report) -> Outcome<()> {
    let time = Duration::from_millis(u64::try_from(extent.of(500, 200))?);
    for tasks in [1, 8, 64, 256] {
        let setup = Setup::new(only).await?;
        let mut comparison = Comparison::default();
        // The first round opens the connections.
        for round in 0..=extent.of(7, 3) {
            for host in &setup.hosts {
                let kind = host.kind();
                let floor = async |name: String| {
                    host.floor.take(&name).await?;
                    host.floor.give(&name).await
                };
                let floor = pairs_a_second(tasks, time, floor).await?;
                if round > 0 {
                    comparison.floor(kind.floor_label(), kind, floor);
                }
                for (contender, peer) in host.peers.iter().filter(|it| !it.0.is_variant) {
                    let pair = async |name: String| peer.acquire(&name).await?.release().await;
                    let rate = pairs_a_second(tasks, time, pair).await?;
                    if round > 0 {
                        comparison.add(&contender.name(), kind, Some(rate));
                    }
                }
            }
        }
        setup.close().await;
        let noun = if tasks == 1 { "task" } else { "tasks" };
        let title = format!("Pairs a second, {tasks} {noun} of one process (more is better)");
        report.table(comparison.table(&title, "pairs a second"));
    }
    Ok(())
}

async fn pairs_a_second(
    tasks: usize,
    time: Duration,
    pair: impl AsyncFn(String) -> Outcome<()>,
) -> Outcome<f64> {
    let started = Instant::now();
    let task = async |task: usize| -> Outcome<usize> {
        let mut pairs = 0;
        while started.elapsed() < time {
            // Recurring names: the cost of ever new ones is another figure.
            pair(format!("task:{task}:{}", pairs % 4)).await?;
            pairs += 1;
        }
        Ok(pairs)
    };
    let pairs: usize = try_join_all((0..tasks).map(task)).await?.into_iter().sum();
    Ok(number(pairs) / started.elapsed().as_secs_f64())
}
