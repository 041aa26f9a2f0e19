//! A replica set for development: one server, with a database that has the indexes that leases need.
//!
//! `cargo run --example dev` listens at port 27017, or at another one where that is in use, and sets up the database
//! `billing`. It prints the line to export, and runs until Ctrl-C or SIGTERM. The data is in a temporary folder and is
//! gone at the end. `cargo run --example dev -- --port 27117 --db orders --seconds 60` chooses port and database,
//! and ends by itself after a minute.

#![allow(clippy::print_stdout, reason = "an example talks to a person")]

use std::error::Error;
use std::net::{Ipv4Addr, TcpListener};
use std::str::FromStr;
use std::time::Duration;

use mongo_lease::LeaseManager;
use mongo_lease::mongodb::Client;
use mongo_lease_testbed::Server;
use tokio::signal::unix::{SignalKind, signal};

/// The port of MongoDB, at which programs look for it by default.
const USUAL_PORT: u16 = 27_017;
const USAGE: &str = "the options are --port PORT, --db DATABASE and --seconds N";

type Result<T> = std::result::Result<T, Box<dyn Error>>;

#[tokio::main]
async fn main() -> Result<()> {
    let options = Options::read(std::env::args().skip(1))?;
    // Asked for before the server is there, so that no signal is missed.
    let end = end_of(options.time)?;

    let server = start(options.port)?;
    let uri = server.uri_of(&options.database);
    let database = Client::with_uri_str(&uri).await?.database(&options.database);
    LeaseManager::builder(&database).ensure_indexes(true).build().await?;
    println!("export MONGODB_URI='{uri}'");
    println!("# A replica set of one node; `{}` has both indexes.", options.database);
    println!("# Ctrl-C ends it, and removes its data.");
    end.await;
    Ok(())
}

/// The server, at this port. Without one, at the usual port, or at another one where that is in use.
fn start(port: Option<u16>) -> Result<Server> {
    if let Some(port) = port {
        return Ok(Server::builder().port(port).try_start()?);
    }
    // Another program may take it at the same moment.
    if TcpListener::bind((Ipv4Addr::LOCALHOST, USUAL_PORT)).is_ok()
        && let Ok(server) = Server::builder().port(USUAL_PORT).try_start()
    {
        return Ok(server);
    }
    Ok(Server::try_start()?)
}

struct Options {
    port: Option<u16>,
    database: String,
    time: Option<Duration>,
}

impl Options {
    fn read(mut words: impl Iterator<Item = String>) -> Result<Self> {
        let mut options = Self { port: None, database: "billing".to_owned(), time: None };
        while let Some(option) = words.next() {
            let value = words.next().ok_or(USAGE)?;
            match option.as_str() {
                "--port" => options.port = Some(number(&value)?),
                "--db" => options.database = value,
                "--seconds" => options.time = Some(Duration::from_secs(number(&value)?)),
                _ => return Err(USAGE.into()),
            }
        }
        Ok(options)
    }
}

fn number<N: FromStr>(text: &str) -> Result<N> {
    text.parse().map_err(|_| format!("{text}: not such a number; {USAGE}").into())
}

/// Completes at Ctrl-C or SIGTERM, or when the time is over.
fn end_of(time: Option<Duration>) -> std::io::Result<impl Future<Output = ()>> {
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

async fn time_is_over(time: Option<Duration>) {
    match time {
        Some(time) => tokio::time::sleep(time).await,
        None => std::future::pending().await,
    }
}
