//! A web service on mongo-lease: a guarded route, and locks over HTTP.
//!
//! The route handles one request per key at a time. The locks are for programs without a MongoDB client.
//!
//! `cargo run -p axum_service` starts it, and prints requests to try. Without `MONGODB_URI` it starts its own MongoDB
//! server, and removes it at the end. Ctrl-C or SIGTERM stops it in order: it answers the requests in progress, and
//! releases every lease and every lock that it has granted.
//!
//! | environment | default | |
//! | `MONGODB_URI` | a server of its own | where the leases are |
//! | `AXUM_SERVICE_DATABASE` | a new one, dropped at the end | several processes share one |
//! | `AXUM_SERVICE_LISTEN` | `127.0.0.1:8080` | port 0 selects a free port |
//! | `AXUM_SERVICE_TTL_MS` | 30000 | how long the leases of a crashed process last |
//! | `DRAIN_SECONDS` | 10 | how long requests in progress may take after the stop signal |

#![allow(clippy::print_stdout, reason = "an example talks to a person")]

mod locks;
mod payments;
mod problem;

use std::error::Error;
use std::time::Duration;

use axum::Router;
use axum::routing::get;
use mongo_lease::LeaseManager;
use mongo_lease::mongodb::{Client, Database};
use mongo_lease_testbed::{Server, TestDatabase};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};

use crate::locks::Locks;

const HELP: &str = "\
POST   /invoices/{id}/payment     pays an invoice: one at a time for each, on all machines
POST   /lock/{key}/{id}?ttl_ms=   takes a lock with the id as its value: 200, or 409 when it is held
PUT    /lock/{key}/{id}           renews it; the body is `lease` of the answer to taking it
DELETE /lock/{key}/{id}           releases it, by its name and value
GET    /lock/{key}                looks at it
GET    /locks?pattern=job-*       lists those that are held
";

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let (database, is_ours) = database().await?;
    let ttl = setting("AXUM_SERVICE_TTL_MS").map_or(Ok(30_000), |ttl| ttl.parse())?;
    let drain = setting("DRAIN_SECONDS").map_or(Ok(10), |drain| drain.parse())?;
    // In production: `mongo-lease-migrate up`, once.
    let builder = LeaseManager::builder(&database).owner("axum-service").ensure_indexes(true);
    let leases = builder.ttl(Duration::from_millis(ttl)).build().await?;
    let locks = Locks::new(&leases)?;
    let service = Router::new()
        .route("/", get(HELP))
        .merge(payments::routes(&leases, &database)?)
        .merge(locks.routes());

    let address = setting("AXUM_SERVICE_LISTEN").unwrap_or_else(|| "127.0.0.1:8080".to_owned());
    let listener = TcpListener::bind(&address).await?;
    let address = listener.local_addr()?;
    println!("Listening on http://{address}, with leases in the database {}.", database.name());
    println!("Try: curl -i -X POST http://{address}/lock/report/me\n\n{HELP}");
    serve(listener, service, Duration::from_secs(drain)).await?;

    // Clients hold the locks, and the manager does not know them any more: so they are released first.
    let released = locks.release_all().await + leases.shutdown().await.released;
    println!("Done: {released} leases released.");
    if is_ours {
        database.drop().await?;
    }
    Ok(())
}

/// Serves until the stop signal, and then until the requests in progress are answered, or this time is over.
async fn serve(
    listener: TcpListener,
    service: Router,
    drain: Duration,
) -> Result<(), Box<dyn Error>> {
    let (stop, stopped) = tokio::sync::watch::channel(false);
    let told = |mut stopped: tokio::sync::watch::Receiver<bool>| async move {
        // It fails if the sender has gone, which also means stop.
        let _ = stopped.wait_for(|is_told| *is_told).await;
    };
    let serving = axum::serve(listener, service).with_graceful_shutdown(told(stopped.clone()));
    let signals = async {
        end_signal().await?;
        println!("Ending: no more requests are taken.");
        stop.send_replace(true);
        tokio::time::sleep(drain).await;
        Ok::<(), Box<dyn Error>>(())
    };
    tokio::select! {
        served = serving => Ok(served?),
        // The shutdown ends their leases, and their handlers learn of it.
        late = signals => late,
    }
}

async fn end_signal() -> std::io::Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    tokio::select! {
        pressed = tokio::signal::ctrl_c() => pressed,
        _ = terminate.recv() => Ok(()),
    }
}

/// The database, and whether it is dropped at the end.
async fn database() -> Result<(Database, bool), Box<dyn Error>> {
    let client = match setting("MONGODB_URI") {
        Some(uri) => Client::with_uri_str(uri).await?,
        None => Server::shared().client().await,
    };
    Ok(match setting("AXUM_SERVICE_DATABASE") {
        Some(name) => (client.database(&name), false),
        None => ((*TestDatabase::of(&client)).clone(), true),
    })
}

fn setting(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}
