//! A replica set for development: one server, whose database `dev` has the indexes that leases need.
//!
//! `cargo run --example dev` prints the connection string, and runs until Ctrl-C or SIGTERM. With a number of seconds
//! (`cargo run --example dev -- 60`) it also ends by itself. The data is in a temporary folder and is gone at the end.

#![allow(clippy::print_stdout, reason = "an example talks to a person")]

use std::error::Error;
use std::time::Duration;

use mongo_lease::LeaseManager;
use mongo_lease::mongodb::Client;
use mongo_lease_testbed::Server;

const DATABASE: &str = "dev";

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let seconds = std::env::args().nth(1).map(|seconds| seconds.parse()).transpose();
    let end = seconds.map_err(|error| format!("give a number of seconds, or nothing: {error}"))?;
    // Asked for before the server is there, so that no signal is missed.
    let end = end_of(end.map(Duration::from_secs))?;

    let server = Server::try_start()?;
    let database = Client::with_uri_str(server.uri()).await?.database(DATABASE);
    LeaseManager::builder(&database).ensure_indexes().await?;
    let uri = server.uri().replacen("/?", &format!("/{DATABASE}?"), 1);
    println!("export MONGODB_URI='{uri}'");
    println!("# A replica set of one node; `{DATABASE}` has both indexes.");
    println!("# Ctrl-C ends it, and removes its data.");
    end.await;
    Ok(())
}

/// Completes at Ctrl-C or SIGTERM, or when the time is over.
#[cfg(unix)]
fn end_of(time: Option<Duration>) -> std::io::Result<impl Future<Output = ()>> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut interrupted = signal(SignalKind::interrupt())?;
    let mut terminated = signal(SignalKind::terminate())?;
    Ok(async move {
        tokio::select! {
            _ = interrupted.recv() => (),
            _ = terminated.recv() => (),
            () = time_is_over(time) => (),
        }
    })
}

#[cfg(not(unix))]
fn end_of(time: Option<Duration>) -> std::io::Result<impl Future<Output = ()>> {
    Ok(time_is_over(time))
}

async fn time_is_over(time: Option<Duration>) {
    match time {
        Some(time) => tokio::time::sleep(time).await,
        None => std::future::pending().await,
    }
}
