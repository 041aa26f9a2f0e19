//! A holder is suspended for longer than its lease, and its late writes are refused.
//!
//! It wakes in the belief that it still holds the lease. One write is refused by the fencing token, another by a
//! transaction under the lease.
//!
//! `cargo run --example fencing` starts its own MongoDB server and removes it at the end. With `MONGODB_URI` set, it
//! uses that server, in its own database, which it drops. The second part then takes up to 90 s: for that long, a
//! server lets a transaction of a stopped process keep what it wrote. It needs Unix signals.

#![allow(clippy::print_stdout, reason = "an example talks to a person")]

use std::error::Error;
use std::io::BufRead;
use std::process::Command;
use std::time::{Duration, Instant};

use mongo_lease::mongodb::bson::{Document, doc};
use mongo_lease::mongodb::{Client, Collection, Database};
use mongo_lease::{LeaseManager, Token};
use mongo_lease_testbed::{LineProcess, Server};
use rustix::process::Signal;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Set in the holder's process: the database, and how it fences its writes.
const HOLDER: [&str; 3] = ["FENCING_URI", "FENCING_DATABASE", "FENCING_BY"];

#[tokio::main]
async fn main() -> Result<()> {
    if let [Ok(uri), Ok(database), Ok(by)] = HOLDER.map(std::env::var) {
        let database = Client::with_uri_str(uri).await?.database(&database);
        return match by.as_str() {
            "token" => holder_with_token(&database).await,
            _ => holder_with_transaction(&database).await,
        };
    }
    let own_server = || Server::builder().parameter("transactionLifetimeLimitSeconds", 2).start();
    let server = &Server::from_env("MONGODB_URI").unwrap_or_else(own_server);
    let database = server.database().await;
    let builder = LeaseManager::builder(&database).owner("successor").ensure_indexes(true);
    let leases = builder.build().await?;
    let stock = stock(&database);
    stock.insert_one(doc! { "_id": "apples", "count": 10 }).await?;

    println!("The stock is 10 apples. Who holds the lease `stock` may change it.\n");
    by_token(server, &database, &leases, &stock).await?;
    by_transaction(server, &database, &leases, &stock).await?;

    leases.shutdown().await;
    database.drop_database().await?;
    Ok(())
}

fn stock(database: &Database) -> Collection<Document> {
    database.collection("stock")
}

async fn count(stock: &Collection<Document>) -> Result<i32> {
    let apples = stock.find_one(doc! { "_id": "apples" }).await?;
    Ok(apples.ok_or("no apples")?.get_i32("count")?)
}

/// The fenced write. It is applied only if no writer with a newer token came first.
async fn write(stock: &Collection<Document>, token: Token, count: i32) -> Result<&'static str> {
    let change = doc! { "$set": { "count": count } };
    let write = token.fenced_write("fence", doc! { "_id": "apples" }, change)?;
    Ok(if write.send(stock).await?.is_applied() { "accepted" } else { "refused" })
}

async fn by_token(
    server: &Server,
    database: &Database,
    leases: &LeaseManager,
    stock: &Collection<Document>,
) -> Result<()> {
    println!("By token");
    let mut holder = Holder::start(server, database, "token")?;
    let token: Token = holder.says().await?.parse()?;
    println!("  A holder, in a process of its own, is granted the lease for 1 s.");
    println!("  Its token is {token}. It writes 9 apples: {}.", holder.says().await?);

    holder.signal(Signal::STOP)?;
    println!("  Then it is stopped in the middle of its work, and cannot renew the lease.");
    let asked = Instant::now();
    let lease = leases.acquire("stock").await?;
    println!(
        "  A successor is granted it after {:.0} s: the ttl, and 1 s for the clocks.",
        asked.elapsed().as_secs_f32()
    );
    let token = lease.token()?;
    println!("  Its token is {token}, which is greater. It writes 5: {}.", {
        write(stock, token, 5).await?
    });

    holder.signal(Signal::CONT)?;
    holder.tell("go on").await?;
    println!("  The holder wakes. It does not look at the lease, and writes 8: {}.", {
        holder.says().await?
    });
    println!("  Why: the document has seen the newer token. No clock takes part in that.");
    println!("  Asked, its lease says: {}.", holder.says().await?);
    println!("  There are {} apples.\n", count(stock).await?);
    lease.release().await?;
    Ok(())
}

async fn holder_with_token(database: &Database) -> Result<()> {
    let leases = LeaseManager::builder(database).owner("holder").build().await?;
    let lease = leases.acquire("stock").ttl(Duration::from_secs(1)).await?;
    let token = lease.token()?;
    say(token)?;
    say(write(&stock(database), token, 9).await?)?;
    wait_for_order()?;
    say(write(&stock(database), token, 8).await?)?;
    say(match lease.check() {
        Ok(()) => "it is held",
        Err(_) => "it is lost",
    })
}

async fn by_transaction(
    server: &Server,
    database: &Database,
    leases: &LeaseManager,
    stock: &Collection<Document>,
) -> Result<()> {
    println!("By transaction");
    let mut holder = Holder::start(server, database, "transaction")?;
    println!("  Another holder begins a transaction under the lease, and writes 4 apples: {}.", {
        holder.says().await?
    });
    holder.signal(Signal::STOP)?;
    println!("  It is stopped before its commit.");
    let asked = Instant::now();
    let lease = leases.acquire("stock").await?;
    println!(
        "  A successor is granted it after {:.0} s: the open transaction keeps nobody from it.",
        asked.elapsed().as_secs_f32()
    );
    println!(
        "  It keeps the apples, until the server ends it because it has been open for too long."
    );
    let token = lease.token()?;
    println!("  Then the successor writes 3: {}.", write(stock, token, 3).await?);

    holder.signal(Signal::CONT)?;
    holder.tell("go on").await?;
    println!("  The holder wakes, and commits: {}.", holder.says().await?);
    println!(
        "  Why: the commit writes to the lease's own document, in the same transaction. Either"
    );
    println!("  that is committed or the lease is granted to another, never both.");
    println!("  There are {} apples.", count(stock).await?);
    lease.release().await?;
    Ok(())
}

async fn holder_with_transaction(database: &Database) -> Result<()> {
    let leases = LeaseManager::builder(database).owner("holder").build().await?;
    let lease = leases.acquire("stock").ttl(Duration::from_secs(1)).await?;
    let mut tx = lease.transaction().await?;
    let change = doc! { "$set": { "count": 4 } };
    stock(database).update_one(doc! { "_id": "apples" }, change).session(&mut tx).await?;
    say("accepted")?;
    wait_for_order()?;
    say(match tx.commit().await {
        Ok(()) => "accepted",
        Err(_) => "refused",
    })
}

/// The process that plays the holder: this very program, started again.
struct Holder(LineProcess);

impl Holder {
    fn start(server: &Server, database: &Database, by: &str) -> Result<Holder> {
        let mut program = Command::new(std::env::current_exe()?);
        program.envs(HOLDER.into_iter().zip([server.uri(), database.name(), by]));
        Ok(Holder(LineProcess::start(program)?))
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

fn wait_for_order() -> Result<()> {
    std::io::stdin().lock().read_line(&mut String::new())?;
    Ok(())
}
