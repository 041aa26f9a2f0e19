//! Many tasks of one process, each with names of its own: pairs a second.

use std::time::Instant;

use futures_util::future::try_join_all;
use mongo_lease_measure::{Extent, Outcome, number};

use crate::figure::{Figure, Unit};
use crate::pairs::OTHERS;
use crate::per_side::PerSide;
use crate::report::Report;
use crate::setup::Setup;
use crate::side::{Contender, Side, random_name};

pub(crate) async fn measure(extent: Extent, report: &mut Report) -> Outcome<()> {
    report.section("Many tasks of one process (more is better)");
    for (tasks, goal) in
        [(1, "at least 0.87"), (8, "at least 1.0"), (64, "at least 2.0"), (256, "at least 2.0")]
    {
        let setup = Setup::new().await?;
        // Enough of them that each round takes about half a second.
        let pairs = if tasks == 1 { 200 } else { 1_024_usize.div_ceil(tasks) };
        let rates = PerSide::measured(extent.of(10, 2), &Side::USUAL, async |side: Side| {
            let contender = Contender::fresh(&setup.database, side, OTHERS).await?;
            let rate = rate(&contender, tasks, pairs).await?;
            contender.close().await;
            Ok(rate)
        });
        let rates = rates.await?;
        let what = format!("pairs a second, {tasks} {}", if tasks == 1 { "task" } else { "tasks" });
        for (beside, floor, goal) in [
            ("bare pairs a second", Side::Bare, goal),
            ("the recipe's pairs a second", Side::Recipe, ""),
        ] {
            let rounds = rates.beside(floor, |rate| *rate);
            let figure = Figure::ratio(&what, beside, &rounds, Unit::PerSecond);
            report.add(figure.goal(goal).drawn());
        }
        setup.leases.shutdown().await;
    }
    Ok(())
}

/// How many pairs a second so many tasks do, each of them so many pairs.
async fn rate(contender: &Contender, tasks: usize, pairs: usize) -> Outcome<f64> {
    let task = async || -> Outcome<()> {
        for _ in 0..pairs {
            contender.pair(&random_name()).await?;
        }
        Ok(())
    };
    let started = Instant::now();
    try_join_all((0..tasks).map(|_| task())).await?;
    Ok(number(tasks * pairs) / started.elapsed().as_secs_f64())
}
