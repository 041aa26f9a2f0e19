//! A daemon with a periodic task, on two processes: one is killed in the midst of a transaction, one is stopped there.
//!
//! Each round books one document, in a transaction under the lease. However the processes die, each round is booked
//! once.
//!
//! `cargo run --example daemon` starts its own MongoDB server and removes it at the end. With `MONGODB_URI` set, it
//! uses that server, in its own database, which it drops. Each take-over then takes up to 90 s: for that long, a server
//! lets a transaction of a dead process keep what it wrote. It needs Unix signals.

#![allow(clippy::print_stdout, reason = "an example talks to a person")]

use std::error::Error;
use std::io::BufRead;
use std::process::Command;
use std::time::{Duration, Instant};

use mongo_lease::mongodb::bson::{Document, doc};
use mongo_lease::mongodb::{Client, Collection, Database};
use mongo_lease::{Lease, LeaseManager};
use mongo_lease_testbed::{LineProcess, Server};
use rustix::process::Signal;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Set in a daemon's process: the database, and its name.
const DAEMON: [&str; 3] = ["DAEMON_URI", "DAEMON_DATABASE", "DAEMON_NAME"];

#[tokio::main]
async fn main() -> Result<()> {
    if let [Ok(uri), Ok(database), Ok(name)] = DAEMON.map(std::env::var) {
        return daemon(&Client::with_uri_str(uri).await?.database(&database), &name).await;
    }
    let own_server = || Server::builder().parameter("transactionLifetimeLimitSeconds", 2).start();
    let server = &Server::from_env("MONGODB_URI").unwrap_or_else(own_server);
    let database = server.database().await;
    let leases = LeaseManager::builder(&database).ensure_indexes(true).build().await?;

    let mut ann = Process::start(server, &database, "Ann")?;
    println!("Ann {}.", ann.says().await?);
    let mut ben = Process::start(server, &database, "Ben")?;
    println!("Ben waits. A round is due: Ann {}.", ann.does("a round").await?);

    println!("Another one is due: Ann {}. There she is killed.", ann.does("half a round").await?);
    ann.signal(Signal::KILL)?;
    let asked = Instant::now();
    let leads = ben.says().await?;
    println!("Ben {leads} after {:.0} s: her ttl, and 1 s for the clocks.", seconds(asked));
    println!("Of her round nothing is stored: Ben {}.", ben.does("a round").await?);

    println!("Another one is due: Ben {}. There he is stopped.", ben.does("half a round").await?);
    ben.signal(Signal::STOP)?;
    let asked = Instant::now();
    let mut ann = Process::start(server, &database, "Ann")?;
    let leads = ann.says().await?;
    println!("Ann is started again, and {leads} after {:.0} s.", seconds(asked));
    println!("She does that round: Ann {}.", ann.does("a round").await?);
    ben.signal(Signal::CONT)?;
    println!("Ben wakes, and commits: he {}.", ben.does("go on").await?);

    let rounds = rounds(&database).count_documents(doc! {}).await?;
    println!("{rounds} rounds are booked, each once.");
    leases.shutdown().await;
    database.drop_database().await?;
    Ok(())
}

fn seconds(since: Instant) -> f32 {
    since.elapsed().as_secs_f32()
}

fn rounds(database: &Database) -> Collection<Document> {
    database.collection("rounds")
}

/// Waits for the lease, and does its rounds for as long as it holds it; then it waits again.
async fn daemon(database: &Database, name: &str) -> Result<()> {
    let leases = LeaseManager::builder(database).owner(name).build().await?;
    loop {
        let ttl = Duration::from_secs(3);
        let lease = leases.acquire("rounds").ttl(ttl).wait_forever().await?;
        say("leads")?;
        // In a real daemon a timer says when a round is due.
        while let Some(due) = order()? {
            match round(&lease, &rounds(database), due == "half a round").await {
                Ok(number) => say(format!("books round {number}"))?,
                Err(mongo_lease::Error::Lost { .. }) => {
                    say("is refused, because its lease is lost")?;
                    break;
                }
                Err(error) => {
                    say(format!("is refused, because {error}"))?;
                    break;
                }
            }
        }
    }
}

/// Books the next round. A conflict is transient, and goes away: with a process that joins the queue, at the next try;
/// with the transaction of a dead process, when the server ends that.
async fn round(
    lease: &Lease,
    rounds: &Collection<Document>,
    stops: bool,
) -> mongo_lease::Result<i64> {
    loop {
        match round_once(lease, rounds, stops).await {
            Err(error) if error.is_transient() => {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            result => return result,
        }
    }
}

async fn round_once(
    lease: &Lease,
    rounds: &Collection<Document>,
    stops: bool,
) -> mongo_lease::Result<i64> {
    let mut tx = lease.transaction().await?;
    let done = rounds.count_documents(doc! {}).session(&mut tx).await?;
    let number = i64::try_from(done).unwrap_or(i64::MAX) + 1;
    rounds.insert_one(doc! { "_id": number }).session(&mut tx).await?;
    if stops {
        let _ = say(format!("has written round {number}, and not committed it"));
        let _ = order();
    }
    tx.commit().await?;
    Ok(number)
}

/// A daemon's process: this very program, started again.
struct Process(LineProcess);

impl Process {
    fn start(server: &Server, database: &Database, name: &str) -> Result<Process> {
        let mut program = Command::new(std::env::current_exe()?);
        program.envs(DAEMON.into_iter().zip([server.uri(), database.name(), name]));
        Ok(Process(LineProcess::start(program)?))
    }

    async fn says(&mut self) -> Result<String> {
        Ok(self.0.line().await?)
    }

    async fn does(&mut self, order: &str) -> Result<String> {
        self.0.send(order).await?;
        self.says().await
    }

    fn signal(&self, signal: Signal) -> Result<()> {
        Ok(self.0.signal(signal)?)
    }
}

fn say(what: impl std::fmt::Display) -> Result<()> {
    Ok(mongo_lease_testbed::say(what)?)
}

/// The next order; `None` when nobody gives any more.
fn order() -> Result<Option<String>> {
    let mut line = String::new();
    let read = std::io::stdin().lock().read_line(&mut line)?;
    Ok((read > 0).then(|| line.trim().to_owned()))
}
