//! At most five of many workers call a tenant's service at a time, and a crash frees its permit.
//!
//! Eight workers, processes of their own, want one of five permits, and three of them wait. One worker crashes, and the
//! next one has its permit when it has expired. Another one finishes, and the next one has its permit at once.
//!
//! `cargo run --example semaphore` starts its own MongoDB server and removes it at the end. With `MONGODB_URI` set, it
//! uses that server, in its own database, which it drops. The workers run this same program.

#![allow(clippy::print_stdout, reason = "an example talks to a person")]

use std::error::Error;
use std::io::BufRead;
use std::pin::pin;
use std::process::Command;
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use mongo_lease::mongodb::{Client, Database};
use mongo_lease::{Attempt, Event, Lease, LeaseManager, Semaphore};
use mongo_lease_testbed::{LineProcess, Server};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Set in the workers' processes: the database, and their name.
const WORKER: [&str; 3] = ["SEMAPHORE_URI", "SEMAPHORE_DATABASE", "SEMAPHORE_WORKER"];
const NAMES: [&str; 8] = ["Ann", "Ben", "Cem", "Dora", "Emil", "Fay", "Gus", "Hana"];
const TENANT: &str = "tenant:7";
const LIMIT: u32 = 5;
/// Short, so that the crash is over soon. In production: 30 s, the default.
const TTL: Duration = Duration::from_secs(4);

#[tokio::main]
async fn main() -> Result<()> {
    if let [Ok(uri), Ok(database), Ok(name)] = WORKER.map(std::env::var) {
        return work(&Client::with_uri_str(uri).await?.database(&database), &name).await;
    }
    let server = &Server::from_env("MONGODB_URI").unwrap_or_else(Server::start);
    let database = server.database().await;
    // In production: `mongo-lease-migrate up`, once.
    let builder = LeaseManager::builder(&database).owner("observer").ensure_indexes(true);
    let leases = builder.build().await?;

    println!("Eight workers want to call {TENANT}. At most {LIMIT} may do so at a time.");
    let mut workers = Vec::new();
    for name in NAMES {
        let mut worker = Worker::start(server, &database, name)?;
        println!("  {name} {}.", worker.says().await?);
        workers.push(worker);
    }
    println!("  The observer reads: {}.", in_use(&leases).await?);
    let [ann, ben, cem, dora, emil, fay, gus, hana] = &mut workers[..] else {
        return Err("there are eight workers".into());
    };

    println!("Ann crashes in the middle of her work.");
    ann.0.kill().await?;
    let crashed = Instant::now();
    let works = fay.works().await?;
    let took = crashed.elapsed().as_secs_f32();
    println!("  Fay {works} after {took:.0} s: Ann's ttl, and 1 s for the clocks.");
    println!("  The observer reads: {}.", in_use(&leases).await?);

    println!("Ben is done.");
    let asked = Instant::now();
    ben.finish().await?;
    println!("  Gus {}, and has not waited for a ttl: {}.", gus.works().await?, {
        asked.elapsed() < TTL
    });
    println!("  The observer reads: {}.", in_use(&leases).await?);

    println!("All the others are done, one after the other.");
    cem.finish().await?;
    println!("  Hana {}.", hana.works().await?);
    for worker in [dora, emil, fay, gus, hana] {
        worker.finish().await?;
    }
    println!("  The observer reads: {}.", in_use(&leases).await?);

    leases.shutdown().await;
    database.drop_database().await?;
    Ok(())
}

async fn in_use(leases: &LeaseManager) -> Result<String> {
    Ok(match leases.get(TENANT).await? {
        None => "no permit is in use".to_owned(),
        Some(info) => {
            let in_use = info.in_use.unwrap_or_default();
            format!("{in_use} of {LIMIT} permits are in use, and {} in the queue", info.waiting)
        }
    })
}

/// One worker: it takes a permit, calls the service until it is told to finish, and releases the permit.
async fn work(database: &Database, name: &str) -> Result<()> {
    let leases = LeaseManager::builder(database).owner(name).ttl(TTL).build().await?;
    let calls = leases.semaphore(TENANT, LIMIT);
    let permit = match calls.try_acquire().await? {
        Attempt::Granted(permit) => permit,
        Attempt::Busy(_) => permit_of_queue(&leases, &calls).await?,
    };
    say("works")?;
    // Asynchronous calls go here: if the permit is lost, they are dropped at their next `await`. This stand-in waits
    // for a line, and a drop does not stop it.
    permit.run(tokio::task::spawn_blocking(wait_for_order)).await???;
    permit.release().await?;
    leases.shutdown().await;
    say("is done")
}

/// Waits for a permit, and says when it is in the queue.
async fn permit_of_queue(leases: &LeaseManager, calls: &Semaphore) -> Result<Lease> {
    let mut events = pin!(leases.events());
    let mut permit = calls.acquire().wait_forever().into_future();
    loop {
        tokio::select! {
            permit = &mut permit => return Ok(permit?),
            Some(event) = events.next() => {
                if matches!(event, Event::Queued { .. }) {
                    say("waits")?;
                }
            }
        }
    }
}

/// A worker: this same program, started again. It is killed when this is dropped.
struct Worker(LineProcess);

impl Worker {
    fn start(server: &Server, database: &Database, name: &str) -> Result<Worker> {
        let mut program = Command::new(std::env::current_exe()?);
        program.envs(WORKER.into_iter().zip([server.uri(), database.name(), name]));
        Ok(Worker(LineProcess::start(program)?))
    }

    async fn says(&mut self) -> Result<String> {
        Ok(self.0.line().await?)
    }

    async fn says_at_last(&mut self, what: &str) -> Result<String> {
        loop {
            let said = self.says().await?;
            if said == what {
                return Ok(said);
            }
        }
    }

    /// Waits until it has its permit.
    async fn works(&mut self) -> Result<String> {
        self.says_at_last("works").await
    }

    /// Tells it to finish, and waits until it has released its permit.
    async fn finish(&mut self) -> Result<()> {
        self.0.send("finish").await?;
        self.says_at_last("is done").await?;
        Ok(())
    }
}

fn say(what: impl std::fmt::Display) -> Result<()> {
    Ok(mongo_lease_testbed::say(what)?)
}

fn wait_for_order() -> std::io::Result<usize> {
    std::io::stdin().lock().read_line(&mut String::new())
}
