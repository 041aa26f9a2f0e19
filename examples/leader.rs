//! Two processes take part in an election, and leadership changes twice.
//!
//! The leader crashes, and the other one follows. Later that one is stopped in order, and its successor does not have
//! to wait. A third process is stopped while it follows.
//!
//! `cargo run --example leader` starts its own MongoDB server and removes it at the end. With `MONGODB_URI` set, it
//! uses that server, in its own database, which it drops. The processes run this same program.

#![allow(clippy::print_stdout, reason = "an example talks to a person")]

use std::error::Error;
use std::io::BufRead;
use std::pin::pin;
use std::process::Command;
use std::time::{Duration, Instant};

use futures_util::TryStreamExt;
use mongo_lease::mongodb::{Client, Database};
use mongo_lease::{Election, LeaseManager, Stop};
use mongo_lease_testbed::{LineProcess, Server};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Set in the processes of the election: the database, and their name.
const NODE: [&str; 3] = ["LEADER_URI", "LEADER_DATABASE", "LEADER_NODE"];
const ELECTION: &str = "leader:billing";
/// Short, so that the crash is over soon. In production: 30 s, the default.
const TTL: Duration = Duration::from_secs(4);

#[tokio::main]
async fn main() -> Result<()> {
    if let [Ok(uri), Ok(database), Ok(name)] = NODE.map(std::env::var) {
        return node(&Client::with_uri_str(uri).await?.database(&database), &name).await;
    }
    let server = &Server::from_env("MONGODB_URI").unwrap_or_else(Server::start);
    let database = server.database().await;
    // In production: `mongo-lease-migrate up`, once.
    let builder = LeaseManager::builder(&database).owner("observer").ensure_indexes(true);
    let leases = builder.build().await?;

    println!("Ann and Ben, two processes, stand for leader.");
    let mut ann = Node::start(server, &database, "ann")?;
    println!("  Ann {}.", ann.leads().await?);
    let mut ben = Node::start(server, &database, "ben")?;
    println!("  Ben {}.", ben.says().await?);
    println!("  The database says: {} leads.", who_leads(&leases).await?);

    println!("Ann crashes.");
    ann.0.kill().await?;
    let crashed = Instant::now();
    let bens_token = ben.leads().await?;
    let took = crashed.elapsed().as_secs_f32();
    println!("  Ben {bens_token} after {took:.0} s: Ann's ttl, and 1 s for the clocks.");
    println!("  The database says: {} leads.", who_leads(&leases).await?);

    println!("Ann is started again, and follows.");
    ann = Node::start(server, &database, "ann")?;
    println!("  Ann {}.", ann.says().await?);

    println!("Cem follows too, and is stopped before he has led.");
    let mut cem = Node::start(server, &database, "cem")?;
    println!("  Cem {}.", cem.says().await?);
    cem.tell("stop").await?;
    println!("  Cem {}.", cem.says().await?);

    println!("Ben is stopped.");
    ben.tell("stop").await?;
    println!("  Ben {}.", ben.says().await?);
    let asked = Instant::now();
    println!("  Ann {}, and has not waited for a ttl: {}.", ann.leads().await?, {
        asked.elapsed() < TTL
    });

    drop((ann, ben, cem));
    leases.shutdown().await;
    database.drop_database().await?;
    Ok(())
}

/// The first leader that an observer sees.
async fn who_leads(leases: &LeaseManager) -> Result<String> {
    let mut leaders = pin!(Election::new(leases, ELECTION).observe());
    while let Some(leader) = leaders.try_next().await? {
        if let Some(owner) = leader.and_then(|leader| leader.owner) {
            return Ok(owner.split('@').next().unwrap_or(&owner).to_owned());
        }
    }
    Err("the observer has ended".into())
}

/// One process of the election.
async fn node(database: &Database, name: &str) -> Result<()> {
    let leases = LeaseManager::builder(database).owner(name).ttl(TTL).build().await?;
    let election = Election::new(&leases, ELECTION);
    let orders = election.clone();
    std::thread::spawn(move || {
        for order in std::io::stdin().lock().lines() {
            match order.as_deref() {
                // In production: SIGTERM.
                Ok("stop") => orders.stop(),
                Ok(_) | Err(_) => return,
            }
        }
    });
    say("stands")?;
    loop {
        let term = election.run(async |leadership| {
            if let Ok(token) = leadership.lease().token() {
                let _nobody_listens = say(format!("leads, with fencing token {token}"));
            }
            // The work goes here, until the stop: that comes in time to finish the current step.
            leadership.until_stop().await
        });
        match term.await {
            // Stopped while it led, or before it was elected.
            Ok(Stop::Asked) | Err(mongo_lease::Error::Stopped) => break,
            Ok(_) | Err(mongo_lease::Error::Lost { .. }) => say("leads no more, and stands again")?,
            Err(error) => return Err(error.into()),
        }
    }
    leases.shutdown().await;
    say("has stopped")
}

/// A process of the election: this same program, started again. It is killed when this is dropped.
struct Node(LineProcess);

impl Node {
    fn start(server: &Server, database: &Database, name: &str) -> Result<Node> {
        let mut program = Command::new(std::env::current_exe()?);
        program.envs(NODE.into_iter().zip([server.uri(), database.name(), name]));
        Ok(Node(LineProcess::start(program)?))
    }

    async fn says(&mut self) -> Result<String> {
        Ok(self.0.line().await?)
    }

    /// Waits until it reports that it leads.
    async fn leads(&mut self) -> Result<String> {
        loop {
            let said = self.says().await?;
            if said.starts_with("leads,") {
                return Ok(said);
            }
        }
    }

    async fn tell(&mut self, order: &str) -> Result<()> {
        Ok(self.0.send(order).await?)
    }
}

fn say(what: impl std::fmt::Display) -> Result<()> {
    Ok(mongo_lease_testbed::say(what)?)
}
