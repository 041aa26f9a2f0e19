//! The cost of waiting processes for the server, and the order in which they are granted.

use std::time::Duration;

use mongo_lease_measure::{Extent, Outcome, counted, inversions, number};

use crate::figure::Figure;
use crate::goal::Goal;
use crate::report::Report;
use crate::setup::Setup;
use crate::side::random_name;
use crate::unit::Unit;
use crate::workers::{self, Turn, Worker, until_waiting};

/// How many processes come one after the other.
const IN_ORDER: usize = 20;

pub(crate) async fn measure(extent: Extent, report: &mut Report) -> Outcome<()> {
    report.section("Processes that wait");
    commands(extent, report).await?;
    order(report).await
}

/// Commands of processes that wait in vain for 10 s.
async fn commands(extent: Extent, report: &mut Report) -> Outcome<()> {
    let (processes, seconds) = (extent.of(50, 20), 10);
    let setup = Setup::new().await?;
    let mut workers = Worker::start_all(&setup, processes).await?;
    let name = random_name();
    let lease = setup.leases.acquire(&name).renew(false).ttl(Duration::from_secs(600)).await?;
    let before = setup.server.command_counts().await;
    workers::all(&mut workers, &format!("wait {name} {}", seconds * 1_000)).await?;
    let spent = setup.server.command_counts().await - before;
    lease.release().await?;
    let each = |count: u64| counted(count) / number(processes);
    let of_one = format!("one of {processes} processes that wait {seconds} s: commands");
    let writes = each(spent.find_and_modify + spent.update + spent.delete);
    let what = format!("{of_one} on the lease");
    report.add(Figure::counted(&what, writes, Unit::Commands).goal(Goal::AtMost(3.0)));
    let stream = each(spent.aggregate + spent.get_more);
    let what = format!("{of_one} for the stream, but for pings");
    report.add(Figure::counted(&what, stream, Unit::Commands).goal(Goal::AtMost(2.0)));
    setup.leases.shutdown().await;
    Ok(())
}

/// How many of all pairs are granted in another order than that of their arrival.
async fn order(report: &mut Report) -> Outcome<()> {
    let setup = Setup::new().await?;
    let mut workers = Worker::start_all(&setup, IN_ORDER).await?;
    let name = random_name();
    let lease = setup.leases.acquire(&name).await?;
    for (number, worker) in workers.iter_mut().enumerate() {
        worker.order(&format!("turns 1 {name}")).await?;
        until_waiting(&setup.leases, &name, number + 1).await?;
    }
    lease.release().await?;
    let mut all: Vec<Turn> = Vec::new();
    for (number, worker) in workers.iter_mut().enumerate() {
        all.extend(worker.turns(number).await?);
    }
    all.sort_unstable();
    let granted: Vec<usize> = all.iter().map(|turn| turn.worker).collect();
    let pairs = IN_ORDER * (IN_ORDER - 1) / 2;
    let what = format!("inversions of {IN_ORDER} that wait in the queue, of {pairs} pairs");
    let inversions = number(inversions(&granted));
    report.add(Figure::counted(&what, inversions, Unit::Count).goal(Goal::AtMost(0.0)));
    setup.leases.shutdown().await;
    Ok(())
}
