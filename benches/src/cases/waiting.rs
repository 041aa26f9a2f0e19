//! The cost of waiting processes for the server, and the order in which they are granted.

use mongo_lease_measure::{Extent, Outcome, counted, inversions, number};

use crate::bare::Setup;
use crate::report::Report;
use crate::worker::NAME;
use crate::workers::{Turn, Worker, until_waiting};

/// How many processes come one after the other.
const IN_ORDER: usize = 20;

pub(crate) async fn measure(extent: Extent, report: &mut Report) -> Outcome<()> {
    commands(extent, report).await?;
    order(report).await
}

/// Commands of processes that wait in vain for 10 s.
async fn commands(extent: Extent, report: &mut Report) -> Outcome<()> {
    let (processes, seconds) = (extent.of(50, 20), 10);
    let setup = Setup::new().await?;
    let (uri, database) = (setup.server.uri(), setup.database.name());
    let mut workers = Worker::start_all(processes, uri, database).await?;
    let lease = setup.leases.acquire(NAME).renew(false).ttl(std::time::Duration::from_secs(600));
    let lease = lease.await?;
    let before = setup.server.command_counts().await;
    for worker in &mut workers {
        worker.order(&format!("wait {}", seconds * 1_000)).await?;
    }
    for (number, worker) in workers.iter_mut().enumerate() {
        worker.turns(number).await?;
    }
    let spent = setup.server.command_counts().await - before;
    lease.release().await?;
    let each = |count: u64| counted(count) / number(processes);
    let writes = each(spent.find_and_modify) + each(spent.update) + each(spent.delete);
    let stream = each(spent.aggregate) + each(spent.get_more);
    let what = format!("commands of one of {processes} processes that wait {seconds} s");
    let note = format!("{writes:.1} on the lease, {stream:.1} for the stream; and pings");
    report.row(&what, "", &format!("{:.1}", writes + stream), &note, "5");
    setup.leases.shutdown().await;
    Ok(())
}

/// How many of all pairs are granted in another order than that of their arrival.
async fn order(report: &mut Report) -> Outcome<()> {
    let setup = Setup::new().await?;
    let (uri, database) = (setup.server.uri(), setup.database.name());
    let mut workers = Worker::start_all(IN_ORDER, uri, database).await?;
    let lease = setup.leases.acquire(NAME).await?;
    for (number, worker) in workers.iter_mut().enumerate() {
        worker.order("turns 1").await?;
        until_waiting(&setup.leases, number + 1).await?;
    }
    lease.release().await?;
    let mut all: Vec<Turn> = Vec::new();
    for (number, worker) in workers.iter_mut().enumerate() {
        all.extend(worker.turns(number).await?);
    }
    all.sort_unstable();
    let granted: Vec<usize> = all.iter().map(|turn| turn.worker).collect();
    let inversions = inversions(&granted);
    let pairs = IN_ORDER * (IN_ORDER - 1) / 2;
    let what = format!("inversions of {IN_ORDER} that wait in the queue");
    report.row(&what, "", &format!("{inversions} of {pairs}"), "", "0");
    setup.leases.shutdown().await;
    Ok(())
}
