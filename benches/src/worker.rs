//! Worker processes that hold, wait and take pairs. They carry out orders, a line each, and answer in lines.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use futures_util::future::try_join_all;
use futures_util::stream::FuturesUnordered;
use mongo_lease::mongodb::{Client, Database};
use mongo_lease::{Error, Lease, LeaseManager};
use mongo_lease_measure::Outcome;
use mongo_lease_measure::host::{self, now};
use mongo_lease_measure::worker::READY;
use mongo_lease_testbed::orders;

use crate::held;
use crate::side::{Contender, Side, random_name};

pub(crate) const URI: &str = "MONGO_LEASE_BENCHES_URI";
pub(crate) const DATABASE: &str = "MONGO_LEASE_BENCHES_DATABASE";
/// The last line of each answer.
pub(crate) const DONE: &str = "done";

/// As long as the others need to join the queue again: else there would be no waiter to hand off to.
const HOLD: Duration = Duration::from_millis(5);
/// Pairs of one process under way at once: as many as a pool has connections.
const AT_ONCE_MAX: usize = 10;

/// Whether this process is one.
pub(crate) fn is_one() -> bool {
    std::env::var_os(URI).is_some()
}

/// Carries out orders until the input ends.
pub(crate) async fn work() -> Outcome<()> {
    let client = Client::with_uri_str(std::env::var(URI)?).await?;
    let database = client.database(&std::env::var(DATABASE)?);
    let leases = LeaseManager::builder(&database).wait(Duration::from_secs(600)).build().await?;
    let mut worker = Worker { database, leases, held: Vec::new(), contender: None };
    println!("{READY}");
    let mut orders = orders();
    while let Some(order) = orders.recv().await {
        let words: Vec<&str> = order.split(' ').collect();
        worker.obey(&words).await?;
        println!("{DONE}");
    }
    worker.leases.shutdown().await;
    Ok(())
}

struct Worker {
    database: Database,
    leases: LeaseManager,
    held: Vec<Lease>,
    contender: Option<Contender>,
}

impl Worker {
    async fn obey(&mut self, words: &[&str]) -> Outcome<()> {
        match words {
            ["turns", turns, name] => take_turns(&self.leases, turns.parse()?, name).await,
            ["wait", name, time] => wait(&self.leases, name, millis(time)?).await,
            ["hold", count, ttl] => {
                let count = count.parse()?;
                let grown = held::growth_by_leases(&self.leases, count, millis(ttl)?).await?;
                self.held = grown.0;
                println!("{}", grown.1);
                Ok(())
            }
            ["renew", time] => self.renew(millis(time)?).await,
            ["read", name, count] => self.read(name, count.parse()?).await,
            ["share", side, name, count] => {
                self.share(Side::of_word(side)?, name, count.parse()?).await
            }
            ["free"] => held::free(std::mem::take(&mut self.held)).await,
            ["queue", name, count] => {
                println!("{}", held::growth_by_waiters(&self.leases, name, count.parse()?).await?);
                Ok(())
            }
            ["open", side, collection] => self.open(Side::of_word(side)?, collection).await,
            ["pairs", names, rate, time] => {
                self.pairs(*names == "in-order", rate.parse()?, millis(time)?).await
            }
            _ => Err(format!("not an order: {words:?}").into()),
        }
    }

    /// Holds for that long, and tells the nanoseconds of this process's processor.
    async fn renew(&self, time: Duration) -> Outcome<()> {
        let before = host::own_processor_time();
        // This time is what is measured.
        tokio::time::sleep(time).await;
        println!("{}", (host::own_processor_time() - before).as_nanos());
        let lost = self.held.iter().filter(|lease| !lease.is_valid()).count();
        if lost > 0 {
            return Err(format!("{lost} of {} leases were lost", self.held.len()).into());
        }
        Ok(())
    }

    /// Waits with so many readers of a name, and holds what they get. It tells each one's token and time.
    async fn read(&mut self, name: &str, count: usize) -> Outcome<()> {
        let readers = (0..count).map(async |_| {
            let lease = self.leases.acquire(name).shared().await?;
            Ok::<_, Error>((lease, now()))
        });
        for (lease, granted) in try_join_all(readers).await? {
            println!("{} {granted} {granted}", lease.token()?);
            self.held.push(lease);
        }
        Ok(())
    }

    /// Holds so many permits of one name, or exclusive leases of as many names.
    async fn share(&mut self, side: Side, name: &str, count: usize) -> Outcome<()> {
        for number in 0..count {
            let name = if side == Side::Permit {
                name.to_owned()
            } else {
                format!("{name}:{}:{number}", std::process::id())
            };
            self.held.push(side.applied(self.leases.acquire(name)).await?);
        }
        Ok(())
    }

    /// Works as this side in this collection from now on.
    async fn open(&mut self, side: Side, collection: &str) -> Outcome<()> {
        if let Some(contender) = self.contender.take() {
            contender.close().await;
        }
        self.contender = Some(Contender::open(&self.database, collection, side).await?);
        Ok(())
    }

    /// Takes so many pairs a second for that long, and tells how many microseconds each took.
    async fn pairs(&self, is_in_order: bool, rate: u32, time: Duration) -> Outcome<()> {
        let contender = self.contender.as_ref().ok_or("not opened")?;
        let period = Duration::from_secs(1) / rate;
        // At a moment of its own in each period: processes that are told at once do not come at once.
        let first = tokio::time::Instant::now() + period.mul_f64(fastrand::f64());
        let mut ticks = tokio::time::interval_at(first, period);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut under_way = FuturesUnordered::new();
        let mut text = String::new();
        let started = Instant::now();
        while started.elapsed() < time {
            tokio::select! {
                _ = ticks.tick(), if under_way.len() < AT_ONCE_MAX => {
                    let name = if is_in_order { name_in_order() } else { random_name() };
                    under_way.push(pair(contender, name));
                }
                Some(taken) = under_way.next() => write!(text, " {}", taken?)?,
            }
        }
        while let Some(taken) = under_way.next().await {
            write!(text, " {}", taken?)?;
        }
        println!("{}", text.trim_start());
        Ok(())
    }
}

/// A name that sorts behind all earlier ones of all processes, which share the clock.
fn name_in_order() -> String {
    format!("order:{:020}", now())
}

/// A pair, and how many microseconds it took.
async fn pair(contender: &Contender, name: String) -> Outcome<u128> {
    let started = Instant::now();
    contender.pair(&name).await?;
    Ok(started.elapsed().as_micros())
}

async fn take_turns(leases: &LeaseManager, turns: usize, name: &str) -> Outcome<()> {
    for _ in 0..turns {
        let lease = leases.acquire(name).await?;
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
async fn wait(leases: &LeaseManager, name: &str, time: Duration) -> Outcome<()> {
    match leases.acquire(name).wait(time).await {
        Err(Error::WaitTimeout { .. }) => Ok(()),
        Err(error) => Err(error.into()),
        Ok(_) => Err("granted what is held".into()),
    }
}

fn millis(text: &str) -> Outcome<Duration> {
    Ok(Duration::from_millis(text.parse()?))
}
