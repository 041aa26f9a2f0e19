//! The cost of holding: renewals of many leases.

use std::time::Duration;

use mongo_lease_measure::{Extent, Outcome, counted, host, number};

use crate::bare::Setup;
use crate::held::hold_many;
use crate::report::Report;

/// A third of the default ttl.
const PERIOD: Duration = Duration::from_secs(10);

pub(crate) async fn measure(extent: Extent, report: &mut Report) -> Outcome<()> {
    for (count, goal) in [(1_000, ""), (10_000, "10 commands, client 10 ms, server 400 ms")] {
        hold(count, extent, report, goal).await?;
    }
    Ok(())
}

async fn hold(count: usize, extent: Extent, report: &mut Report, goal: &str) -> Outcome<()> {
    let setup = Setup::new().await?;
    let held = hold_many(&setup.leases, count).await?;
    let periods = extent.of(6, 1);
    let server = || host::processor_time_of(setup.server.mongod().pid());
    let commands = setup.server.command_counts().await;
    let before = (host::own_processor_time(), server());
    // This time is what is measured.
    tokio::time::sleep(PERIOD * u32::try_from(periods)?).await;
    let client = host::own_processor_time() - before.0;
    let server = server() - before.1;
    let commands = setup.server.command_counts().await - commands;
    let lost = held.iter().filter(|lease| !lease.is_valid()).count();
    if lost > 0 {
        return Err(format!("{lost} of {count} leases were lost").into());
    }
    let each = |time: Duration| time.as_secs_f64() * 1e3 / number(periods);
    let what = format!("renewing {count} leases, a period of 10 s");
    let figure = format!(
        "{:.1} commands, client {:.0} ms, server {:.0} ms",
        counted(commands.update + commands.find) / number(periods),
        each(client),
        each(server)
    );
    report.row(&what, "", &figure, "processor times", goal);
    drop(held);
    setup.leases.shutdown().await;
    Ok(())
}
