//! A consumer of a change stream stores its checkpoint by a fenced write, and another process takes over from it.
//!
//! Ann adds up the orders, and is stopped between reading one and storing it. Ben is granted the lease, claims the
//! checkpoint, and goes on after the last order that Ann stored. Ann wakes, and her late checkpoint is refused. Each
//! order is counted once.
//!
//! `cargo run --example checkpoint` starts its own MongoDB server and removes it at the end. With `MONGODB_URI` set, it
//! uses that server, in its own database, which it drops. It needs Unix signals. The consumers run this same program.

#![allow(clippy::print_stdout, reason = "an example talks to a person")]

use std::error::Error;
use std::io::BufRead;
use std::process::Command;
use std::time::Duration;

use futures_util::TryStreamExt;
use mongo_lease::mongodb::bson::{Document, doc};
use mongo_lease::mongodb::change_stream::event::ResumeToken;
use mongo_lease::mongodb::{Client, Collection, Database};
use mongo_lease::{LeaseManager, Token};
use mongo_lease_testbed::{LineProcess, Server};
use rustix::process::Signal;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Set in the consumers' processes: the database, and their name.
const CONSUMER: [&str; 3] = ["CHECKPOINT_URI", "CHECKPOINT_DATABASE", "CHECKPOINT_CONSUMER"];
/// One name for the lease and for the document that it protects.
const NAME: &str = "totals:orders";
/// Short, so that the take-over is soon. In production: 30 s, the default.
const TTL: Duration = Duration::from_secs(4);

#[tokio::main]
async fn main() -> Result<()> {
    if let [Ok(uri), Ok(database), Ok(name)] = CONSUMER.map(std::env::var) {
        return consume(&Client::with_uri_str(uri).await?.database(&database), &name).await;
    }
    let server = &Server::from_env("MONGODB_URI").unwrap_or_else(Server::start);
    let database = server.database().await;
    // In production: `mongo-lease-migrate up`, once.
    LeaseManager::builder(&database).ensure_indexes(true).await?;
    let orders = database.collection("orders");

    println!("Ann adds up the orders.");
    let mut ann = Consumer::start(server, &database, "ann")?;
    println!("  Ann {}.", ann.says().await?);
    orders.insert_one(doc! { "amount": 10 }).await?;
    println!("  Ann {}.", ann.says().await?);
    ann.tell("store it").await?;
    println!("  Her checkpoint is {}.", ann.says().await?);

    println!("She reads the next order, and is stopped before she stores it.");
    orders.insert_one(doc! { "amount": 20 }).await?;
    println!("  Ann {}.", ann.says().await?);
    ann.signal(Signal::STOP)?;

    println!("Ben is granted the lease when Ann's has expired.");
    let mut ben = Consumer::start(server, &database, "ben")?;
    println!("  Ben {}.", ben.says().await?);
    println!("  Ben {}.", ben.says().await?);

    println!("Ann wakes before Ben has stored anything of his own.");
    ann.signal(Signal::CONT)?;
    ann.tell("store it").await?;
    println!("  Her checkpoint is {}: Ben has claimed it.", ann.says().await?);
    ben.tell("store it").await?;
    println!("  His checkpoint is {}.", ben.says().await?);

    let total = Checkpoint::read(&checkpoints(&database)).await?.total;
    println!("The total is {total}: each order counts once.");
    drop((ann, ben));
    database.drop_database().await?;
    Ok(())
}

fn checkpoints(database: &Database) -> Collection<Document> {
    database.collection("checkpoints")
}

/// How far the orders are added up, and to how much: one document, so that one write stores both.
#[derive(Default)]
struct Checkpoint {
    resume_after: Option<ResumeToken>,
    total: i64,
}

impl Checkpoint {
    async fn read(checkpoints: &Collection<Document>) -> Result<Self> {
        let Some(found) = checkpoints.find_one(doc! { "_id": NAME }).await? else {
            return Ok(Self::default());
        };
        let resume_after = found.get_str("resumeAfter").ok().map(serde_json::from_str);
        Ok(Self { resume_after: resume_after.transpose()?, total: found.get_i64("total")? })
    }

    /// Claims the checkpoint for the holder of this token, and reads it. No earlier holder can change it after that.
    async fn claim(checkpoints: &Collection<Document>, token: Token) -> Result<Self> {
        let nothing = doc! { "$setOnInsert": { "total": 0_i64 } };
        let claim = token.fenced_write("fence", doc! { "_id": NAME }, nothing)?;
        if !claim.send(checkpoints).upsert(true).await?.is_applied() {
            return Err("a later holder has claimed it".into());
        }
        Self::read(checkpoints).await
    }

    /// Whether it was stored: a later holder's claim refuses it.
    async fn store(&self, checkpoints: &Collection<Document>, token: Token) -> Result<bool> {
        let resume_after = serde_json::to_string(&self.resume_after)?;
        let change = doc! { "$set": { "resumeAfter": resume_after, "total": self.total } };
        let write = token.fenced_write("fence", doc! { "_id": NAME }, change)?;
        Ok(write.send(checkpoints).await?.is_applied())
    }
}

/// A consumer: one term, from the grant of the lease to its loss.
async fn consume(database: &Database, name: &str) -> Result<()> {
    let (checkpoints, orders) = (checkpoints(database), database.collection::<Document>("orders"));
    let leases = LeaseManager::builder(database).owner(name).ttl(TTL).build().await?;
    let lease = leases.acquire(NAME).wait_forever().await?;
    let token = lease.token()?;
    let mut checkpoint = Checkpoint::claim(&checkpoints, token).await?;
    let mut changes = orders.watch().resume_after(checkpoint.resume_after.clone()).await?;
    if checkpoint.resume_after.is_some() {
        say(format!("goes on after a total of {}", checkpoint.total))?;
    } else {
        // The place where the stream begins: a process that takes over before the first order must not miss it.
        checkpoint.resume_after = changes.resume_token();
        checkpoint.store(&checkpoints, token).await?;
        say("begins with the next order")?;
    }
    loop {
        let Some(change) = lease.run(changes.try_next()).await?? else { return Ok(()) };
        let order = change.full_document.ok_or("an order is never changed")?;
        checkpoint.total += i64::from(order.get_i32("amount")?);
        checkpoint.resume_after = Some(change.id);
        say(format!("reads an order of {}", order.get_i32("amount")?))?;
        std::io::stdin().lock().read_line(&mut String::new())?;
        match checkpoint.store(&checkpoints, token).await? {
            true => say(format!("stored, with a total of {}", checkpoint.total))?,
            false => return say("refused"),
        }
    }
}

/// A consumer's process: this same program, started again. It is killed when this is dropped.
struct Consumer(LineProcess);

impl Consumer {
    fn start(server: &Server, database: &Database, name: &str) -> Result<Consumer> {
        let mut program = Command::new(std::env::current_exe()?);
        program.envs(CONSUMER.into_iter().zip([server.uri(), database.name(), name]));
        Ok(Consumer(LineProcess::start(program)?))
    }

    async fn says(&mut self) -> Result<String> {
        Ok(self.0.line().await?)
    }

    async fn tell(&mut self, order: &str) -> Result<()> {
        Ok(self.0.send(order).await?)
    }

    fn signal(&self, signal: Signal) -> Result<()> {
        Ok(self.0.signal(signal)?)
    }
}

fn say(what: impl std::fmt::Display) -> Result<()> {
    Ok(mongo_lease_testbed::say(what)?)
}
