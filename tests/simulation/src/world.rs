//! The world of a round, which all processes share: the store, time, the history, and the network's randomness.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use mongo_lease::MemoryStore;
use mongo_lease::simulated::SentCommand;
use mongo_lease_checker::history::{Record, What};
use mongo_lease_checker::{MILLI, Nanos, SECOND};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tokio::time::Instant;

use crate::applied::AppliedAttempts;
use crate::control::Control;
use crate::resource::Resource;
use crate::server::{Health, Server};
use crate::statements;
use crate::transactions::Transactions;

/// The server's date when a round begins, in milliseconds since 1970.
pub(crate) const DATE_MS: i64 = 1_800_000_000_000;
/// The histories' clock when a round begins. Times before the beginning are calculated too.
const AT_FIRST: Nanos = 1_000 * SECOND;
/// The collection of the leases.
pub(crate) const COLLECTION: &str = "leases";

/// When each process was told that a change stream wakes its calls, and when that they poll. `None`: it missed news.
pub type StreamNews = BTreeMap<String, Vec<(Nanos, Option<bool>)>>;

/// The world of one round.
pub(crate) struct World {
    /// The server's own handle of the store.
    pub(crate) store: MemoryStore,
    /// The server.
    pub(crate) server: Server,
    /// The fenced resource.
    pub(crate) resource: Resource,
    /// The attempts that wait for a majority.
    pub(crate) applied: AppliedAttempts,
    /// The transactions under leases.
    pub(crate) transactions: Transactions,
    /// Held while the writes are such that will be undone.
    pub(crate) roll_back: tokio::sync::Mutex<()>,
    /// The deliberate mistake of the round.
    pub(crate) control: Option<&'static Control>,
    started: Instant,
    history: Mutex<Vec<Record>>,
    random: Mutex<StdRng>,
    /// The calls whose leases renew themselves.
    renewing: Mutex<BTreeSet<String>>,
    /// The slow attempts that have ended.
    attempts: Mutex<Vec<(String, Nanos, Nanos)>>,
    /// The calls that ask for several leases, and wait for one of them at a time, or that are not polled for a while.
    excused: Mutex<BTreeSet<String>>,
    /// The news of their change streams that the processes got.
    streams: Mutex<StreamNews>,
}

impl World {
    /// A world without processes. Its runtime's clock is paused.
    pub(crate) fn new(seed: u64, control: Option<&'static Control>) -> Arc<World> {
        Arc::new(World {
            store: MemoryStore::simulated(DATE_MS, seed),
            server: Server::default(),
            resource: Resource::new(control),
            applied: AppliedAttempts::default(),
            transactions: Transactions::default(),
            roll_back: tokio::sync::Mutex::default(),
            control,
            started: Instant::now(),
            history: Mutex::default(),
            renewing: Mutex::default(),
            attempts: Mutex::default(),
            excused: Mutex::default(),
            streams: Mutex::default(),
            random: Mutex::new(StdRng::seed_from_u64(seed ^ 0x006e_6574_776f_726b)),
        })
    }

    /// Whether this is the round's deliberate mistake.
    pub(crate) fn is(&self, control: &str) -> bool {
        self.control.is_some_and(|it| it.name == control)
    }

    /// Changes what ails the server.
    pub(crate) fn change_server(&self, change: impl FnOnce(&mut Health)) {
        self.server.change(change);
        self.applied.forget();
    }

    /// The server carries a command out by its date of so long ago, with the mistake of the round.
    pub(crate) fn carry_out(&self, command: &mut dyn SentCommand, waited: Duration) {
        let waited_ms = i64::try_from(waited.as_millis()).unwrap_or(0);
        self.store.in_the_past(waited_ms, || match self.control {
            Some(control) => control.carry_out(self, command),
            None => command.carry_out(),
        });
    }

