//! Ever more calls and leases of one process, all at once: what each of them costs.

use std::time::{Duration, Instant};

use futures_util::future::try_join_all;
use mongo_lease::mongodb::bson::{Document, doc};
use mongo_lease::{Lease, LeaseManager, ShutdownReport};
use mongo_lease_measure::{Extent, Outcome, counted, host, number};
use tokio::task::JoinSet;

use crate::commands::Commands;
use crate::figure::Figure;
use crate::goal::Goal;
use crate::report::Report;
use crate::setup::Setup;
use crate::side::random_name;
use crate::unit::Unit;

/// The most that a lease costs beside ten times fewer.
const FLAT: f64 = 1.5;

const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(60);

/// A figure of all sizes: microseconds, or commands for a thousand.
struct Row {
    what: &'static str,
    unit: Unit,
    value: f64,
}

pub(super) async fn measure(extent: Extent, report: &mut Report) -> Outcome<()> {
    report.section("Growth: calls of one process, all at once");
    let sizes = [1_000, 10_000, extent.of(100_000, 20_000)];
    let mut smaller: Option<(Vec<Row>, usize)> = None;
    for size in sizes {
        let mut rows = bursts(size).await?;
        rows.extend(ends(size).await?);
        rows.extend(waiters(size).await?);
        rows.push(together(size / 100).await?);
        let label = format!("{size}");
        for (place, row) in rows.iter().enumerate() {
            let figure = Figure::counted(row.what, row.value, row.unit);
            report.add(figure.at(&label, Some(number(size))));
            if let Some((before, _)) = smaller.as_ref().filter(|_| row.unit == Unit::Micros) {
                let beside = "beside the size before";
                let quotient =
                    Figure::quotient(row.what, beside, row.value, before[place].value, row.unit);
                report.add(quotient.goal(Goal::AtMost(FLAT)).at(&label, Some(number(size))));
            }
        }
        smaller = Some((rows, size));
    }
    Ok(())
}

/// Microseconds for each of so many.
fn each(what: &'static str, started: Instant, size: usize) -> Row {
    let value = started.elapsed().as_secs_f64() * 1e6 / number(size);
    Row { what, unit: Unit::Micros, value }
}

/// The leases of so many calls that are started at once.
async fn burst(leases: &LeaseManager, size: usize) -> Outcome<Vec<Lease>> {
    let mut calls = JoinSet::new();
    for _ in 0..size {
        calls.spawn(leases.acquire(random_name()).into_future());
    }
    Ok(calls.join_all().await.into_iter().collect::<Result<_, _>>()?)
}

/// Acquires all at once, and releases all at once.
async fn bursts(size: usize) -> Outcome<Vec<Row>> {
    let setup = Setup::new().await?;
    let before = Commands::to(&setup).await?;
    let started = Instant::now();
    let held = burst(&setup.leases, size).await?;
    let acquired = each("a call, until all are granted", started, size);
    let sent = Commands::to(&setup).await?.since(&before);
    println!("  {size} calls: {sent}");
    let value = counted(sent.all()) * 1e3 / number(size);
    let commands = Row { what: "commands for 1,000 calls", unit: Unit::Commands, value };
    let started = Instant::now();
    let mut releases = JoinSet::new();
    for lease in held {
        releases.spawn(lease.release());
    }
    while let Some(released) = releases.join_next().await {
        released??;
    }
    let released = each("a release, until all are done", started, size);
    setup.leases.shutdown().await;
    Ok(vec![acquired, commands, released])
}

/// The ends of so many leases: by a shutdown, by being dropped, by being lost.
async fn ends(size: usize) -> Outcome<Vec<Row>> {
    let setup = Setup::new().await?;
    // The default of 10 s ends before the server has deleted 100,000, and then there is no time for each to measure.
    let builder = LeaseManager::builder(setup.databases.by_default().await?);
    let leases = builder.shutdown_timeout(SHUTDOWN_TIMEOUT).build().await?;
    let held = burst(&leases, size).await?;
    let started = Instant::now();
    let ShutdownReport { released, left_to_expire, .. } = leases.shutdown().await;
    let shut_down = each("a lease, until a shutdown has released all", started, size);
    if released != size {
        return Err(format!("{} of {size} leases are left", left_to_expire.len()).into());
    }
    drop(held);

    let setup = Setup::new().await?;
    let held = burst(&setup.leases, size).await?;
    let started = Instant::now();
    drop(held);
    // It waits for the release of what was dropped.
    setup.leases.shutdown().await;
    let dropped = each("a dropped lease, until all are released", started, size);

    let setup = Setup::new().await?;
    let held = burst(&setup.leases, size).await?;
    let locks = setup.databases.by_default().await?.collection::<Document>("locks");
    let before = host::own_processor_time();
    locks.delete_many(doc! {}).await?;
    for lease in &held {
        lease.lost().await;
    }
    let taken = host::own_processor_time() - before;
    let value = taken.as_secs_f64() * 1e6 / number(size);
    let what = "a lost lease, processor time until all are told";
    let lost = Row { what, unit: Unit::Micros, value };
    drop(held);
    setup.leases.shutdown().await;
    Ok(vec![shut_down, dropped, lost])
}

/// So many calls that wait, for one name and for as many names, and are dropped.
async fn waiters(size: usize) -> Outcome<Vec<Row>> {
    // More names than that take a command each, and nothing else is learned.
    const NAMES_MAX: usize = 10_000;
    let mut rows = Vec::new();
    for (names, what) in [
        (1, "a call that waits for the one name, begun and dropped"),
        (size.min(NAMES_MAX), "a call that waits for a name of its own, begun and dropped"),
    ] {
        let size = if names == 1 { size } else { names };
        let setup = Setup::new().await?;
        let other = Setup::beside(&setup).await?;
        let names: Vec<String> = (0..names).map(|_| random_name()).collect();
        let held = try_join_all(names.iter().map(|name| setup.leases.acquire(name).into_future()));
        let held = held.await?;
        let before = host::own_processor_time();
        let mut calls = JoinSet::new();
        for number in 0..size {
            let name = &names[number % names.len()];
            calls.spawn(other.acquire(name).wait_forever().into_future());
        }
        for name in &names {
            while setup.leases.get(name).await?.is_none_or(|info| info.waiting == 0) {
                tokio::task::yield_now().await;
            }
        }
        calls.shutdown().await;
        other.shutdown().await;
        let taken = host::own_processor_time() - before;
        let value = taken.as_secs_f64() * 1e6 / number(size);
        rows.push(Row { what, unit: Unit::Micros, value });
        drop(held);
        setup.leases.shutdown().await;
    }
    Ok(rows)
}

/// The leases of so many names, by one call.
async fn together(size: usize) -> Outcome<Row> {
    let setup = Setup::new().await?;
    let names: Vec<String> = (0..size).map(|_| random_name()).collect();
    let started = Instant::now();
    let set = setup.leases.acquire_all(names).await?;
    let row = each("a name of one `acquire_all` of a hundredth as many", started, size);
    set.release().await?;
    setup.leases.shutdown().await;
    Ok(row)
}
