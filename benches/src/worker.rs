//! Worker processes that hold and wait. They carry out orders, a line each, and answer in lines.

use std::time::Duration;

use mongo_lease::mongodb::Client;
use mongo_lease::{Error, LeaseManager};
use mongo_lease_measure::Outcome;
use mongo_lease_measure::host::now;
use mongo_lease_measure::worker::READY;
use mongo_lease_testbed::orders;

use crate::held;

pub(crate) const URI: &str = "MONGO_LEASE_BENCHES_URI";
pub(crate) const DATABASE: &str = "MONGO_LEASE_BENCHES_DATABASE";

/// The lease that is handed off.
pub(crate) const NAME: &str = "invoice:42";
/// As long as the others need to join the queue again: else there would be no waiter to hand off to.
const HOLD: Duration = Duration::from_millis(5);

/// Whether this process is one.
pub(crate) fn is_one() -> bool {
    std::env::var_os(URI).is_some()
}

/// Carries out orders until the input ends.
pub(crate) async fn work() -> Outcome<()> {
    let client = Client::with_uri_str(std::env::var(URI)?).await?;
    let database = client.database(&std::env::var(DATABASE)?);
    let leases = LeaseManager::builder(&database).wait(Duration::from_secs(600)).build().await?;
    println!("{READY}");
    let mut orders = orders();
    while let Some(order) = orders.recv().await {
        match order.split_once(' ') {
            Some(("turns", turns)) => take_turns(&leases, turns.parse()?).await?,
            Some(("wait", millis)) => wait(&leases, Duration::from_millis(millis.parse()?)).await?,
            Some(("hold", count)) => {
                println!("{}", held::growth_by_leases(&leases, count.parse()?).await?);
            }
            Some(("queue", count)) => {
                println!("{}", held::growth_by_waiters(&leases, NAME, count.parse()?).await?);
            }
            Some(_) | None => return Err(format!("not an order: {order}").into()),
        }
        println!("done");
    }
    leases.shutdown().await;
    Ok(())
}

async fn take_turns(leases: &LeaseManager, turns: usize) -> Outcome<()> {
    for _ in 0..turns {
        let lease = leases.acquire(NAME).await?;
        let granted = now();
        let token = lease.token()?;
        tokio::time::sleep(HOLD).await;
        let let_go = now();
        lease.release().await?;
        println!("{token} {granted} {let_go}");
    }
    Ok(())
}

/// Waits for the lease in vain.
async fn wait(leases: &LeaseManager, time: Duration) -> Outcome<()> {
    match leases.acquire(NAME).wait(time).await {
        Err(Error::WaitTimeout { .. }) => Ok(()),
        Err(error) => Err(error.into()),
        Ok(_) => Err("granted what is held".into()),
    }
}
