//! Ever new names with nothing else held: with tombstones, without, and the bare driver.

use mongo_lease_measure::{Extent, Outcome, counted, millis_each, number, quantile};
use mongo_lease_testbed::Server;

use crate::figure::Figure;
use crate::report::Report;
use crate::setup::Setup;
use crate::side::{Contender, Side};
use crate::unit::Unit;
use crate::workers::{Worker, all, pair_millis};

/// New names a second, of all processes together.
const RATE: usize = 300;

/// How long the TTL monitor sleeps. A run of seconds then has about the same share of live tombstones among dead
/// entries as a long one has by default, where the monitor sleeps for 60 s and dead entries stay for 300 s.
const MONITOR_SECONDS: u32 = 2;

const SIDES: [Side; 3] = [Side::Tombstones, Side::Ours, Side::Bare];

/// The cost of a pair.
struct Cost {
    millis: f64,
    server: f64,
    /// Index entries that are walked over.
    walked: f64,
}

pub(crate) async fn measure(extent: Extent, report: &mut Report) -> Outcome<()> {
    report.section("Ever new names");
    let many = extent.of(50, 20);
    let settings = [("random", 1), ("in-order", 1), ("random", many), ("in-order", many)];
    for (number, (names, processes)) in settings.into_iter().enumerate() {
        let mut costs = Vec::new();
        for turn in 0..SIDES.len() {
            // Each setting begins with another side.
            let side = SIDES[(number + turn) % SIDES.len()];
            costs.push((side, run(side, names, processes, extent).await?));
        }
        let of = |side| costs.iter().find(|(its, _)| *its == side).map(|(_, cost)| cost);
        let (Some(with), Some(without), Some(bare)) =
            (of(Side::Tombstones), of(Side::Ours), of(Side::Bare))
        else {
            return Err("a side was not measured".into());
        };
        let several = if processes == 1 { "" } else { "es" };
        let setting = format!("{}, {processes} process{several}", names.replace('-', " "));
        for figure in figures(with, without, bare) {
            report.add(figure.at(&setting, None));
        }
    }
    Ok(())
}

fn figures(with: &Cost, without: &Cost, bare: &Cost) -> Vec<Figure> {
    let beside = |what: &str, ours: f64, floor: f64| {
        Figure::quotient(what, "the bare pair", ours, floor, Unit::Millis)
    };
    let mut figures = Vec::new();
    for (which, ours) in [("with tombstones", with), ("without", without)] {
        let what = format!("a pair's time, p50, {which}");
        figures.push(beside(&what, ours.millis, bare.millis));
        let what = format!("a pair's processor time, server, {which}");
        figures.push(beside(&what, ours.server, bare.server));
    }
    for (which, cost) in [("with tombstones", with), ("without", without), ("bare", bare)] {
        let what = format!("index entries walked over a pair, {which}");
        figures.push(Figure::counted(&what, cost.walked, Unit::Count));
    }
    figures
}

/// Pairs of all processes together, in a collection without other documents, on a server of this side alone: the
/// counters of the server, and the deletes of its TTL monitor, are then those of this side.
async fn run(side: Side, names: &str, processes: usize, extent: Extent) -> Outcome<Cost> {
    let server = Server::builder().on_disk().ttl_monitor_sleep_secs(MONITOR_SECONDS).start();
    let setup = Setup::on(server).await?;
    let mut workers = Worker::start_all(&setup, processes).await?;
    let contender = Contender::fresh(&setup.databases, side, 0).await?;
    let open = format!("open {} {}", side.word(), contender.collection.name());
    contender.close().await;
    all(&mut workers, &open).await?;
    let (walked, server) = (setup.entries_skipped().await, setup.server_time());
    let rate = RATE / processes;
    let millis = extent.of(10_000, 3_000);
    let answers = all(&mut workers, &format!("pairs {names} {rate} {millis}")).await?;
    let server = setup.server_time() - server;
    let walked = setup.entries_skipped().await - walked;
    let taken = pair_millis(&answers)?;
    setup.leases.shutdown().await;
    Ok(Cost {
        millis: quantile(&taken, 500),
        server: millis_each(server, taken.len()),
        walked: counted(walked) / number(taken.len()),
    })
}
