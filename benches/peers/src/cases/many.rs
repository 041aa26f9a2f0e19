//! Many tasks of one process, each with names of its own: pairs a second.

use std::time::Instant;

use futures_util::future::try_join_all;

use crate::measure::number;
use crate::report::Report;
use crate::setup::Setup;
use crate::{Extent, Outcome};

use super::Comparison;

pub(crate) async fn measure(setup: &Setup, extent: Extent, report: &mut Report) -> Outcome<()> {
    for tasks in [1, 8, 64, 256] {
        let all = if tasks == 1 { extent.of(200, 50) } else { extent.of(1_024, 512) };
        let turns = all.div_ceil(tasks);
        let mut comparison = Comparison::default();
        for round in 0..=extent.of(7, 2) {
            for host in &setup.hosts {
                let kind = host.kind();
                let floor = async |name: String| {
                    host.floor.take(&name).await?;
                    host.floor.give(&name).await
                };
                let floor = pairs_a_second(tasks, turns, floor).await?;
                if round > 0 {
                    comparison.floor(kind.floor_label(), kind, floor);
                }
                for (contender, peer) in host.peers.iter().filter(|it| !it.0.is_variant) {
                    let pair = async |name: String| peer.acquire(&name).await?.release().await;
                    let rate = pairs_a_second(tasks, turns, pair).await?;
                    if round > 0 {
                        comparison.add(&contender.name(), kind, Some(rate));
                    }
                }
            }
        }
        let title = format!("Pairs a second, {tasks} tasks of one process (more is better)");
        report.table(comparison.table(&title, "pairs a second"));
    }
    Ok(())
}

async fn pairs_a_second(
    tasks: usize,
    turns: usize,
    pair: impl AsyncFn(String) -> Outcome<()>,
) -> Outcome<f64> {
    let task = async |task: usize| -> Outcome<()> {
        for turn in 0..turns {
            // Names that come again: what ever new ones cost is another figure.
            pair(format!("task:{task}:{}", turn % 4)).await?;
        }
        Ok(())
    };
    let started = Instant::now();
    try_join_all((0..tasks).map(task)).await?;
    Ok(number(tasks * turns) / started.elapsed().as_secs_f64())
}