    /// The server is interrupted in a command: it carries all of it out, or its first statements, or nothing.
    ///
    /// In one control it goes on with the others later.
    pub(crate) fn carry_out_first(
        self: &Arc<Self>,
        command: &mut dyn SentCommand,
        waited: Duration,
    ) {
        let count = statements::count(command);
        let done = match self.random(0..100) {
            0..25 => count,
            25..60 => usize::try_from(self.random(0..count as u64)).unwrap_or(0),
            _ => 0,
        };
        if done > 0 {
            self.carry_out(&mut *statements::part(command, 0..done), waited);
        }
        if self.is("cut-off-goes-on") && done < count {
            let (mut rest, world) = (statements::part(command, done..count), Arc::clone(self));
            tokio::spawn(async move {
                sleep_ms(world.random(0..1_500)).await;
                world.carry_out(&mut *rest, Duration::ZERO);
            });
        }
    }

    /// Now, by the histories' clock.
    pub(crate) fn now(&self) -> Nanos {
        AT_FIRST + u64::try_from(self.started.elapsed().as_nanos()).unwrap_or(Nanos::MAX / 2)
    }

    /// Now, in milliseconds of the round.
    pub(crate) fn elapsed_ms(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// How far the server's date is ahead of the histories' clock, without what the faults add.
    pub(crate) fn wall_ahead() -> Nanos {
        DATE_MS.unsigned_abs() * MILLI - AT_FIRST
    }

    /// The time of the server's newest reply.
    pub(crate) fn newest_token(&self) -> u64 {
        let at = self.store.on_server(COLLECTION, |leases| leases.operation_time());
        u64::from(at.time) << 32 | u64::from(at.increment)
    }

    /// Notes an event of a process, now.
    pub(crate) fn note(&self, by: &str, what: What) {
        let record = Record { at: self.now(), by: by.to_owned(), what };
        locked(&self.history).push(record);
    }

    /// The history so far. It is empty then.
    pub(crate) fn take_history(&self) -> Vec<Record> {
        std::mem::take(&mut locked(&self.history))
    }

    /// Notes that the lease of this call will renew itself.
    pub(crate) fn renews(&self, call: &str) {
        locked(&self.renewing).insert(call.to_owned());
    }

    /// The calls whose leases renew themselves.
    pub(crate) fn take_renewing(&self) -> BTreeSet<String> {
        std::mem::take(&mut *locked(&self.renewing))
    }

    /// Notes an attempt of this call that was sent then, and whose end its process has heard of now.
    pub(crate) fn attempted(&self, call: String, sent: Nanos) {
        locked(&self.attempts).push((call, sent, self.now()));
    }

    /// The slow attempts that have ended.
    pub(crate) fn take_attempts(&self) -> Vec<(String, Nanos, Nanos)> {
        std::mem::take(&mut locked(&self.attempts))
    }

    /// Notes that this call asks for one of several leases, for which it may not wait, or is not polled for a while.
    pub(crate) fn excuse(&self, call: &str) {
        locked(&self.excused).insert(call.to_owned());
    }

    /// The calls that [`World::excuse`] has noted.
    pub(crate) fn take_excused(&self) -> BTreeSet<String> {
        std::mem::take(&mut *locked(&self.excused))
    }

    /// Notes that this process was told that a change stream wakes its calls, or that they poll, or has missed news.
    pub(crate) fn watches(&self, process: &str, is_open: Option<bool>) {
        let at = self.now();
        locked(&self.streams).entry(process.to_owned()).or_default().push((at, is_open));
    }

    /// The news that [`World::watches`] has noted.
    pub(crate) fn take_streams(&self) -> StreamNews {
        std::mem::take(&mut *locked(&self.streams))
    }

    /// One of the network's random numbers, of a half-open range.
    pub(crate) fn random(&self, range: std::ops::Range<u64>) -> u64 {
        if range.is_empty() { range.start } else { locked(&self.random).random_range(range) }
    }

    /// Whether a thing happens that happens in so many of a hundred cases.
    pub(crate) fn happens(&self, percent: u64) -> bool {
        percent > 0 && self.random(0..100) < percent
    }
}

/// Waits for so long. A timer takes whole milliseconds, and none takes no timer.
pub(crate) async fn sleep_ms(millis: u64) {
    if millis > 0 {
        tokio::time::sleep(Duration::from_millis(millis)).await;
    }
}

/// The lock's content: nothing here panics with it.
pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
