//! One caller: pairs of acquire and release of recurring names.

use std::time::Instant;

use mongo_lease_measure::{Extent, Outcome, millis_each};

use crate::chart::Chart;
use crate::report::Report;
use crate::setup::Setup;

use super::Comparison;

const PAIRS: usize = 100;

pub(crate) async fn measure(only: &[String], extent: Extent, report: &mut Report) -> Outcome<()> {
    let setup = Setup::new(only).await?;
    let mut comparison = Comparison::default();
    // The first round opens the connections.
    for round in 0..=extent.of(15, 3) {
        for host in &setup.hosts {
            let kind = host.kind();
            let floor = millis_a_pair(async |name| {
                host.floor.take(name).await?;
                host.floor.give(name).await
            });
            let floor = floor.await?;
            if round > 0 {
                comparison.floor(kind.floor_label(), kind, floor);
            }
            for (contender, peer) in host.peers.iter().filter(|it| !it.0.is_variant) {
                let pair = async |name: &str| peer.acquire(name).await?.release().await;
                let millis = millis_a_pair(pair).await?;
                if round > 0 {
                    comparison.add(&contender.name(), kind, Some(millis));
                }
            }
        }
    }
    let table = comparison.table("Acquire and release, one caller", "ms a pair");
    report.table(table.drawn(Chart {
        file: "alone.svg",
        caption: "acquire and release, one caller / mongod's floor, in the same run",
        bars: comparison.bars(true),
    }));
    setup.close().await;
    Ok(())
}

async fn millis_a_pair(pair: impl AsyncFn(&str) -> Outcome<()>) -> Outcome<f64> {
    let names: Vec<String> = (0..PAIRS).map(|number| format!("alone:{number}")).collect();
    let started = Instant::now();
    for name in &names {
        pair(name).await?;
    }
    Ok(millis_each(started.elapsed(), PAIRS))
}
