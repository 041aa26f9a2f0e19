//! Worker processes that hold and wait. They carry out orders, a line each, and answer in lines.

use std::process::Stdio;
use std::time::Duration;

use mongo_lease::mongodb::Client;
use mongo_lease::{Error, LeaseManager, Token};
use rustix::time::{ClockId, clock_gettime};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use crate::Outcome;
use crate::cases::memory;

const URI: &str = "MONGO_LEASE_BENCHES_URI";
const DATABASE: &str = "MONGO_LEASE_BENCHES_DATABASE";

/// The lease that is handed off.
pub(crate) const NAME: &str = "invoice:42";
/// As long as the others need to join the queue again: else there would be no waiter to hand off to.
const HOLD: Duration = Duration::from_millis(5);

/// Nanoseconds on a clock that all processes share.
pub(crate) fn now() -> i64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec * 1_000_000_000 + time.tv_nsec
}

/// Whether this process is a worker.
pub(crate) fn is_one() -> bool {
    std::env::var_os(URI).is_some()
}

/// Carries out orders until the input ends.
pub(crate) async fn work() -> Outcome<()> {
    let client = Client::with_uri_str(std::env::var(URI)?).await?;
    let database = client.database(&std::env::var(DATABASE)?);
    let leases = LeaseManager::builder(&database).wait(Duration::from_secs(600)).build().await?;
    println!("ready");
    let mut orders = BufReader::new(tokio::io::stdin()).lines();
    while let Some(order) = orders.next_line().await? {
        match order.split_once(' ') {
            Some(("turns", turns)) => take_turns(&leases, turns.parse()?).await?,
            Some(("wait", millis)) => wait(&leases, Duration::from_millis(millis.parse()?)).await?,
            Some(("hold", count)) => {
                println!("{}", memory::of_holding(&leases, count.parse()?).await?);
            }
            Some(("queue", count)) => {
                println!("{}", memory::of_waiting(&leases, count.parse()?).await?);
            }
            Some(_) | None => return Err(format!("not an order: {order}").into()),
        }
        println!("done");
    }
    leases.shutdown().await;
    Ok(())
}

async fn take_turns(leases: &LeaseManager, turns: usize) -> Outcome<()> {
    for _ in 0..turns {
        let lease = leases.acquire(NAME).await?;
        let granted = now();
        let token = lease.token()?;
        tokio::time::sleep(HOLD).await;
        let let_go = now();
        lease.release().await?;
        println!("{token} {granted} {let_go}");
    }
    Ok(())
}

/// Waits for the lease in vain.
async fn wait(leases: &LeaseManager, time: Duration) -> Outcome<()> {
    match leases.acquire(NAME).wait(time).await {
        Err(Error::WaitTimeout { .. }) => Ok(()),
        Err(error) => Err(error.into()),
        Ok(_) => Err("granted what is held".into()),
    }
}

/// The controlling side of a worker.
pub(crate) struct Worker {
    _process: Child,
    orders: ChildStdin,
    lines: Lines<BufReader<ChildStdout>>,
}

/// One hold of one worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Turn {
    pub(crate) token: Token,
    pub(crate) worker: usize,
    pub(crate) granted: i64,
    pub(crate) let_go: i64,
}

impl Worker {
    pub(crate) async fn start(uri: &str, database: &str) -> Outcome<Worker> {
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
        match lines.next_line().await?.as_deref() {
            Some("ready") => Ok(Worker { _process: process, orders, lines }),
            other => Err(format!("a worker has not come up: {other:?}").into()),
        }
    }

    /// Starts several, one after the other.
    pub(crate) async fn start_all(count: usize, uri: &str, database: &str) -> Outcome<Vec<Worker>> {
        let mut workers = Vec::new();
        for _ in 0..count {
            workers.push(Worker::start(uri, database).await?);
        }
        Ok(workers)
    }

    pub(crate) async fn order(&mut self, order: &str) -> Outcome<()> {
        Ok(self.orders.write_all(format!("{order}\n").as_bytes()).await?)
    }

    /// The number in its answer.
    pub(crate) async fn number(&mut self) -> Outcome<usize> {
        Ok(self.lines.next_line().await?.ok_or("a worker has ended")?.parse()?)
    }

    /// The turns until it has carried out its order.
    pub(crate) async fn turns(&mut self, worker: usize) -> Outcome<Vec<Turn>> {
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

/// Returns when that many entries are in the queue.
pub(crate) async fn until_waiting(leases: &LeaseManager, waiting: usize) -> Outcome<()> {
    const LOOK_EVERY: Duration = Duration::from_millis(5);
    let enough = u32::try_from(waiting)?;
    while leases.get(NAME).await?.is_none_or(|info| info.waiting < enough) {
        tokio::time::sleep(LOOK_EVERY).await;
    }
    Ok(())
}
