//! The cost of waiting processes for the server, and the order in which they are granted.

use std::time::Duration;

use mongo_lease_measure::{Extent, Outcome, counted, inversions, number};

use crate::peers::Peer;
use crate::report::{Report, Table};
use crate::setup::{Host, Setup};
use crate::workers::{Event, Workers, in_time};

use super::hand_off::{SETTLE, Turn};

/// How many processes come one after the other.
const IN_ORDER: usize = 20;
/// The time between two arrivals: there is no event for a waiter in the queue.
const APART: Duration = Duration::from_millis(50);

pub(crate) async fn measure(only: &[String], extent: Extent, report: &mut Report) -> Outcome<()> {
    let setup = Setup::new(only).await?;
    let (processes, seconds) = (extent.of(50, 20), extent.of(10, 3));
    let title = format!("{processes} processes that wait for {seconds} s, and their order");
    let each = format!("requests of one in {seconds} s");
    let pairs = IN_ORDER * (IN_ORDER - 1) / 2;
    let inversions = format!("inversions of {IN_ORDER} that came in turn, of {pairs}");
    let head = ["who", "on", each.as_str(), "of all", "a request is", inversions.as_str()];
    let mut table = Table::new(&title, &head);
    for host in &setup.hosts {
        for (contender, peer) in &host.peers {
            let mut workers = Workers::start(contender, host.server.address(), processes).await?;
            let measured = waited(&mut workers, host, &**peer, seconds).await;
            // The other rows are worth having without this one.
            let [each, all, inversions] = match measured {
                Ok((all, inversions)) => {
                    workers.dismiss().await?;
                    let each = format!("{:.1}", counted(all) / number(processes));
                    [each, all.to_string(), inversions.to_string()]
                }
                Err(error) => [format!("**failed**: {error}"), String::new(), String::new()],
            };
            let (label, host) = (contender.label(), host.kind());
            let (server, unit) = (host.label().to_owned(), host.requests_label().to_owned());
            table.row([label, server, each, all, unit, inversions]);
        }
    }
    report.table(table);
    setup.close().await;
    Ok(())
}

/// The requests of all of them, and the inversions.
async fn waited(
    workers: &mut Workers,
    host: &Host,
    peer: &dyn Peer,
    seconds: usize,
) -> Outcome<(u64, usize)> {
    let all = requests(workers, host, peer, seconds).await?;
    Ok((all, inversions_of(workers, peer).await?))
}

/// The requests of all of them while they wait in vain.
async fn requests(
    workers: &mut Workers,
    host: &Host,
    peer: &dyn Peer,
    seconds: usize,
) -> Outcome<u64> {
    const NAME: &str = "waiting";
    let held = in_time("a free lock", peer.acquire(NAME)).await??;
    let before = in_time("the server's count", host.server.requests()).await??;
    for worker in 0..workers.count() {
        workers.order(worker, &format!("wait {} {NAME}", seconds * 1_000)).await?;
    }
    let mut waiting = workers.count();
    while waiting > 0 {
        let (_, event) = workers.next().await?;
        if let Event::Done(_) = event {
            waiting -= 1;
        } else if event != Event::Trying {
            return Err(format!("unexpected: {event:?}").into());
        }
    }
    let all = in_time("the server's count", host.server.requests()).await?? - before;
    in_time("a release", held.release()).await??;
    Ok(all)
}

/// How many of all pairs are granted in another order than that of their arrival.
async fn inversions_of(workers: &mut Workers, peer: &dyn Peer) -> Outcome<usize> {
    const NAME: &str = "order";
    let held = in_time("a free lock", peer.acquire(NAME)).await??;
    for worker in 0..IN_ORDER {
        workers.order(worker, &format!("turn 5 {NAME}")).await?;
        workers.expect(|event| event == Event::Trying).await?;
        tokio::time::sleep(APART).await;
    }
    tokio::time::sleep(SETTLE).await;
    in_time("a release", held.release()).await??;
    let mut turns = Vec::new();
    let mut granted = [0; IN_ORDER];
    while turns.len() < IN_ORDER {
        match workers.next().await? {
            (worker, Event::Granted(at)) => granted[worker] = at,
            (worker, Event::Done(released)) => {
                turns.push(Turn { granted: granted[worker], released, worker });
            }
            (_, event) => return Err(format!("unexpected: {event:?}").into()),
        }
    }
    turns.sort_unstable();
    let order: Vec<usize> = turns.iter().map(|turn| turn.worker).collect();
    Ok(inversions(&order))
}
