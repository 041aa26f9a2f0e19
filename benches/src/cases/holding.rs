//! The cost of holding: renewals of many leases, beside the driver's `update_many`, and their memory.

use std::time::Duration;

use futures_util::future::try_join;
use mongo_lease::mongodb::Collection;
use mongo_lease::mongodb::bson::{DateTime, Document, doc};
use mongo_lease_measure::{Extent, Outcome, counted, host, indexed_collection, number};

use super::idle;
use crate::figure::{Figure, Unit};
use crate::report::Report;
use crate::setup::Setup;
use crate::side::{other, random_name};
use crate::workers::Worker;

/// A third of the default ttl.
const PERIOD: Duration = Duration::from_secs(10);
/// Leases of one command, as renewals have them.
const BATCH: usize = 2_000;

/// The cost of a renewal of all leases, in milliseconds of processors.
pub(super) struct Renewal {
    pub(super) commands: f64,
    pub(super) client: f64,
    pub(super) server: f64,
}

pub(crate) async fn measure(extent: Extent, report: &mut Report) -> Outcome<()> {
    let (idle, ()) = try_join(idle::measure(extent), held(extent, report)).await?;
    report.section("Leases that are held");
    report.add(idle);
    Ok(())
}

async fn held(extent: Extent, report: &mut Report) -> Outcome<()> {
    let sizes: &[(usize, &str)] = if extent.is_short() {
        &[(1_000, "1,000"), (10_000, "10,000")]
    } else {
        &[(1_000, "1,000"), (10_000, "10,000"), (100_000, "100,000")]
    };
    for &(count, label) in sizes {
        let setup = Setup::new().await?;
        let mut worker = Worker::start(&setup).await?;
        let order = format!("hold {count} {}", (PERIOD * 3).as_millis());
        let bytes = counted(worker.number(&order).await?) / number(count);
        let periods = if count > 10_000 { 2 } else { extent.of(3, 1) };
        let ours = renewals(&setup, &mut worker, PERIOD, periods).await?;
        // It is killed: the release of so many is not measured.
        drop(worker);
        let floor = floor(&setup, count).await?;
        setup.leases.shutdown().await;
        if count <= 10_000 {
            rows(label, &ours, count == 10_000, report);
        }
        report.section("Growth: leases held by one process");
        for figure in [
            Figure::quotient(
                "renewal, client's processor time",
                "`update_many` of as many",
                ours.client,
                floor.client,
                Unit::Millis,
            ),
            Figure::quotient(
                "renewal, server's processor time",
                "`update_many` of as many",
                ours.server,
                floor.server,
                Unit::Millis,
            ),
            Figure::counted("renewal, commands", ours.commands, Unit::Commands),
            Figure::counted(
                "renewal of a lease, client's processor time",
                ours.client * 1e3 / number(count),
                Unit::Micros,
            ),
            Figure::counted(
                "renewal of a lease, server's processor time",
                ours.server * 1e3 / number(count),
                Unit::Micros,
            ),
            Figure::counted("memory of a held lease", bytes, Unit::Bytes),
        ] {
            report.add(figure.at(&format!("{label} leases"), Some(number(count))));
        }
    }
    Ok(())
}

fn rows(label: &str, ours: &Renewal, has_goals: bool, report: &mut Report) {
    report.section("Leases that are held");
    let what = format!("renewing {label} leases, a period of 10 s");
    for (part, value, unit, goal) in [
        ("commands", ours.commands, Unit::Commands, "8"),
        ("client's processor time", ours.client, Unit::Millis, "30 ms"),
        ("server's processor time", ours.server, Unit::Millis, "400 ms"),
    ] {
        let figure = Figure::counted(&format!("{what}: {part}"), value, unit);
        report.add(figure.goal(if has_goals { goal } else { "" }));
    }
}

/// The cost of a renewal period of what the worker holds.
pub(super) async fn renewals(
    setup: &Setup,
    worker: &mut Worker,
    period: Duration,
    periods: usize,
) -> Outcome<Renewal> {
    let time = period * u32::try_from(periods)?;
    let commands = setup.server.command_counts().await;
    let server = setup.server_time();
    let client = worker.number(&format!("renew {}", time.as_millis())).await?;
    let server = setup.server_time() - server;
    let commands = setup.server.command_counts().await - commands;
    Ok(Renewal {
        commands: counted(commands.update + commands.find) / number(periods),
        client: Duration::from_nanos(client).as_secs_f64() * 1e3 / number(periods),
        server: server.as_secs_f64() * 1e3 / number(periods),
    })
}

/// The same number of documents, prolonged by the driver: in a collection of their own.
async fn floor(setup: &Setup, count: usize) -> Outcome<Renewal> {
    let collection = indexed_collection(&setup.database, "prolonged").await?;
    prolonging(setup, &collection, count, PERIOD, 1).await
}

/// Inserts so many locks, and prolongs all of them once in each period, as renewals do.
///
/// It takes as long as renewals, for a server has work of its own.
pub(super) async fn prolonging(
    setup: &Setup,
    collection: &Collection<Document>,
    count: usize,
    period: Duration,
    periods: usize,
) -> Outcome<Renewal> {
    let names: Vec<String> = (0..count).map(|_| random_name()).collect();
    for batch in names.chunks(10_000) {
        collection.insert_many(batch.iter().map(|name| other(name))).ordered(false).await?;
    }
    let (client, server) = (host::own_processor_time(), setup.server_time());
    let mut ticks = tokio::time::interval(period);
    for _ in 0..periods {
        ticks.tick().await;
        let until = DateTime::from_millis(DateTime::now().timestamp_millis() + 3_600_000);
        for batch in names.chunks(BATCH) {
            let filter = doc! { "name": { "$in": batch } };
            let update = doc! { "$set": { "expiresAt": until } };
            if collection.update_many(filter, update).await?.matched_count
                != u64::try_from(batch.len())?
            {
                return Err("a lock has gone".into());
            }
        }
    }
    // The last period ends as well: this time is what is measured.
    ticks.tick().await;
    let each = |time: Duration| time.as_secs_f64() * 1e3 / number(periods);
    Ok(Renewal {
        commands: number(count.div_ceil(BATCH)),
        client: each(host::own_processor_time() - client),
        server: each(setup.server_time() - server),
    })
}
