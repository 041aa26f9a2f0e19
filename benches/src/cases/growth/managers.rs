//! Ever more processes, each with a manager: all take pairs now and then, or all wait while another takes pairs.

use mongo_lease_measure::{Extent, Outcome, Round, Rounds, millis_each, number, quantile};

use crate::cases::alone::{BARE_PAIR, RECIPE_PAIR};
use crate::figure::{Figure, Unit};
use crate::pairs::{OTHERS, Pairs};
use crate::per_side::PerSide;
use crate::report::Report;
use crate::setup::Setup;
use crate::side::{Contender, Side, random_name};
use crate::workers::{Worker, all, pair_millis, until_waiting};

/// Pairs a second of each process.
const RATE: usize = 5;

/// The cost of the pairs of all processes.
struct Load {
    millis: f64,
    server: f64,
}

pub(super) async fn measure(extent: Extent, report: &mut Report) -> Outcome<()> {
    report.section("Growth: managers");
    let most = extent.of(50, 20);
    let setup = Setup::new().await?;
    let mut workers = Worker::start_all(&setup, most).await?;
    for count in [1, 10, most] {
        let workers = workers.get_mut(..count).ok_or("too few workers")?;
        let mut figures = now_and_then(&setup, workers, extent).await?;
        figures.extend(waiting(&setup, workers, extent).await?);
        let label = if count == 1 { "1 process".to_owned() } else { format!("{count} processes") };
        for figure in figures {
            report.add(figure.at(&label, Some(number(count))));
        }
    }
    setup.leases.shutdown().await;
    Ok(())
}

/// All take pairs now and then.
async fn now_and_then(
    setup: &Setup,
    workers: &mut [Worker],
    extent: Extent,
) -> Outcome<Vec<Figure>> {
    let millis = extent.of(3_000, 2_000);
    let loads = PerSide::without_warm_up(extent.of(2, 1), &Side::USUAL, async |side: Side| {
        let contender = Contender::fresh(&setup.database, side, OTHERS).await?;
        let collection = contender.collection.name();
        all(workers, &format!("open {} {collection}", side.word())).await?;
        let server = setup.server_time();
        let answers = all(workers, &format!("pairs random {RATE} {millis}")).await?;
        let server = setup.server_time() - server;
        let taken = pair_millis(&answers)?;
        contender.close().await;
        Ok(Load { millis: quantile(&taken, 500), server: millis_each(server, taken.len()) })
    });
    let loads = loads.await?;
    let what = format!("a pair, where each takes {RATE} a second");
    let ratio = |what: &str, beside, floor, figure: fn(&Load) -> f64| {
        Figure::ratio(what, beside, &loads.beside(floor, figure), Unit::Millis)
    };
    Ok(vec![
        ratio(&what, BARE_PAIR, Side::Bare, |load| load.millis),
        ratio(&what, RECIPE_PAIR, Side::Recipe, |load| load.millis),
        ratio(&format!("{what}: processor time, server"), BARE_PAIR, Side::Bare, |it| it.server),
    ])
}

/// All wait for a lease, while this process takes pairs: before they wait, and then.
async fn waiting(setup: &Setup, workers: &mut [Worker], extent: Extent) -> Outcome<Vec<Figure>> {
    let rounds = extent.of(4, 2);
    let name = random_name();
    let before = pairs(setup, rounds).await?;
    let lease = setup.leases.acquire(&name).await?;
    for worker in workers.iter_mut() {
        worker.order(&format!("turns 1 {name}")).await?;
    }
    until_waiting(&setup.leases, &name, workers.len()).await?;
    let beside_waiters = pairs(setup, rounds).await?;
    lease.release().await?;
    for (number, worker) in workers.iter_mut().enumerate() {
        worker.turns(number).await?;
    }
    let slower = |side| {
        let both = beside_waiters.of(side).iter().zip(before.of(side));
        Rounds(both.map(|(with, without)| Round { ours: *with, floor: *without }).collect())
    };
    let ratio = |what, beside, rounds| Figure::ratio(what, beside, &rounds, Unit::Millis);
    let while_waiting = "a pair of another process while all wait for a lease";
    let itself = "itself before they wait";
    Ok(vec![
        ratio(while_waiting, BARE_PAIR, beside_waiters.beside(Side::Bare, |millis| *millis)),
        ratio(while_waiting, RECIPE_PAIR, beside_waiters.beside(Side::Recipe, |it| *it)),
        ratio(while_waiting, itself, slower(Side::Ours)),
        ratio("a bare pair while all wait for a lease", itself, slower(Side::Bare)),
    ])
}

/// Milliseconds a pair, of this process.
async fn pairs(setup: &Setup, rounds: usize) -> Outcome<PerSide<f64>> {
    PerSide::measured(rounds, &Side::USUAL, async |side: Side| {
        let contender = Contender::fresh(&setup.database, side, OTHERS).await?;
        let pairs = Pairs::taken(&contender, 50, || setup.server_time()).await?;
        contender.close().await;
        Ok(pairs.pair())
    })
    .await
}
