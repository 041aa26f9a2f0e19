//! Ever new names, taken and released with little else held, for minutes.

use std::time::{Duration, Instant};

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;

use crate::bare::{Setup, lock, unlock};
use crate::chart::Line;
use crate::measure::{Spread, counted, number};
use crate::report::Report;
use crate::{Extent, Outcome};

/// New names a second.
const RATE: usize = 300;
/// As many at once as a pool has connections; beyond that they would wait for each other.
const AT_ONCE_MAX: usize = 10;

/// What became of a run.
struct Course {
    /// The median time of a pair, in milliseconds, in each tenth of the run.
    tenths: Vec<f64>,
    seconds: f64,
    skipped_a_pair: f64,
    pairs: usize,
}

pub(crate) async fn measure(extent: Extent, report: &mut Report) -> Outcome<()> {
    let time = Duration::from_secs(u64::try_from(extent.of(300, 20))?);
    for (what, is_floor) in [("acquire and release", false), ("bare insert and delete", true)] {
        let setup = Setup::new().await?;
        let course = run(&setup, time, is_floor).await?;
        setup.leases.shutdown().await;
        let (first, last) = (average(&course.tenths[..2]), average(&course.tenths[8..]));
        let row = format!("{what}, {RATE} new names a second: last fifth of {time:?} / first");
        let note = format!(
            "{first:.2} ms, then {last:.2} ms; {} pairs, {:.0} index entries walked over a pair",
            course.pairs, course.skipped_a_pair
        );
        let goal = if is_floor { "" } else { "1.25" };
        report.row(&row, "itself", &format!("{:.2} x", last / first), &note, goal);
        let step = course.seconds / number(course.tenths.len());
        let at = |(tenth, &millis): (usize, &f64)| ((number(tenth) + 0.5) * step, millis);
        let points = course.tenths.iter().enumerate().map(at).collect();
        report.lines.push(Line { what: what.to_owned(), is_floor, points });
    }
    Ok(())
}

async fn run(setup: &Setup, time: Duration, is_floor: bool) -> Outcome<Course> {
    let skipped = setup.entries_skipped().await;
    let started = Instant::now();
    let mut ticks = tokio::time::interval(Duration::from_secs(1) / u32::try_from(RATE)?);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut under_way = FuturesUnordered::new();
    let mut taken = Vec::new();
    let mut pairs = 0;
    while started.elapsed() < time {
        tokio::select! {
            _ = ticks.tick(), if under_way.len() < AT_ONCE_MAX => {
                under_way.push(pair(setup, format!("order:{pairs}"), is_floor));
                pairs += 1;
            }
            Some(done) = under_way.next() => taken.push((started.elapsed(), done?)),
        }
    }
    while let Some(done) = under_way.next().await {
        taken.push((started.elapsed(), done?));
    }
    let tenth = |tenth: u32| {
        let (from, to) = (time * tenth / 10, time * (tenth + 1) / 10);
        let within = taken.iter().filter(|(at, _)| (from..to).contains(at));
        Spread::of(within.map(|(_, millis)| *millis).collect()).median
    };
    Ok(Course {
        tenths: (0..10).map(tenth).collect(),
        seconds: time.as_secs_f64(),
        skipped_a_pair: counted(setup.entries_skipped().await - skipped) / number(pairs),
        pairs,
    })
}

/// A pair, and how many milliseconds it took.
async fn pair(setup: &Setup, name: String, is_floor: bool) -> Outcome<f64> {
    let started = Instant::now();
    if is_floor {
        let lock = lock(&name);
        let unlock = unlock(&lock);
        setup.bare.insert_one(lock).await?;
        setup.bare.delete_one(unlock).await?;
    } else {
        setup.leases.acquire(name).await?.release().await?;
    }
    Ok(started.elapsed().as_secs_f64() * 1e3)
}

fn average(figures: &[f64]) -> f64 {
    figures.iter().sum::<f64>() / number(figures.len())
}
