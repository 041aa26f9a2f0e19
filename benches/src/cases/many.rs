//! Many tasks of one process, each with names of its own: pairs a second.

use std::time::{Duration, Instant};

use mongo_lease_measure::{Extent, Outcome, number};

use crate::figure::Figure;
use crate::goal::Goal;
use crate::pairs::OTHERS;
use crate::per_side::PerSide;
use crate::report::Report;
use crate::setup::Setup;
use crate::side::{Contender, Side, random_name};
use crate::unit::Unit;

/// How long the tasks of a round begin new pairs. The round ends with the last of these pairs.
const TIME: Duration = Duration::from_millis(500);

pub(crate) async fn measure(extent: Extent, report: &mut Report) -> Outcome<()> {
    report.section("Many tasks of one process (more is better)");
    for (tasks, goal) in [(1, 0.87), (8, 1.0), (64, 2.0), (256, 2.0)] {
        let setup = Setup::new().await?;
        let rates = PerSide::measured(extent.of(12, 2), &Side::USUAL, async |side: Side| {
            let contender = Contender::fresh(&setup.databases, side, OTHERS).await?;
            let rate = rate(&contender, tasks).await?;
            contender.close().await;
            Ok(rate)
        });
        let rates = rates.await?;
        let what = format!("pairs a second, {tasks} {}", if tasks == 1 { "task" } else { "tasks" });
        for (beside, floor, goal) in [
            ("bare pairs a second", Side::Bare, Some(Goal::AtLeast(goal))),
            ("the recipe's pairs a second", Side::Recipe, None),
        ] {
            let rounds = rates.beside(floor, |rate| *rate);
            let figure = Figure::ratio(&what, beside, &rounds, Unit::PerSecond);
            report.add(figure.goal(goal).drawn());
        }
        setup.leases.shutdown().await;
    }
    Ok(())
}

/// How many pairs a second so many spawned tasks do.
async fn rate(contender: &Contender, tasks: usize) -> Outcome<f64> {
    let started = Instant::now();
    let task = |_| tokio::spawn(pairs_until(contender.clone(), started + TIME));
    let tasks: Vec<_> = (0..tasks).map(task).collect();
    let mut pairs = 0;
    for task in tasks {
        pairs += task.await??;
    }
    Ok(number(pairs) / started.elapsed().as_secs_f64())
}

/// Takes pairs, each with a new name, and returns how many.
async fn pairs_until(contender: Contender, end: Instant) -> Outcome<usize> {
    let mut pairs = 0;
    while Instant::now() < end {
        contender.pair(&random_name()).await?;
        pairs += 1;
    }
    Ok(pairs)
}
