//! The cost of waiting processes for the server, and the order in which they are granted.

use std::time::Duration;

use mongo_lease_measure::{Extent, Outcome, counted, inversions, number};

use crate::peers::Peer;
use crate::report::{Report, Table};
use crate::setup::{Host, Setup};
use crate::workers::{Event, Workers};

use super::hand_off::{SETTLE, Turn};

/// How many processes come one after the other.
const IN_ORDER: usize = 20;
/// The time between two arrivals: there is no event for a waiter in the queue.
const APART: Duration = Duration::from_millis(50);

pub(crate) async fn measure(setup: &Setup, extent: Extent, report: &mut Report) -> Outcome<()> {
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
            let all = requests(&mut workers, host, &**peer, seconds).await?;
            let inversions = inversions_of(&mut workers, &**peer).await?;
            workers.dismiss().await?;
            table.row([
                contender.label(),
                host.kind().label().to_owned(),
                format!("{:.1}", counted(all) / number(processes)),
                all.to_string(),
                host.kind().requests_label().to_owned(),
                inversions.to_string(),
            ]);
        }
    }
    report.table(table);
    Ok(())
}

/// The requests of all of them while they wait in vain.
async fn requests(
    workers: &mut Workers,
    host: &Host,
    peer: &dyn Peer,
    seconds: usize,
) -> Outcome<u64> {
    const NAME: &str = "waiting";
    let held = peer.acquire(NAME).await?;
    let before = host.server.requests().await?;
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
    let all = host.server.requests().await? - before;
    held.release().await?;
    Ok(all)
}

/// How many of all pairs are granted in another order than that of their arrival.
async fn inversions_of(workers: &mut Workers, peer: &dyn Peer) -> Outcome<usize> {
    const NAME: &str = "order";
    let held = peer.acquire(NAME).await?;
    for worker in 0..IN_ORDER {
        workers.order(worker, &format!("turn 5 {NAME}")).await?;
        workers.expect(|event| event == Event::Trying).await?;
        tokio::time::sleep(APART).await;
    }
    tokio::time::sleep(SETTLE).await;
    held.release().await?;
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
