//! Two machines schedule the same job: one runs it, the other skips it.
//!
//! When the machine that runs the job crashes, the other one runs it at the next start.
//!
//! `cargo run --example scheduled_job` starts its own MongoDB server and removes it at the end. With `MONGODB_URI` set,
//! it uses that server, in its own database, which it drops. The two machines are processes of this same program. They
//! start the job on command, where a scheduler would do so at two o'clock.

#![allow(clippy::print_stdout, reason = "an example talks to a person")]

use std::error::Error;
use std::process::Command;
use std::time::{Duration, Instant};

use mongo_lease::mongodb::{Client, Database};
use mongo_lease::{LeaseInfo, LeaseManager, Run, ScheduledJob};
use mongo_lease_testbed::{LineProcess, Server, orders};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Set in the processes that play the machines: the database, and their name.
const MACHINE: [&str; 3] = ["SCHEDULED_JOB_URI", "SCHEDULED_JOB_DATABASE", "SCHEDULED_JOB_MACHINE"];

#[tokio::main]
async fn main() -> Result<()> {
    if let [Ok(uri), Ok(database), Ok(name)] = MACHINE.map(std::env::var) {
        return machine(&Client::with_uri_str(uri).await?.database(&database), &name).await;
    }
    let server = &Server::from_env("MONGODB_URI").unwrap_or_else(Server::start);
    let database = server.database().await;
    // In production: `mongo-lease-migrate up`, once.
    LeaseManager::builder(&database).ensure_indexes(true).build().await?;
    let mut one = Machine::start(server, &database, "one")?;
    let mut two = Machine::start(server, &database, "two")?;

    println!("It is two o'clock, on both machines.");
    one.tell("two o'clock").await?;
    println!("  Machine one {}.", one.says().await?);
    two.tell("two o'clock").await?;
    println!("  Machine two {}.", two.says().await?);
    one.tell("the work is done").await?;
    println!("  Machine one {}.", one.says().await?);
    println!("Machine two's clock is late: there it is two o'clock only now.");
    two.tell("two o'clock").await?;
    println!("  Machine two {}: the name stays taken for `at_least`.", two.says().await?);

    println!("The next day.");
    let runs = until_it_runs(&mut two).await?;
    println!("  Machine two {runs}.");
    println!("  It crashes in the middle of the work.");
    two.0.kill().await?;
    let crashed = Instant::now();
    one.tell("two o'clock").await?;
    println!("  Machine one {}.", one.says().await?);
    println!("Machine one is told again and again.");
    let runs = until_it_runs(&mut one).await?;
    let took = crashed.elapsed().as_secs_f32();
    println!("  Machine one {runs} after {took:.0} s: the ttl, and 1 s for the clocks.");
    one.tell("the work is done").await?;
    println!("  Machine one {}.", one.says().await?);

    drop((one, two));
    database.drop_database().await?;
    Ok(())
}

/// Starts the job again and again, until the machine runs it.
async fn until_it_runs(machine: &mut Machine) -> Result<String> {
    loop {
        machine.tell("two o'clock").await?;
        let said = machine.says().await?;
        if said.starts_with("runs") {
            return Ok(said);
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// One of the machines.
async fn machine(database: &Database, name: &str) -> Result<()> {
    let leases = LeaseManager::builder(database).owner(name).build().await?;
    let job = ScheduledJob::new(&leases, "job:report")
        // Longer than the difference of the machines' clocks, and shorter than the time from one start to the next.
        .at_least(Duration::from_secs(5))
        .at_most(Duration::from_secs(60))
        // Short, so that the crash is over soon. In production: 30 s, the default.
        .ttl(Duration::from_secs(3));
    let mut orders = orders();
    while let Some(_two_o_clock) = orders.recv().await {
        let run = job.run(async |lease| {
            if let Ok(token) = lease.token() {
                let _nobody_listens = say(format!("runs the job, with fencing token {token}"));
            }
            // The work goes here.
            orders.recv().await;
        });
        match run.await? {
            Run::Done(()) => say("is done")?,
            Run::Skipped(held) => {
                // A name that is only reserved has no holder's value any more.
                let is_at_work = !held.value.as_deref().is_some_and(LeaseInfo::is_tombstone_value);
                let owner = held.owner.unwrap_or_default();
                let machine = owner.split('@').next().unwrap_or_default();
                match is_at_work {
                    true => say(format!("skips it, for machine {machine} is at it"))?,
                    false => say("skips it, for it has been run")?,
                }
            }
        }
    }
    leases.shutdown().await;
    Ok(())
}

/// A process that plays a machine: this same program, started again. It is killed when this is dropped.
struct Machine(LineProcess);

impl Machine {
    fn start(server: &Server, database: &Database, name: &str) -> Result<Machine> {
        let mut program = Command::new(std::env::current_exe()?);
        program.envs(MACHINE.into_iter().zip([server.uri(), database.name(), name]));
        Ok(Machine(LineProcess::start(program)?))
    }

    async fn says(&mut self) -> Result<String> {
        Ok(self.0.line().await?)
    }

    async fn tell(&mut self, order: &str) -> Result<()> {
        Ok(self.0.send(order).await?)
    }
}

fn say(what: impl std::fmt::Display) -> Result<()> {
    Ok(mongo_lease_testbed::say(what)?)
}
