//! The commands of a manager that does nothing, beside a client of the driver that does nothing.

use std::time::Duration;

use mongo_lease_measure::{Extent, Outcome, counted};

use crate::commands::Commands;
use crate::figure::Figure;
use crate::goal::Goal;
use crate::setup::Setup;
use crate::side::{Contender, Side};
use crate::unit::Unit;

/// Keeps a manager and a client for a minute, each on a server of its own.
pub(super) async fn measure(extent: Extent) -> Outcome<Figure> {
    let time = Duration::from_secs(u64::try_from(extent.of(60, 15))?);
    let (ours, bare) = (Setup::new().await?, Setup::new().await?);
    let idle = Contender::fresh(&ours.databases, Side::Ours, 0).await?;
    ours.leases.shutdown().await;
    let client = Contender::fresh(&bare.databases, Side::Bare, 0).await?;
    bare.leases.shutdown().await;
    let before = (Commands::to(&ours).await?, Commands::to(&bare).await?);
    // This time is what is measured.
    tokio::time::sleep(time).await;
    let sent = Commands::to(&ours).await?.since(&before.0);
    let floor = Commands::to(&bare).await?.since(&before.1);
    println!("  idle for {time:?}: a manager sent {sent}, a client {floor}");
    idle.close().await;
    client.close().await;
    let all = |commands: &Commands| counted(commands.all());
    let what = format!("commands that an idle manager sends in {} s", time.as_secs());
    let figure = Figure::counted(&what, all(&sent) - all(&floor), Unit::Count);
    Ok(figure.beside("more than an idle client of the driver").goal(Goal::AtMost(0.0)))
}
