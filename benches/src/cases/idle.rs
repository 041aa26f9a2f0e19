//! The commands of a manager that does nothing, beside a client of the driver that does nothing.

use std::collections::BTreeMap;
use std::time::Duration;

use mongo_lease::mongodb::bson::{Bson, doc};
use mongo_lease_measure::{Extent, Outcome, counted};

use crate::figure::Figure;
use crate::goal::Goal;
use crate::setup::{Setup, count};
use crate::side::{Contender, Side};
use crate::unit::Unit;

/// The monitoring of the driver, and our own question.
const NOT_COUNTED: [&str; 4] = ["hello", "isMaster", "serverStatus", "endSessions"];

/// Keeps a manager and a client for a minute, each on a server of its own.
pub(super) async fn measure(extent: Extent) -> Outcome<Figure> {
    let time = Duration::from_secs(u64::try_from(extent.of(60, 15))?);
    let (ours, bare) = (Setup::new().await?, Setup::new().await?);
    let idle = Contender::fresh(&ours.databases, Side::Ours, 0).await?;
    ours.leases.shutdown().await;
    let client = Contender::fresh(&bare.databases, Side::Bare, 0).await?;
    bare.leases.shutdown().await;
    let before = (commands(&ours).await?, commands(&bare).await?);
    // This time is what is measured.
    tokio::time::sleep(time).await;
    let sent = since(&before.0, &commands(&ours).await?);
    let floor = since(&before.1, &commands(&bare).await?);
    println!("  idle for {time:?}: a manager sent {sent:?}, a client {floor:?}");
    idle.close().await;
    client.close().await;
    let all = |commands: &BTreeMap<String, u64>| counted(commands.values().sum());
    let what = format!("commands that an idle manager sends in {} s", time.as_secs());
    let figure = Figure::counted(&what, all(&sent) - all(&floor), Unit::Count);
    Ok(figure.beside("more than an idle client of the driver").goal(Goal::AtMost(0.0)))
}

/// How often each command was sent to this server.
async fn commands(setup: &Setup) -> Outcome<BTreeMap<String, u64>> {
    let status = setup.server.admin(doc! { "serverStatus": 1 }).await;
    let commands = status.get_document("metrics")?.get_document("commands")?;
    let total = |(name, counts): (&String, &Bson)| {
        counts.as_document().map(|counts| (name.clone(), count(counts, "total")))
    };
    let all = commands.iter().filter_map(total);
    Ok(all.filter(|(name, _)| !NOT_COUNTED.contains(&&**name)).collect())
}

/// Those that were sent in between.
fn since(before: &BTreeMap<String, u64>, now: &BTreeMap<String, u64>) -> BTreeMap<String, u64> {
    let more = |(name, count): (&String, &u64)| {
        let more = count - before.get(name).copied().unwrap_or(0);
        (more > 0).then(|| (name.clone(), more))
    };
    now.iter().filter_map(more).collect()
}
