//! Ever more processes, each with a manager: all take pairs now and then, or all wait while another takes pairs.

use std::time::Duration;

use mongo_lease_measure::{Extent, Outcome, Round, Rounds, number, quantile};

use crate::cases::alone::{BARE_PAIR, RECIPE_PAIR};
use crate::figure::Figure;
use crate::pairs::{OTHERS, Pairs, mean};
use crate::per_side::PerSide;
use crate::report::Report;
use crate::setup::Setup;
use crate::side::{Contender, Side, random_name};
use crate::unit::Unit;
use crate::workers::{Worker, all, pair_millis, until_waiting};

/// Pairs a second of each process.
const RATE: usize = 10;

/// The pairs of all processes in one window of time.
struct Load {
    /// The median of a pair, in milliseconds.
    millis: f64,
    /// The server's processor time of the whole window, in milliseconds.
    server: f64,
    pairs: usize,
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
    // At least a hundred pairs, or fifty in a short run.
    let whole = 10_000_usize.div_ceil(workers.len()).max(3_000);
    let time = Duration::from_millis(u64::try_from(extent.of(whole, whole / 2))?);
    let millis = time.as_millis();
    // All clients are connected before the first idle window.
    for side in Side::USUAL {
        open(setup, workers, side).await?;
    }
    let mut idle = vec![idle_window(setup, time).await];
    let loads = PerSide::without_warm_up(extent.of(2, 1), &Side::USUAL, async |side: Side| {
        open(setup, workers, side).await?;
        let server = setup.server_time();
        let answers = all(workers, &format!("pairs random {RATE} {millis}")).await?;
        let server = setup.server_time() - server;
        let taken = pair_millis(&answers)?;
        let server = server.as_secs_f64() * 1e3;
        Ok(Load { millis: quantile(&taken, 500), server, pairs: taken.len() })
    });
    let loads = loads.await?;
    idle.push(idle_window(setup, time).await);
    let idle = mean(&idle);
    let what = format!("a pair, where each takes {RATE} a second");
    let ratio = |what: &str, beside, rounds| Figure::ratio(what, beside, &rounds, Unit::Millis);
    let pair = |load: &Load| load.millis;
    let server = |load: &Load| (load.server - idle) / number(load.pairs);
    let by_server = format!("{what}: processor time, server, beyond an idle one's");
    Ok(vec![
        ratio(&what, BARE_PAIR, loads.beside(Side::Bare, pair)),
        ratio(&what, RECIPE_PAIR, loads.beside(Side::Recipe, pair)),
        ratio(&by_server, BARE_PAIR, loads.beside(Side::Bare, server)),
    ])
}

/// All work as this side from now on, in a fresh collection.
async fn open(setup: &Setup, workers: &mut [Worker], side: Side) -> Outcome<()> {
    let contender = Contender::fresh(&setup.databases, side, OTHERS).await?;
    let order = format!("open {} {}", side.word(), contender.collection.name());
    contender.close().await;
    all(workers, &order).await?;
    Ok(())
}

/// The server's processor time while no process takes pairs, in milliseconds.
async fn idle_window(setup: &Setup, time: Duration) -> f64 {
    let before = setup.server_time();
    // This time is what is measured.
    tokio::time::sleep(time).await;
    (setup.server_time() - before).as_secs_f64() * 1e3
}

/// This process takes pairs, with all others waiting for a lease and without, in turns: without, with, with, without.
async fn waiting(setup: &Setup, workers: &mut [Worker], extent: Extent) -> Outcome<Vec<Figure>> {
    let rounds = extent.of(2, 1);
    let mut without = pairs(setup, rounds).await?;
    let mut beside_waiters = pairs_beside_waiters(setup, workers, rounds).await?;
    beside_waiters.append(pairs_beside_waiters(setup, workers, rounds).await?);
    without.append(pairs(setup, rounds).await?);
    let slower = |side| {
        let both = beside_waiters.of(side).iter().zip(without.of(side));
        Rounds(both.map(|(with, without)| Round { ours: *with, floor: *without }).collect())
    };
    let ratio = |what, beside, rounds| Figure::ratio(what, beside, &rounds, Unit::Millis);
    let while_waiting = "a pair of another process while all wait for a lease";
    let itself = "itself while none waits";
    Ok(vec![
        ratio(while_waiting, BARE_PAIR, beside_waiters.beside(Side::Bare, |millis| *millis)),
        ratio(while_waiting, RECIPE_PAIR, beside_waiters.beside(Side::Recipe, |it| *it)),
        ratio(while_waiting, itself, slower(Side::Ours)),
        ratio("a bare pair while all wait for a lease", itself, slower(Side::Bare)),
    ])
}

/// The same as [`pairs`], while all these processes wait for a lease.
async fn pairs_beside_waiters(
    setup: &Setup,
    workers: &mut [Worker],
    rounds: usize,
) -> Outcome<PerSide<f64>> {
    let name = random_name();
    let lease = setup.leases.acquire(&name).await?;
    for worker in workers.iter_mut() {
        worker.order(&format!("turns 1 {name}")).await?;
    }
    until_waiting(&setup.leases, &name, workers.len()).await?;
    let pairs = pairs(setup, rounds).await?;
    lease.release().await?;
    for (number, worker) in workers.iter_mut().enumerate() {
        worker.turns(number).await?;
    }
    Ok(pairs)
}

/// Milliseconds a pair, of this process.
async fn pairs(setup: &Setup, rounds: usize) -> Outcome<PerSide<f64>> {
    PerSide::measured(rounds, &Side::USUAL, async |side: Side| {
        let contender = Contender::fresh(&setup.databases, side, OTHERS).await?;
        let pairs = Pairs::taken(&contender, 50, || setup.server_time()).await?;
        contender.close().await;
        Ok(pairs.pair())
    })
    .await
}
