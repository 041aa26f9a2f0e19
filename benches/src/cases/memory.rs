//! The memory of a lease and of a waiter: the growth of the resident set of a process that has done nothing else.

use std::time::Duration;

use mongo_lease_measure::{Outcome, counted, number};

use crate::figure::Figure;
use crate::goal::Goal;
use crate::report::Report;
use crate::setup::Setup;
use crate::side::random_name;
use crate::unit::Unit;
use crate::workers::Worker;

const COUNT: usize = 10_000;

pub(crate) async fn measure(report: &mut Report) -> Outcome<()> {
    report.section("Leases that are held");
    let setup = Setup::new().await?;
    let name = random_name();
    let lease = setup.leases.acquire(&name).renew(false).ttl(Duration::from_secs(600)).await?;
    for (what, order, goal) in [
        ("memory of a held lease, of 10,000", format!("hold in-order {COUNT} 30000"), 560.0),
        (
            "memory of a call that waits, of 10,000 for one lease, each in a task",
            format!("queue {name} {COUNT}"),
            4_096.0,
        ),
    ] {
        let mut worker = Worker::start(&setup).await?;
        let bytes = counted(worker.number(&order).await?) / number(COUNT);
        report.add(Figure::counted(what, bytes, Unit::Bytes).goal(Goal::AtMost(goal)));
    }
    lease.release().await?;
    setup.leases.shutdown().await;
    Ok(())
}
