//! The first example of the README, word for word: a test compares them, and runs this one.
//!
//! `cargo run --example dev` in one terminal, and in another `cargo run --example invoice`. With `MONGODB_URI` set, it
//! uses that server.

#![allow(clippy::print_stdout, reason = "an example talks to a person")]

use mongo_lease::mongodb::Client;
use mongo_lease::mongodb::bson::{Document, doc};
use mongo_lease::{Lease, LeaseManager, Result};

#[tokio::main]
async fn main() -> Result<()> {
    let uri = std::env::var("MONGODB_URI").unwrap_or("mongodb://localhost:27017".to_owned());
    let client = Client::with_uri_str(uri).await?;
    let leases =
        LeaseManager::builder(&client.database("billing")).owner("billing").build().await?;

    // One process at a time handles this invoice. The others wait in a queue, for up to 30 s.
    let lease = leases.acquire("invoice:42").await?;
    // Slow work outside of MongoDB. It is dropped if the lease is lost; the library renews the lease meanwhile.
    let receipt = lease.run(charge(42)).await?;
    store(&client, &lease, &receipt).await?;

    println!("invoice 42 is paid, under fencing token {}", lease.token()?);
    lease.release().await?;
    leases.shutdown().await;
    Ok(())
}

/// Stores the payment, unless another process has been granted the lease meanwhile: then nothing commits.
async fn store(client: &Client, lease: &Lease, receipt: &Document) -> Result<()> {
    let payments = client.database("billing").collection::<Document>("payments");
    let mut tx = lease.transaction().await?;
    payments.insert_one(receipt).session(&mut tx).await?;
    tx.commit().await // a conflict is transient: docs/fencing.md has the loop that repeats it
}

async fn charge(invoice: i32) -> Document {
    doc! { "invoice": invoice, "paid": true } // stands for a call of the bank
}
