//! Metrics and spans of mongo-lease: a Prometheus scrape, and spans as OpenTelemetry exports them.
//!
//! `cargo run -p observability` starts its own MongoDB server and removes it at the end. With `MONGODB_URI` set, it
//! uses that server, in its own database, which it drops.

#![allow(clippy::print_stdout, reason = "an example talks to a person")]

use std::error::Error;

use mongo_lease::LeaseManager;
use mongo_lease_testbed::Server;
use observability::{describe, export_spans, recorder, use_leases};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let spans = export_spans()?;
    // Before the first `build()`, which registers every metric with zero.
    let scrape = recorder()?.install_recorder()?;

    let server = Server::from_env("MONGODB_URI").unwrap_or_else(Server::start);
    let database = server.database().await;
    let builder = LeaseManager::builder(&database).owner("example").ensure_indexes(true);
    let leases = builder.build().await?;
    println!("1. A scrape before the first lease:\n\n{}", scrape.render());

    use_leases(&leases).await?;
    leases.shutdown().await;

    println!("2. The spans, in the order of their ends:\n");
    for span in spans.get_finished_spans()? {
        println!("{}\n", describe(&span));
    }
    println!("3. A scrape at the end:\n\n{}", scrape.render());
    database.drop_database().await?;
    Ok(())
}
