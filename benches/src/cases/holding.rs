//! The cost of holding: renewals of many leases, beside the driver's `update_many`, and their memory.

use std::time::Duration;

use mongo_lease_measure::{Extent, Outcome, counted, number};

use super::idle;
use crate::figure::Figure;
use crate::goal::Goal;
use crate::per_side::PerSide;
use crate::report::Report;
use crate::setup::Setup;
use crate::side::Side;
use crate::unit::Unit;
use crate::workers::Worker;

/// A third of the default ttl.
const PERIOD: Duration = Duration::from_secs(10);
/// The collection of both sides, each on a server of its own. It is the default one.
const COLLECTION: &str = "locks";
/// How many leases have goals.
const WITH_GOALS: usize = 10_000;

/// The cost of a renewal of all leases.
pub(super) struct Renewal {
    pub(super) commands: f64,
    /// Milliseconds of the client's processor.
    pub(super) client: f64,
    /// Milliseconds of the server's processor.
    pub(super) server: f64,
}

/// A round of one side.
struct Held {
    renewal: Renewal,
    /// The memory of a lease; 0 for the driver, which has none.
    bytes: f64,
}

pub(crate) async fn measure(extent: Extent, report: &mut Report) -> Outcome<()> {
    let idle = idle::measure(extent).await?;
    held(extent, report).await?;
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
    let mut sides = [Side::Ours, Side::Bare];
    for &(count, label) in sizes {
        let rounds = if count > WITH_GOALS { 1 } else { extent.of(2, 1) };
        let periods = extent.of(2, 1);
        let costs = PerSide::without_warm_up(rounds, &sides, async |side: Side| {
            round(side, count, periods).await
        });
        let costs = costs.await?;
        // The next size begins with the other side.
        sides.reverse();
        if count <= WITH_GOALS {
            rows(label, &costs, count == WITH_GOALS, report);
        }
        report.section("Growth: leases held by one process");
        for figure in growth(&costs, count) {
            report.add(figure.at(&format!("{label} leases"), Some(number(count))));
        }
    }
    Ok(())
}

/// Renewals of so many leases, or the driver's: in a worker process, and on a server of this round alone.
async fn round(side: Side, count: usize, periods: usize) -> Outcome<Held> {
    let setup = Setup::new().await?;
    let mut worker;
    let held = if side == Side::Ours {
        worker = Worker::start(&setup).await?;
        let order = format!("hold random {count} {}", (PERIOD * 3).as_millis());
        let bytes = counted(worker.number(&order).await?) / number(count);
        Held { renewal: renewals(&setup, &mut worker, PERIOD, periods).await?, bytes }
    } else {
        worker = Worker::start_bare(&setup).await?;
        worker.obey(&format!("insert {COLLECTION} {count}")).await?;
        let renewal = prolonging(&setup, &mut worker, PERIOD, periods).await?;
        Held { renewal, bytes: 0.0 }
    };
    // The worker is killed: the release of so many is not measured.
    drop(worker);
    setup.leases.shutdown().await;
    Ok(held)
}

fn rows(label: &str, costs: &PerSide<Held>, has_goals: bool, report: &mut Report) {
    report.section("Leases that are held");
    let what = format!("renewing {label} leases, a period of 10 s");
    for (part, figure, unit, goal) in [
        ("commands", (|it| it.commands) as fn(&Renewal) -> f64, Unit::Commands, 8.0),
        ("client's processor time", |it| it.client, Unit::Millis, 30.0),
        ("server's processor time", |it| it.server, Unit::Millis, 400.0),
    ] {
        let ours = costs.median(Side::Ours, |held| figure(&held.renewal));
        let figure = Figure::counted(&format!("{what}: {part}"), ours, unit);
        report.add(figure.goal(has_goals.then_some(Goal::AtMost(goal))));
    }
}

fn growth(costs: &PerSide<Held>, count: usize) -> Vec<Figure> {
    let ours = |figure: fn(&Held) -> f64| costs.median(Side::Ours, figure);
    let beside = |part, figure: fn(&Held) -> f64| {
        let rounds = costs.beside(Side::Bare, figure);
        let what = format!("renewal, {part}'s processor time");
        Figure::ratio(&what, "`update_many` of as many", &rounds, Unit::Millis)
    };
    let of_one = |part, millis: f64| {
        let what = format!("renewal of a lease, {part}'s processor time");
        Figure::counted(&what, millis * 1e3 / number(count), Unit::Micros)
    };
    let memory = "memory of a held lease, with a name of 24 bytes";
    vec![
        beside("client", |it| it.renewal.client),
        beside("server", |it| it.renewal.server),
        Figure::counted("renewal, commands", ours(|it| it.renewal.commands), Unit::Commands),
        of_one("client", ours(|it| it.renewal.client)),
        of_one("server", ours(|it| it.renewal.server)),
        Figure::counted(memory, ours(|it| it.bytes), Unit::Bytes),
    ]
}

/// The cost of a renewal period of what the worker holds.
pub(super) async fn renewals(
    setup: &Setup,
    worker: &mut Worker,
    period: Duration,
    periods: usize,
) -> Outcome<Renewal> {
    let time = period * u32::try_from(periods)?;
    cost(setup, worker, &format!("renew {}", time.as_millis()), periods).await
}

/// The cost of a period of what the worker has inserted, and prolongs by the driver.
///
/// It takes as long as renewals, for a server and a client have work of their own.
pub(super) async fn prolonging(
    setup: &Setup,
    worker: &mut Worker,
    period: Duration,
    periods: usize,
) -> Outcome<Renewal> {
    cost(setup, worker, &format!("prolong {} {periods}", period.as_millis()), periods).await
}

/// The cost of a period, where the order takes so many, and is answered by the nanoseconds of the worker's processor.
async fn cost(setup: &Setup, worker: &mut Worker, order: &str, periods: usize) -> Outcome<Renewal> {
    let commands = setup.server.command_counts().await;
    let server = setup.server_time();
    let client = worker.number(order).await?;
    let server = setup.server_time() - server;
    let commands = setup.server.command_counts().await - commands;
    Ok(Renewal {
        commands: counted(commands.update + commands.find) / number(periods),
        client: Duration::from_nanos(client).as_secs_f64() * 1e3 / number(periods),
        server: server.as_secs_f64() * 1e3 / number(periods),
    })
}
