//! The memory of a lease and of a waiter: the growth of the resident set of a process that has done nothing else.

use std::time::Duration;

use mongo_lease::LeaseManager;

use super::holding::hold_many;
use crate::bare::Setup;
use crate::measure::number;
use crate::report::Report;
use crate::worker::{NAME, Worker};
use crate::{Outcome, host};

const COUNT: usize = 10_000;

pub(crate) async fn measure(report: &mut Report) -> Outcome<()> {
    let setup = Setup::new().await?;
    let lease = setup.leases.acquire(NAME).renew(false).ttl(Duration::from_secs(600)).await?;
    for (what, order, note, goal) in [
        ("memory of a held lease", "hold", "of 10,000 in a process", "600 bytes"),
        ("memory of a waiter", "queue", "of 10,000 calls for one lease, each with its task", ""),
    ] {
        let mut worker = Worker::start(setup.server.uri(), setup.database.name()).await?;
        worker.order(&format!("{order} {COUNT}")).await?;
        let bytes = number(worker.number().await?) / number(COUNT);
        report.row(what, "", &format!("{bytes:.0} bytes"), note, goal);
    }
    lease.release().await?;
    setup.leases.shutdown().await;
    Ok(())
}

/// In a worker: the bytes by which it grows with so many leases.
pub(crate) async fn of_holding(leases: &LeaseManager, count: usize) -> Outcome<u64> {
    // The connections and the first allocations do not belong to a lease.
    for lease in hold_many(leases, 100).await? {
        lease.release().await?;
    }
    let before = host::memory_bytes();
    let held = hold_many(leases, count).await?;
    let grown = host::memory_bytes().saturating_sub(before);
    drop(held);
    Ok(grown)
}

/// In a worker: the bytes by which it grows with so many calls that wait for one lease.
pub(crate) async fn of_waiting(leases: &LeaseManager, count: usize) -> Outcome<u64> {
    let wait = || tokio::spawn(leases.acquire(NAME).wait_forever().into_future());
    let first = wait();
    while leases.get(NAME).await?.is_none_or(|info| info.waiting == 0) {
        tokio::task::yield_now().await;
    }
    let before = host::memory_bytes();
    let waiting: Vec<_> = (0..count).map(|_| wait()).collect();
    // A command that is answered after them: by then all of them have begun.
    leases.get(NAME).await?;
    let grown = host::memory_bytes().saturating_sub(before);
    for task in waiting.into_iter().chain([first]) {
        task.abort();
    }
    Ok(grown)
}
