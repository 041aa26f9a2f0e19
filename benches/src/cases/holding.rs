//! What holding costs: renewals of many leases, and the memory of a lease and of a waiter.

use std::time::Duration;

use futures_util::StreamExt;
use mongo_lease::Lease;

use crate::bare::Setup;
use crate::measure::{counted, number};
use crate::report::Report;
use crate::{Extent, Outcome, host};

/// A third of the default ttl.
const PERIOD: Duration = Duration::from_secs(10);

pub(crate) async fn measure(extent: Extent, report: &mut Report) -> Outcome<()> {
    for (count, goal) in [(1_000, ""), (10_000, "10 commands, client 10 ms, server 400 ms")] {
        hold(count, extent, report, goal).await?;
    }
    wait(10_000, report).await
}

async fn hold(count: usize, extent: Extent, report: &mut Report, goal: &str) -> Outcome<()> {
    let setup = Setup::new().await?;
    // The connections and the first allocations are nobody's lease.
    setup.leases.acquire("first").await?.release().await?;
    let memory = host::memory_bytes();
    let held: Vec<_> = futures_util::stream::iter(0..count)
        .map(|number| setup.leases.acquire(format!("lease:{number}")).into_future())
        .buffer_unordered(16)
        .collect()
        .await;
    let held = held.into_iter().collect::<mongo_lease::Result<Vec<Lease>>>()?;
    let memory = number(usize::try_from(host::memory_bytes().saturating_sub(memory))?);

    let periods = extent.of(6, 1);
    let server = || host::processor_time_of(setup.server.mongod().pid());
    let commands = setup.server.command_counts().await;
    let before = (host::own_processor_time(), server());
    // The measured thing is what happens in this time.
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
    if count == 10_000 {
        let figure = format!("{:.0} bytes", memory / number(count));
        report.row("memory of a held lease", "", &figure, "growth of the resident set", "600");
    }
    drop(held);
    setup.leases.shutdown().await;
    Ok(())
}

async fn wait(count: usize, report: &mut Report) -> Outcome<()> {
    let setup = Setup::new().await?;
    let lease = setup.leases.acquire("held").await?;
    let first = tokio::spawn(setup.leases.acquire("held").wait_forever().into_future());
    while setup.leases.get("held").await?.is_none_or(|info| info.waiting == 0) {
        tokio::task::yield_now().await;
    }
    let memory = host::memory_bytes();
    let spawn = |_| tokio::spawn(setup.leases.acquire("held").wait_forever().into_future());
    let waiting: Vec<_> = (0..count).map(spawn).collect();
    // A command that is answered behind them: until then they have all stood in line once.
    setup.leases.get("held").await?;
    let memory = number(usize::try_from(host::memory_bytes().saturating_sub(memory))?);
    let figure = format!("{:.0} bytes", memory / number(count));
    let note = "one of many calls for one lease, its task included";
    report.row("memory of a waiter", "", &figure, note, "");
    for task in waiting.into_iter().chain([first]) {
        task.abort();
    }
    lease.release().await?;
    setup.leases.shutdown().await;
    Ok(())
}
