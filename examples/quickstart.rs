//! Two contenders for one lease, a release by the wrong caller, and a crashed holder.
//!
//! `cargo run --example quickstart` starts its own MongoDB server and removes it at the end. With `MONGODB_URI` set, it
//! uses that server, in its own database, which it drops.

#![allow(clippy::print_stdout, reason = "an example talks to a person")]

use std::error::Error;
use std::time::{Duration, Instant};

use mongo_lease::{Attempt, LeaseManager};
use mongo_lease_testbed::Server;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let server = Server::from_env("MONGODB_URI").unwrap_or_else(Server::start);
    let database = server.database().await;

    println!(
        "1. Set up: a collection with a unique index on `name` and a TTL index on `expiresAt`."
    );
    // In production: `mongo-lease-migrate up`, once. A manager refuses to work without the indexes.
    let builder = LeaseManager::builder(&database).owner("quickstart").ensure_indexes(true);
    let leases = builder.build().await?;

    two_contenders(&leases).await?;
    wrong_value(&leases).await?;
    crashed_holder(&leases).await?;

    let report = leases.shutdown().await;
    println!("\nDone: {} leases left to release at shutdown.", report.released);
    let client = database.client().clone();
    database.drop_database().await?;
    // Without this, the driver's last task may be polled while the runtime ends, and panics.
    client.shutdown().await;
    Ok(())
}

async fn two_contenders(leases: &LeaseManager) -> Result<(), Box<dyn Error>> {
    println!("\n2. Alice and Bob want `invoice:42`. Alice is first and works for half a second.");
    let alice = leases.acquire("invoice:42").owner("alice").await?;
    println!("   Alice is granted the lease, with fencing token {}.", alice.token()?);

    if let Attempt::Busy(held) = leases.try_acquire("invoice:42").await? {
        let owner = held.owner.as_deref().unwrap_or("another program");
        let label = owner.split('@').next().unwrap_or(owner);
        println!("   Bob asks without waiting: busy, {label} has it.");
    }

    let asked = Instant::now();
    let bob = tokio::spawn({
        let leases = leases.clone();
        async move { leases.acquire("invoice:42").owner("bob").wait(Duration::from_secs(5)).await }
    });
    // Alice's work.
    tokio::time::sleep(Duration::from_millis(500)).await;
    let alices_token = alice.token()?;
    alice.release().await?;

    let bob = bob.await??;
    println!(
        "   Bob waits instead, and is granted it after {:.1} s.",
        asked.elapsed().as_secs_f32()
    );
    println!(
        "   Bob's token is {}: greater, so a late write of Alice's can be told.",
        bob.token()?
    );
    assert!(bob.token()? > alices_token);
    bob.release().await?;
    Ok(())
}

async fn wrong_value(leases: &LeaseManager) -> Result<(), Box<dyn Error>> {
    println!("\n3. Carol holds `report`. Mallory knows the name, and not the value.");
    let carol = leases.acquire("report").owner("carol").await?;
    let released = leases.release("report", "a guess").await?;
    println!("   Mallory releases it with a wrong value: {released:?}.");
    println!("   Carol still holds it: {}.", carol.is_valid());
    println!("   Carol releases it with hers: {:?}.", carol.release().await?);
    Ok(())
}

async fn crashed_holder(leases: &LeaseManager) -> Result<(), Box<dyn Error>> {
    println!("\n4. Dave takes `backup` for one second, and crashes.");
    let dave = leases.acquire("backup").owner("dave").ttl(Duration::from_secs(1)).await?;
    // A crash leaves this: a document without a holder that renews it.
    let crashed = dave.detach().await?;
    let asked = Instant::now();
    let erin = leases.acquire("backup").owner("erin").wait(Duration::from_secs(10)).await?;
    println!(
        "   Erin waits, and is granted it after {:.0} s: the ttl, and 1 s for the clocks.",
        asked.elapsed().as_secs_f32()
    );
    println!("   Her token is greater than Dave's: {}.", erin.token()? > crashed.token());
    let released = leases.release("backup", crashed.value()).await?;
    println!("   Dave comes back and releases what was his: {released:?}. Nothing is touched.");
    erin.release().await?;
    Ok(())
}
