//! The memory of a lease and of a waiter: the growth of the resident set of a process that has done nothing else.

use std::time::Duration;

use mongo_lease_measure::{Outcome, number};

use crate::bare::Setup;
use crate::report::Report;
use crate::worker::NAME;
use crate::workers::Worker;

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
