//! Worker processes that hold, wait and take pairs. They carry out orders, a line each, and answer in lines.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use futures_util::future::try_join_all;
use futures_util::stream::FuturesUnordered;
use mongo_lease::{Error, Lease, LeaseManager};
use mongo_lease_measure::host::{self, now};
use mongo_lease_measure::worker::READY;
use mongo_lease_measure::{Outcome, journalled_collection};
use mongo_lease_testbed::orders;
use tokio::sync::OnceCell;

use crate::databases::Databases;
use crate::held::{self, Names};
use crate::prolonged::Prolonged;
use crate::side::{Contender, Side, random_name};

pub(crate) const URI: &str = "MONGO_LEASE_BENCHES_URI";
/// The last line of each answer.
pub(crate) const DONE: &str = "done";

/// As long as the others need to join the queue again: else there would be no waiter to hand off to.
pub(crate) const HOLD: Duration = Duration::from_millis(5);
/// Pairs of one process under way at once: as many as a pool has connections.
const AT_ONCE_MAX: usize = 10;

/// Whether this process is one.
pub(crate) fn is_one() -> bool {
    std::env::var_os(URI).is_some()
}

/// Carries out orders until the input ends.
pub(crate) async fn work() -> Outcome<()> {
    let mut worker = Worker {
        databases: Databases::at(&std::env::var(URI)?),
        leases: OnceCell::new(),
        held: Vec::new(),
        prolonged: None,
        contender: None,
    };
    println!("{READY}");
    let mut orders = orders();
    while let Some(order) = orders.recv().await {
        let words: Vec<&str> = order.split(' ').collect();
        worker.obey(&words).await?;
        println!("{DONE}");
    }
    if let Some(leases) = worker.leases.get() {
        leases.shutdown().await;
    }
    Ok(())
}

/// The clients and the manager are made for the first order that needs them. So a worker that only the driver's orders
/// reach has no manager.
struct Worker {
    databases: Databases,
    leases: OnceCell<LeaseManager>,
    held: Vec<Lease>,
    prolonged: Option<Prolonged>,
    contender: Option<Contender>,
}

impl Worker {
    async fn obey(&mut self, words: &[&str]) -> Outcome<()> {
        match words {
            ["manage"] => self.leases().await.map(|_| ()),
            ["turns", turns, name] => {
                let leases = self.leases().await?.clone();
                tokio::spawn(take_turns(leases, turns.parse()?, (*name).to_owned())).await?
            }
            ["wait", name, time] => wait(self.leases().await?, name, millis(time)?).await,
            ["hold", names, count, ttl] => {
                let (names, count, ttl) = (Names::of_word(names)?, count.parse()?, millis(ttl)?);
                let leases = self.leases().await?;
                let (held, bytes) = held::growth_by_leases(leases, count, ttl, names).await?;
                self.held = held;
                println!("{bytes}");
                Ok(())
            }
            ["renew", time] => self.renew(millis(time)?).await,
            ["read", name, count] => self.read(name, count.parse()?).await,
            ["share", side, name, count] => {
                self.share(Side::of_word(side)?, name, count.parse()?).await
            }
            ["free"] => held::free(std::mem::take(&mut self.held)).await,
            ["insert", collection, count] => {
                let collection = journalled_collection(self.databases.plain().await?, collection);
                self.prolonged = Some(Prolonged::insert(collection, count.parse()?).await?);
                Ok(())
            }
            ["prolong", period, periods] => {
                let prolonged = self.prolonged.as_ref().ok_or("nothing to prolong")?;
                let client = prolonged.prolong(millis(period)?, periods.parse()?).await?;
                println!("{}", client.as_nanos());
                Ok(())
            }
            ["remove"] => self.prolonged.take().ok_or("nothing to remove")?.remove().await,
            ["queue", name, count] => {
                let leases = self.leases().await?;
                println!("{}", held::growth_by_waiters(leases, name, count.parse()?).await?);
                Ok(())
            }
            ["open", side, collection] => self.open(Side::of_word(side)?, collection).await,
            ["pairs", names, rate, time] => {
                self.pairs(*names == "in-order", rate.parse()?, millis(time)?).await
            }
            _ => Err(format!("not an order: {words:?}").into()),
        }
    }

    /// The manager of this process for the default collection.
    async fn leases(&self) -> Outcome<&LeaseManager> {
        const WAIT: Duration = Duration::from_secs(600);
        let build = async || -> Outcome<LeaseManager> {
            let builder = LeaseManager::builder(self.databases.by_default().await?);
            Ok(builder.wait(WAIT).build().await?)
        };
        self.leases.get_or_try_init(build).await
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
        let leases = self.leases().await?;
        let readers = (0..count).map(async |_| {
            let lease = leases.acquire(name).shared().await?;
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
            let lease = side.acquire(self.leases().await?, name).await?;
            self.held.push(lease);
        }
        Ok(())
    }

    /// Works as this side in this collection from now on.
    async fn open(&mut self, side: Side, collection: &str) -> Outcome<()> {
        if let Some(contender) = self.contender.take() {
            contender.close().await;
        }
        self.contender = Some(Contender::open(&self.databases, collection, side).await?);
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
                    under_way.push(tokio::spawn(pair(contender.clone(), name)));
                }
                Some(taken) = under_way.next() => write!(text, " {}", taken??)?,
            }
        }
        while let Some(taken) = under_way.next().await {
            write!(text, " {}", taken??)?;
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
async fn pair(contender: Contender, name: String) -> Outcome<u128> {
    let started = Instant::now();
    contender.pair(&name).await?;
    Ok(started.elapsed().as_micros())
}

async fn take_turns(leases: LeaseManager, turns: usize, name: String) -> Outcome<()> {
    for _ in 0..turns {
        let lease = leases.acquire(&name).await?;
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
