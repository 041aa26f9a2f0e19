//! From one process's call of release to the next process's grant, with others waiting.

use std::time::{Duration, Instant};

use mongo_lease_measure::{Extent, Outcome, Spread, millis_each};

use crate::chart::Chart;
use crate::contender::Contender;
use crate::peers::Peer;
use crate::report::Report;
use crate::setup::{Host, Setup};
use crate::workers::{Event, Workers};

use super::Comparison;

/// How long waiters may take to start waiting: there is no event for it.
pub(crate) const SETTLE: Duration = Duration::from_millis(300);
/// Their arrivals are spread over this time: those that poll would otherwise all do so at the same moments.
const SPREAD: Duration = Duration::from_millis(100);
/// Bare pairs in a round.
const FLOOR_PAIRS: usize = 30;

/// One hold of one worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Turn {
    pub(crate) granted: i64,
    /// When it called release.
    pub(crate) released: i64,
    pub(crate) worker: usize,
}

pub(crate) async fn measure(only: &[String], extent: Extent, report: &mut Report) -> Outcome<()> {
    // With one waiter a round has to meet each phase of a poll of 100 ms.
    for (waiting, counted) in [(1, 12), (10, 30), (50, 40)] {
        let counted = extent.of(counted, counted / 3);
        let setup = Setup::new(only).await?;
        let mut comparison = Comparison::default();
        for _ in 0..extent.of(5, 1) {
            for host in &setup.hosts {
                let kind = host.kind();
                comparison.floor(kind.floor_label(), kind, floor(host).await?);
                for (contender, peer) in &host.peers {
                    let address = host.server.address();
                    let mut workers = Workers::start(contender, address, waiting + 1).await?;
                    let millis = round(&mut workers, contender, &**peer, counted).await?;
                    workers.dismiss().await?;
                    comparison.add(&contender.label(), kind, Some(millis));
                }
            }
        }
        setup.close().await;
        let title = format!("Hand-off between processes, {waiting} waiting");
        let mut table = comparison.table(&title, "ms");
        if waiting == 10 {
            table = table.drawn(Chart {
                file: "hand-off.svg",
                caption: "hand-off between processes, 10 waiting: milliseconds",
                bars: comparison.bars(false),
            });
        }
        report.table(table);
    }
    Ok(())
}

/// A bare write and delete, in milliseconds.
async fn floor(host: &Host) -> Outcome<f64> {
    let started = Instant::now();
    for _ in 0..FLOOR_PAIRS {
        host.floor.take("hand-off").await?;
        host.floor.give("hand-off").await?;
    }
    Ok(millis_each(started.elapsed(), FLOOR_PAIRS))
}

/// The median hand-off of a round in milliseconds. One holds, and all others wait.
async fn round(
    workers: &mut Workers,
    contender: &Contender,
    peer: &dyn Peer,
    counted: usize,
) -> Outcome<f64> {
    let count = workers.count();
    let name = format!("hand-off:{count}");
    let held = peer.acquire(&name).await?;
    for worker in 0..count {
        workers.order(worker, &turn_order(worker, count, &name)).await?;
        workers.expect(|event| event == Event::Trying).await?;
        tokio::time::sleep(SPREAD / u32::try_from(count)?).await;
    }
    tokio::time::sleep(SETTLE).await;
    held.release().await?;
    // The first turn of each worker opens its connections.
    let turns = turns(workers, &name, count + counted).await?;
    let between = hand_offs(&turns).map_err(|error| format!("{}: {error}", contender.id))?;
    // At the end fewer and fewer wait.
    let counted = between.get(count..count + counted).ok_or("too few turns")?;
    Ok(Spread::of(counted.to_vec()).median)
}

/// A worker that has had its turn waits again as soon as another one holds. Not before: a polling one that has just
/// released would acquire the lock again at once, and that is no hand-off.
async fn turns(workers: &mut Workers, name: &str, again: usize) -> Outcome<Vec<Turn>> {
    let count = workers.count();
    let (mut under_way, mut ordered) = (count, count);
    let (mut holder, mut resting) = (None, Vec::new());
    let mut granted = vec![0; count];
    let mut turns = Vec::new();
    while under_way > 0 {
        match workers.next().await? {
            (_, Event::Trying) => {}
            (worker, Event::Granted(at)) => {
                granted[worker] = at;
                holder = Some(worker);
            }
            (worker, Event::Done(released)) => {
                turns.push(Turn { granted: granted[worker], released, worker });
                under_way -= 1;
                resting.push(worker);
            }
            (_, event) => return Err(format!("unexpected: {event:?}").into()),
        }
        let is_holder = |worker: &mut usize| Some(*worker) != holder;
        for worker in resting.extract_if(.., is_holder).collect::<Vec<_>>() {
            if ordered < count + again {
                workers.order(worker, &turn_order(ordered, count, name)).await?;
                ordered += 1;
                under_way += 1;
            }
        }
    }
    turns.sort_unstable();
    Ok(turns)
}

/// With one waiter, the lengths of the holds are spread over 100 ms, so that a poll comes at any time after a release.
/// None is shorter than 100 ms, because etcd takes as long until it watches for the release. With more waiters, polls
/// are spread already, and all holds are equal.
fn turn_order(turn: usize, count: usize, name: &str) -> String {
    let hold_ms = if count == 2 { 110 + turn * 37 % 100 } else { 5 + turn * 7 % 10 };
    format!("turn {hold_ms} {name}")
}

/// The times between a release and the next grant, in milliseconds. Two holders at once are an error.
fn hand_offs(turns: &[Turn]) -> Outcome<Vec<f64>> {
    let between = |pair: &[Turn]| {
        let nanos = u64::try_from(pair[1].granted - pair[0].released);
        let nanos = nanos.map_err(|_| format!("two held at once: {pair:?}"))?;
        Ok(Duration::from_nanos(nanos).as_secs_f64() * 1e3)
    };
    turns.windows(2).map(between).collect()
}

#[cfg(test)]
mod tests {
    use super::{Turn, hand_offs};

    #[test]
    fn a_hand_off_is_from_a_release_to_the_next_grant() {
        let first = Turn { granted: 0, released: 5_000_000, worker: 0 };
        let second = Turn { granted: 7_000_000, released: 9_000_000, worker: 1 };
        assert_eq!(hand_offs(&[first, second]).unwrap(), [2.0]);
    }

    #[test]
    fn two_who_hold_at_once_are_an_error() {
        let first = Turn { granted: 0, released: 5_000_000, worker: 0 };
        let second = Turn { granted: 4_999_999, released: 9_000_000, worker: 1 };
        assert!(hand_offs(&[first, second]).is_err());
    }
}
