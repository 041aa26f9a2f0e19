//! Hand-off: from one process's call of `release` to another process's grant, beside the driver's bare delete and
//! insert in the same run.
//!
//! So many processes wait as the row says, and one more holds. Rounds of both are interleaved, and each figure is the
//! median of the rounds' ratios. Times are printed for orientation only. `cargo bench --bench handoff`; `WAITING=1,10`
//! chooses the rows.

#![allow(clippy::print_stdout, missing_docs, reason = "a benchmark's result is what it prints")]

use std::process::Stdio;
use std::time::Duration;

use mongo_lease::mongodb::bson::{Document, doc};
use mongo_lease::mongodb::options::{Acknowledgment, CollectionOptions, WriteConcern};
use mongo_lease::mongodb::{Client, Collection, Database};
use mongo_lease::{LeaseManager, Token};
use mongo_lease_testbed::{CommandCounts, Server};
use rustix::time::{ClockId, clock_gettime};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

const URI: &str = "MONGO_LEASE_HANDOFF_URI";
const DATABASE: &str = "MONGO_LEASE_HANDOFF_DATABASE";
const ROUNDS: usize = 15;
/// Hand-offs of a round that count.
const COUNTED: usize = 60;
const NAME: &str = "invoice:42";
const HOLD: Duration = Duration::from_millis(5);

#[tokio::main(flavor = "current_thread")]
async fn main() -> Outcome<()> {
    if let (Ok(uri), Ok(name)) = (std::env::var(URI), std::env::var(DATABASE)) {
        return work(&Client::with_uri_str(uri).await?.database(&name)).await;
    }
    let rows = std::env::var("WAITING").unwrap_or_else(|_| "1,10,50".to_owned());
    for waiting in rows.split(',') {
        measure(waiting.trim().parse()?).await?;
    }
    Ok(())
}

/// Nanoseconds on a clock that all processes share.
fn now() -> i64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec * 1_000_000_000 + time.tv_nsec
}

/// A worker: as many turns as it is told, and a line for each.
async fn work(database: &Database) -> Outcome<()> {
    let leases = LeaseManager::builder(database).wait(Duration::from_secs(600)).build().await?;
    println!("ready");
    while let Some(turns) = tokio::task::spawn_blocking(order).await? {
        for _ in 0..turns {
            let lease = leases.acquire(NAME).await?;
            let granted = now();
            let token = lease.token()?;
            // As long as the others need to stand in line again: else there is nobody to hand on to.
            tokio::time::sleep(HOLD).await;
            let let_go = now();
            lease.release().await?;
            println!("{token} {granted} {let_go}");
        }
        println!("done");
    }
    leases.shutdown().await;
    Ok(())
}

/// How many turns the next round has; nothing when there is none.
fn order() -> Option<usize> {
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).ok()?;
    line.trim().parse().ok()
}

struct Worker {
    _process: Child,
    orders: ChildStdin,
    lines: Lines<BufReader<ChildStdout>>,
}

/// One turn of one worker.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Turn {
    token: Token,
    worker: usize,
    granted: i64,
    let_go: i64,
}

impl Worker {
    async fn start(uri: &str, database: &str) -> Outcome<Worker> {
        let mut process = Command::new(std::env::current_exe()?)
            .env(URI, uri)
            .env(DATABASE, database)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let orders = process.stdin.take().ok_or("no input")?;
        let output = process.stdout.take().ok_or("no output")?;
        let mut lines = BufReader::new(output).lines();
        let ready = lines.next_line().await?;
        assert_eq!(ready.as_deref(), Some("ready"), "a worker has not come up");
        Ok(Worker { _process: process, orders, lines })
    }

    async fn turns(&mut self, worker: usize) -> Outcome<Vec<Turn>> {
        let mut turns = Vec::new();
        while let Some(line) = self.lines.next_line().await? {
            if line == "done" {
                return Ok(turns);
            }
            let mut parts = line.split(' ');
            let mut next = || parts.next().ok_or("a line is too short");
            let token = next()?.parse()?;
            let (granted, let_go) = (next()?.parse()?, next()?.parse()?);
            turns.push(Turn { token, worker, granted, let_go });
        }
        Err("a worker has ended".into())
    }
}

