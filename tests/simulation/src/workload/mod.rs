//! The work of the processes: they acquire leases in every way, hold them, write under them, and end them in every way.

mod call;
mod hold;
mod last;
mod load;
mod others;
mod pair;
mod wish;

use std::collections::{BTreeMap, BTreeSet};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use futures_util::StreamExt;
use mongo_lease::{Error, Event, LeaseManager};
use mongo_lease_checker::history::{Ending, Letting, What};
use mongo_lease_checker::permits::Permits;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

use crate::plan::Plan;
use crate::process::{Process, spawn};
use crate::world::{World, locked, sleep_ms};
pub(crate) use call::AT_ONCE;
pub(crate) use last::{LAST, LAST_MS};
pub(crate) use load::burst;
pub(crate) use others::JOB;
use others::keeps;
pub(crate) use pair::is_far_away;
use wish::Wish;

/// The ttls of the calls, in milliseconds.
const TTLS_MS: [u64; 4] = [1_000, 2_000, 3_000, 4_000];
/// The longest pause between two calls of a task, in milliseconds.
const PAUSE_MS: u64 = 4_000;

/// The state that the tasks of one process share.
pub(crate) struct Worker {
    /// The world.
    pub(crate) world: Arc<World>,
    /// The plan of the round.
    pub(crate) plan: Arc<Plan>,
    /// The process.
    pub(crate) process: Arc<Process>,
    /// Its manager.
    pub(crate) manager: LeaseManager,
    /// The process's part of the round's seed.
    pub(crate) seed: u64,
    /// Whether its tasks have to end.
    pub(crate) ends: AtomicBool,
    /// How many calls it has made.
    pub(crate) calls: AtomicU64,
    /// The calls of a process that makes few at once, in a control.
    pub(crate) own_line: Semaphore,
    /// The first token of each lease, for a control.
    pub(crate) first_tokens: Mutex<BTreeMap<String, u64>>,
    /// The calls that hold leases.
    pub(crate) holds: Mutex<BTreeSet<String>>,
}

/// Starts the tasks of a process.
pub(crate) fn start(worker: &Arc<Worker>) -> Vec<JoinHandle<()>> {
    let (exclusive, shared) = worker.plan.tasks;
    let start = |number: usize| {
        let go_on = Arc::clone(worker).go_on(number, number >= exclusive);
        spawn(&worker.process, go_on)
    };
    let part = pair::part(&worker.process.name);
    let pair = part.map(|part| spawn(&worker.process, Arc::clone(worker).pair(part)));
    if part == Some(pair::Part::Idle) {
        return pair.into_iter().collect();
    }
    let tasks = (0..exclusive + shared).map(start);
    let keeper = keeps(&worker.process.name).then(|| Arc::clone(worker).keep());
    let keeper = keeper.map(|keep| spawn(&worker.process, keep));
    tasks.chain(keeper).chain(pair).collect()
}

impl Worker {
    async fn go_on(self: Arc<Self>, number: usize, is_shared: bool) {
        let number = u64::try_from(number).unwrap_or(0);
        let mut random = StdRng::seed_from_u64(self.seed ^ (number << 32));
        while !self.has_to_end() {
            sleep_ms(random.random_range(0..PAUSE_MS)).await;
            // Boxed: the largest of them would be in the others' way.
            match random.random_range(0..100) {
                _ if is_shared => Box::pin(self.one(&mut random, true)).await,
                0..6 => Box::pin(self.lead(&mut random)).await,
                6..12 => Box::pin(self.job(&mut random)).await,
                12..18 => Box::pin(self.all(&mut random)).await,
                _ => Box::pin(self.one(&mut random, false)).await,
            }
        }
    }

    /// One call for one lease.
    async fn one(&self, random: &mut StdRng, is_shared: bool) {
        let wish = match is_shared {
            true => Wish::shared(random),
            false => Wish::exclusive(random, self.plan.names),
        };
        let ttl_ms = ttl_ms(random);
        let style = call::Style::any(random, &wish);
        let plan = hold::Plan::any(random, ttl_ms);
        let permits = wish.permits;
        let again = wish.clone();
        let is_dropped = plan.is_dropped();
        let Some((call, lease)) = self.acquire(random, wish, ttl_ms, style, plan.renews).await
        else {
            return;
        };
        hold::hold(self, random, call, (lease, permits), plan).await;
        if is_dropped && again.may_wait && random.random_bool(0.5) {
            let once = call::Style::Once;
            let plan = hold::Plan::brief();
            if let Some((call, lease)) = self.acquire(random, again, ttl_ms, once, false).await {
                hold::hold(self, random, call, (lease, permits), plan).await;
            }
        }
    }

    /// Notes what its manager says of its change stream.
    pub(crate) async fn hear_of_the_stream(self: Arc<Self>) {
        let mut events = pin!(self.manager.events());
        while let Some(event) = events.next().await {
            let is_open = matches!(event, Event::Watching);
            if is_open || matches!(event, Event::Polling { .. } | Event::Missed(_)) {
                let is_known = !matches!(event, Event::Missed(_));
                self.world.watches(&self.process.name, is_known.then_some(is_open));
            }
        }
    }

    /// Notes that no holder believes from here on: a shutdown releases under them.
    pub(crate) fn stop_believing(&self) {
        for call in locked(&self.holds).iter() {
            self.note(What::Releasing { call: call.clone(), how: Letting::Drop });
        }
    }

    fn has_to_end(&self) -> bool {
        self.ends.load(Ordering::Relaxed)
    }

    /// The id of a new call.
    fn new_call(&self) -> String {
        let number = self.calls.fetch_add(1, Ordering::Relaxed);
        format!("{}/{number}", self.process.name)
    }

    fn note(&self, what: What) {
        self.world.note(&self.process.name, what);
    }

    fn invoked(&self, call: &str, name: &str, ttl_ms: u64, wait_ms: Option<u64>, permits: Permits) {
        let (call, name) = (call.to_owned(), name.to_owned());
        self.note(What::Invoked { call, name, ttl_ms, wait_ms, permits });
    }

    fn ended(&self, call: &str, how: Ending, text: String) {
        self.note(What::Ended { call: call.to_owned(), how, text });
    }

    fn failed(&self, call: &str, error: &Error) {
        self.ended(call, ending_of(error), error.to_string());
    }
}

fn ttl_ms(random: &mut StdRng) -> u64 {
    TTLS_MS[random.random_range(0..TTLS_MS.len())]
}

fn ending_of(error: &Error) -> Ending {
    if let Error::WaitTimeout { source, .. } = error {
        let is_silent = source.is_some();
        return if is_silent { Ending::TimedOutUnknown } else { Ending::TimedOut };
    }
    if matches!(error, Error::Busy(_)) {
        Ending::Busy
    } else if matches!(error, Error::Unknown { .. }) {
        Ending::Unknown
    } else {
        Ending::Failed
    }
}
