//! Ever new names, acquired and released for minutes while few others are held.

use std::time::{Duration, Instant};

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use mongo_lease_measure::{Extent, Outcome, Spread, counted, host, millis_each, number};

use crate::bare::{Setup, lock, unlock};
use crate::chart::Line;
use crate::report::Report;

/// New names a second.
const RATE: usize = 300;
/// As many at once as a pool has connections; with more they would wait for each other.
const AT_ONCE_MAX: usize = 10;

/// Parts of a run, each of which is reported by itself.
const PARTS: u32 = 10;

/// How a held lease is released.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Ours, where a release makes a tombstone.
    Tombstones,
    /// Ours, where it deletes.
    Deletes,
    /// The floor.
    Floor,
}

/// The figures of a run.
struct Course {
    /// The median time of a pair, in milliseconds, in each part of the run.
    millis: Vec<f64>,
    /// Index entries that were walked over for a pair, in each part.
    skipped: Vec<f64>,
    /// Of the whole run, for a pair.
    server_millis: f64,
    seconds: f64,
    skipped_a_pair: f64,
    pairs: usize,
}

pub(crate) async fn measure(extent: Extent, report: &mut Report) -> Outcome<()> {
    let time = Duration::from_secs(u64::try_from(extent.of(300, 20))?);
    let mut courses = Vec::new();
    for (what, kind) in [
        ("acquire and release with tombstones", Kind::Tombstones),
        ("acquire and release", Kind::Deletes),
        ("bare insert and delete", Kind::Floor),
    ] {
        let is_floor = kind == Kind::Floor;
        let setup = Setup::with_tombstones(kind == Kind::Tombstones).await?;
        let course = run(&setup, time, is_floor).await?;
        setup.leases.shutdown().await;
        let (first, last) = (average(&course.millis[..2]), average(&course.millis[8..]));
        let row = format!("{what}, {RATE} new names a second: last fifth of {time:?} / first");
        let note = format!("{first:.2} ms, then {last:.2} ms; {} pairs", course.pairs);
        let goal = if kind == Kind::Tombstones { "1.25" } else { "" };
        report.row(&row, "itself", &format!("{:.2} x", last / first), &note, goal);
        let step = course.seconds / number(course.millis.len());
        let at = |(part, &millis): (usize, &f64)| ((number(part) + 0.5) * step, millis);
        let points = course.millis.iter().enumerate().map(at).collect();
        report.lines.push(Line { what: what.to_owned(), is_floor, points });
        courses.push(course);
    }
    if let [with, without, floor] = courses.as_slice() {
        beside_each_other("a pair with tombstones", with, floor, "100", report);
        beside_each_other("a pair", without, floor, "", report);
    }
    Ok(())
}

/// Both results of the same time. They ran one after the other, so times are for orientation.
fn beside_each_other(which: &str, ours: &Course, floor: &Course, goal: &str, report: &mut Report) {
    let what = format!("{which}, index entries walked over, {RATE} new names a second");
    let worst = |course: &Course| course.skipped.iter().copied().fold(0.0, f64::max);
    let figure = format!("{:.0} and {:.0}", ours.skipped_a_pair, floor.skipped_a_pair);
    let note = format!("in the worst tenth {:.0} and {:.0}", worst(ours), worst(floor));
    report.row(&what, "bare insert and delete", &figure, &note, goal);
    let what = format!("{which}, processor time, server, {RATE} new names a second");
    let figure = format!("{:.2} x", ours.server_millis / floor.server_millis);
    let note = format!("{:.2} ms and {:.2} ms", ours.server_millis, floor.server_millis);
    report.row(&what, "bare insert and delete", &figure, &note, "");
    let what = format!("{which}, time, {RATE} new names a second");
    let (our_time, floor_time) = (average(&ours.millis), average(&floor.millis));
    let note = format!("{our_time:.2} ms and {floor_time:.2} ms, one run after the other");
    let figure = format!("{:.2} x", our_time / floor_time);
    report.row(&what, "bare insert and delete", &figure, &note, "");
}

async fn run(setup: &Setup, time: Duration, is_floor: bool) -> Outcome<Course> {
    let server = || host::processor_time_of(setup.server.mongod().pid());
    let (skipped_before, server_before) = (setup.entries_skipped().await, server());
    let started = Instant::now();
    let mut ticks = tokio::time::interval(Duration::from_secs(1) / u32::try_from(RATE)?);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut under_way = FuturesUnordered::new();
    let mut taken = Vec::new();
    let mut pairs = 0;
    let mut looks = vec![(0, skipped_before)];
    while started.elapsed() < time {
        if started.elapsed() >= time * u32::try_from(looks.len())? / PARTS {
            looks.push((pairs, setup.entries_skipped().await));
        }
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
    looks.push((pairs, setup.entries_skipped().await));
    let part = |part: u32| {
        let (from, to) = (time * part / PARTS, time * (part + 1) / PARTS);
        let within = taken.iter().filter(|(at, _)| (from..to).contains(at));
        Spread::of(within.map(|(_, millis)| *millis).collect()).median
    };
    let each = |skipped: u64, pairs: usize| counted(skipped) / number(pairs.max(1));
    let between = |looks: &[(usize, u64)]| match looks {
        [(pairs, skipped), (more_pairs, more_skipped), ..] => {
            each(more_skipped - skipped, more_pairs - pairs)
        }
        [] | [_] => 0.0,
    };
    let skipped = looks.last().map_or(0, |(_, skipped)| skipped - skipped_before);
    Ok(Course {
        millis: (0..PARTS).map(part).collect(),
        skipped: looks.windows(2).map(between).collect(),
        server_millis: millis_each(server() - server_before, pairs),
        seconds: time.as_secs_f64(),
        skipped_a_pair: each(skipped, pairs),
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
