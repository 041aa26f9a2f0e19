//! From one process's call of `release` to another process's grant, beside a delete and an insert of both floors.

use std::time::{Duration, Instant};

use mongo_lease_measure::{Extent, Outcome, Spread, counted, number};

use crate::figure::Figure;
use crate::goal::Goal;
use crate::pairs::OTHERS;
use crate::per_side::PerSide;
use crate::report::Report;
use crate::setup::Setup;
use crate::side::{Contender, Side, insert_others, random_name};
use crate::unit::Unit;
use crate::worker::HOLD;
use crate::workers::{Turn, Worker, until_waiting};

/// Hand-offs of a round that count.
const COUNTED: usize = 60;

/// The hand-offs of a round.
pub(crate) struct HandOffs {
    /// The median, in milliseconds.
    millis: f64,
    /// Commands of a turn, where the server has counted them.
    commands: Option<f64>,
}

pub(crate) async fn measure(extent: Extent, report: &mut Report) -> Outcome<()> {
    report.section("Processes that wait");
    for (waiting, goal) in [(1, 1.1), (10, 1.1), (50, 1.3)] {
        let setup = Setup::new().await?;
        let locks = setup.databases.by_default().await?.collection("locks");
        insert_others(&locks, OTHERS).await?;
        let mut workers = Worker::start_all(&setup, waiting + 1).await?;
        let times = PerSide::measured(extent.of(12, 4), &Side::USUAL, async |side: Side| {
            if side == Side::Ours {
                return ours(&setup, &mut workers).await;
            }
            floor(&Contender::fresh(&setup.databases, side, OTHERS).await?).await
        });
        let times = times.await?;
        let what = format!("hand-off, {waiting} waiting");
        for figure in figures(&what, &times) {
            let is_bare = figure.beside.starts_with("a bare");
            report.add(figure.goal(is_bare.then_some(Goal::AtMost(goal))).drawn());
        }
        let commands = times.of(Side::Ours).iter().filter_map(|it| it.commands);
        let commands = Spread::of(commands.collect()).median;
        let what = format!("{what}: commands of a turn");
        report.add(Figure::counted(&what, commands, Unit::Commands));
        setup.leases.shutdown().await;
    }
    Ok(())
}

/// Beside both floors.
pub(super) fn figures(what: &str, times: &PerSide<HandOffs>) -> Vec<Figure> {
    let floors = [
        ("a bare delete and insert", Side::Bare),
        ("the recipe's delete and upsert", Side::Recipe),
    ];
    let ratio = |(beside, floor)| {
        Figure::ratio(what, beside, &times.beside(floor, |it| it.millis), Unit::Millis)
    };
    floors.into_iter().map(ratio).collect()
}

/// A round of these processes, in the default collection.
pub(super) async fn ours(setup: &Setup, workers: &mut [Worker]) -> Outcome<HandOffs> {
    let before = setup.server.command_counts().await;
    // All workers are in the queue before it begins.
    let name = random_name();
    let lease = setup.leases.acquire(&name).await?;
    let turns = COUNTED.div_ceil(workers.len()) + 2;
    for worker in workers.iter_mut() {
        worker.order(&format!("turns {turns} {name}")).await?;
    }
    until_waiting(&setup.leases, &name, workers.len()).await?;
    lease.release().await?;
    let mut all: Vec<Turn> = Vec::new();
    for (number, worker) in workers.iter_mut().enumerate() {
        all.extend(worker.turns(number).await?);
    }
    let spent = setup.server.command_counts().await - before;
    let spent = spent.find_and_modify + spent.update + spent.delete + spent.get_more;
    all.sort_unstable();
    // At the end fewer and fewer wait.
    let ends = all.len() - workers.len();
    let between = |pair: &[Turn]| millis(pair[1].granted - pair[0].let_go);
    let from_others = all[..ends].windows(2).filter(|pair| pair[0].worker != pair[1].worker);
    let millis = Spread::of(from_others.map(between).collect()).median;
    Ok(HandOffs { millis, commands: Some(counted(spent) / number(all.len())) })
}

/// A round of the driver: a release and another acquire, in a spawned task.
pub(super) async fn floor(contender: &Contender) -> Outcome<HandOffs> {
    let millis = tokio::spawn(released_and_acquired(contender.clone())).await??;
    Ok(HandOffs { millis, commands: None })
}

/// The median, in milliseconds. It holds for as long as a worker does: after a pause a command takes longer.
async fn released_and_acquired(contender: Contender) -> Outcome<f64> {
    let mut times = Vec::new();
    let mut held = contender.acquire(&random_name()).await?;
    for _ in 0..COUNTED {
        let name = random_name();
        tokio::time::sleep(HOLD).await;
        let started = Instant::now();
        contender.release(held).await?;
        held = contender.acquire(&name).await?;
        times.push(started.elapsed().as_secs_f64() * 1e3);
    }
    contender.release(held).await?;
    Ok(Spread::of(times).median)
}

fn millis(nanos: i64) -> f64 {
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(0)).as_secs_f64() * 1e3
}