async fn measure(waiting: usize) -> Outcome<()> {
    let server = Server::start();
    let database = server.database().await;
    let leases = LeaseManager::builder(&database).ensure_indexes().await?.build().await?;
    let bare = bare_collection(&database).await?;
    let mut workers = Vec::new();
    for _ in 0..=waiting {
        workers.push(Worker::start(server.uri(), database.name()).await?);
    }
    let mut ratios = Vec::new();
    let mut times = Vec::new();
    let mut sent = None;
    let mut handed_on = 0;
    for round in 0..=ROUNDS {
        let floor = floor(&bare).await?;
        let before = server.command_counts().await;
        let (mut hand_offs, turns) = hand_offs(&leases, &mut workers, waiting).await?;
        let spent = server.command_counts().await - before;
        // The first one opens connections and streams.
        if round > 0 {
            handed_on += turns;
            sent = Some(spent);
            let median = median(&mut hand_offs);
            ratios.push(median / floor);
            times.push(median);
        }
    }
    report(waiting, &mut ratios, &mut times, sent, handed_on / ROUNDS);
    leases.shutdown().await;
    Ok(())
}

/// The hand-offs of a round, in seconds, and how many turns there were in all.
async fn hand_offs(
    leases: &LeaseManager,
    workers: &mut [Worker],
    waiting: usize,
) -> Outcome<(Vec<f64>, usize)> {
    // Everybody stands in line before it begins.
    let lease = leases.acquire(NAME).await?;
    let turns = COUNTED.div_ceil(workers.len()) + 2;
    for worker in workers.iter_mut() {
        worker.orders.write_all(format!("{turns}\n").as_bytes()).await?;
    }
    while leases.get(NAME).await?.is_none_or(|info| info.waiting as usize <= waiting) {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    lease.release().await?;
    let mut all = Vec::new();
    for (number, worker) in workers.iter_mut().enumerate() {
        all.extend(worker.turns(number).await?);
    }
    all.sort_unstable();
    let counted = all.len() - workers.len();
    let between = |pair: &[Turn]| seconds(pair[1].granted - pair[0].let_go);
    let from_others = all[..counted].windows(2).filter(|pair| pair[0].worker != pair[1].worker);
    Ok((from_others.map(between).collect(), all.len()))
}

async fn bare_collection(database: &Database) -> Outcome<Collection<Document>> {
    LeaseManager::builder(database).collection("bare").ensure_indexes().await?;
    let majority = WriteConcern::builder().w(Acknowledgment::Majority).journal(true).build();
    let options = CollectionOptions::builder().write_concern(majority).build();
    Ok(database.collection_with_options("bare", options))
}

/// One bare delete and insert, in seconds: the median of a round.
async fn floor(bare: &Collection<Document>) -> Outcome<f64> {
    let mut times = Vec::new();
    bare.insert_one(doc! { "name": NAME, "value": "a" }).await?;
    for _ in 0..COUNTED {
        let started = now();
        bare.delete_one(doc! { "name": NAME, "value": "a" }).await?;
        bare.insert_one(doc! { "name": NAME, "value": "a" }).await?;
        times.push(seconds(now() - started));
    }
    bare.delete_one(doc! { "name": NAME }).await?;
    Ok(median(&mut times))
}

fn seconds(nanos: i64) -> f64 {
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(0)).as_secs_f64()
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

fn report(
    waiting: usize,
    ratios: &mut [f64],
    times: &mut [f64],
    sent: Option<CommandCounts>,
    turns: usize,
) {
    let ratio = median(ratios);
    let (least, most) = (ratios[0], ratios[ratios.len() - 1]);
    let time = median(times) * 1e3;
    println!(
        "{waiting:>3} waiting: {ratio:.2} x a bare delete + insert \
         ({least:.2} to {most:.2}), {time:.2} ms"
    );
    if let Some(sent) = sent {
        println!("    the commands of a round of {turns} turns: {sent:?}");
    }
}
