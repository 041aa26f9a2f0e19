//! [`MemoryStore`]: leases in memory, for the tests of programs that use this crate.

mod hooks;
pub mod simulated;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use chrono::{DateTime, Utc};
use mongo_lease_core::rules::from_millis;
use mongo_lease_memory::{Collection, CommandKind, Leases, PromotionEvent};
use mongodb::bson::Timestamp;
use tokio::sync::{Notify, Semaphore, oneshot};

use crate::clock::{Clock, MemoryClock};
use crate::lock::Lock;
use crate::token::Token;
use simulated::SimulatedProcess;

/// Leases in memory instead of a database: a double for tests.
///
/// [`LeaseManager::in_memory`](crate::LeaseManager::in_memory) makes managers on it, with the same waiting, renewal and
/// losses; only the commands are carried out here, by the specification that the real commands are tested against.
/// Several managers on one store behave as several processes on one database. Clones of a store are the same store.
///
/// # Time
/// The store and its managers have a clock of their own: tokio's time, and what [`advance`](MemoryStore::advance) adds.
/// So a lease of 30 s is lost in no time:
///
/// ```
/// # use std::time::Duration;
/// # use mongo_lease::{LeaseManager, LostReason, MemoryStore};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> mongo_lease::Result<()> {
/// let store = MemoryStore::new();
/// let leases = LeaseManager::in_memory(&store).build().await?;
/// let lease = leases.acquire("invoice:42").await?;
/// store.advance(Duration::from_secs(60));
/// assert!(!lease.is_valid());
/// assert!(matches!(lease.lost().await, LostReason::NotRenewed { .. }));
/// # Ok(())
/// # }
/// ```
///
/// With a paused tokio clock (`#[tokio::test(start_paused = true)]`), waiting takes no time either, and renewals and
/// heartbeats happen when they are due. A paused clock belongs to one runtime: use the store and its leases in that
/// runtime alone. Timers of your own follow tokio's clock, and `advance` does not move them.
///
/// # What it is not
/// It has no transactions: [`Lease::transaction`](crate::Lease::transaction) fails with
/// [`Error::Unsupported`](crate::Error::Unsupported). It shows nothing of a server's speed, indexes, privileges,
/// failovers, or of documents that another program writes. For these, test with a real server.
#[derive(Clone)]
pub struct MemoryStore {
    shared: Arc<Inner>,
    faults: Arc<Lock<Faults>>,
    clock: MemoryClock,
    /// The process of this client, in a simulation.
    process: Option<Arc<dyn SimulatedProcess>>,
    /// The free connections of this client's pool, where it has a bound.
    pool: Option<Arc<Semaphore>>,
}

struct Inner {
    clock: MemoryClock,
    leases: Lock<Leases>,
    /// Notified of new events. It wakes the streams in the order in which they wait, as a `watch` does not.
    events: Notify,
    /// How far the store's date is ahead of the clock.
    date_ahead_ms: AtomicI64,
}

/// The troubles that a test makes: commands that fail, and a store that does not answer.
#[derive(Default)]
struct Faults {
    planned: Vec<(CommandKind, MemoryFault)>,
    hangs: usize,
    /// How many change streams were asked for.
    streams: usize,
    /// The commands that wait for the end of the last hang, in their order.
    waiting: Vec<oneshot::Sender<()>>,
}

/// A fault of one command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum MemoryFault {
    /// There is no primary at this moment. The command does nothing, and the manager sends it again.
    NoPrimary,
    /// The database refuses the command for good, as for want of a privilege. The call fails with
    /// [`Error::MongoDb`](crate::Error::MongoDb).
    Refused,
    /// The command is carried out, and its reply is lost. The manager sends it again, and finds what the first one did.
    LostReply,
}

/// A database that does not answer. Dropping this ends it. See [`MemoryStore::hang`].
#[must_use = "the store answers again when this is dropped"]
pub struct MemoryHang {
    store: MemoryStore,
}

impl MemoryStore {
    /// A store without leases, whose clock shows the machine's date.
    #[must_use]
    pub fn new() -> MemoryStore {
        MemoryStore::on(MemoryClock::new())
    }

    fn on(clock: MemoryClock) -> MemoryStore {
        let leases = Lock::new(Leases::new(clock.date_ms()));
        let (events, date_ahead_ms) = (Notify::new(), AtomicI64::new(0));
        let shared = Arc::new(Inner { clock: clock.clone(), leases, events, date_ahead_ms });
        MemoryStore { shared, faults: Arc::default(), clock, process: None, pool: None }
    }

    /// Another client of the same leases, with the same clock: its hangs and its faults are its own. So one of two
    /// managers can be cut off from the database.
    ///
    /// ```
    /// # use mongo_lease::{LeaseManager, MemoryStore};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> mongo_lease::Result<()> {
    /// let store = MemoryStore::new();
    /// let network = store.client();
    /// let cut_off = LeaseManager::in_memory(&network).build().await?;
    /// let other = LeaseManager::in_memory(&store).build().await?;
    /// let lease = cut_off.acquire("invoice:42").await?;
    /// let _hang = network.hang();
    /// store.advance(std::time::Duration::from_secs(60));
    /// assert!(!lease.is_valid());
    /// assert!(other.try_acquire("invoice:42").await?.is_granted());
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn client(&self) -> MemoryStore {
        MemoryStore { faults: Arc::default(), ..self.clone() }
    }

    /// The date by the store's clock, as `expires_at` and `acquired_at` have it.
    #[must_use]
    pub fn now(&self) -> DateTime<Utc> {
        DateTime::from_timestamp_millis(self.shared.date_ms()).unwrap_or_default()
    }

    /// Puts the clock of the store and of its managers forward, and wakes what waits for a time that has come.
    ///
    /// It is as if the machine had been suspended for so long: no renewal and no heartbeat happens in between, and a
    /// holder whose validity has ended has lost its lease at once. For a time in which the managers do their work, use
    /// a paused tokio clock and `tokio::time::sleep`. In all, the clock goes at most two hundred years forward.
    pub fn advance(&self, duration: Duration) {
        self.shared.clock.advance(duration);
    }

    /// From now on the database does not answer the managers on this client. It answers again when the returned value
    /// is dropped, and carries out then what they sent meanwhile, on a current-thread runtime in the order of sending.
    /// Of several hangs, all have to be dropped.
    ///
    /// Calls end by their deadlines, and holders lose their leases when their time is over.
    /// [`expire`](MemoryStore::expire) and [`release`](MemoryStore::release) still work.
    pub fn hang(&self) -> MemoryHang {
        self.faults.lock().hangs += 1;
        MemoryHang { store: self.clone() }
    }

    /// Lets this happen to the next command of this kind, of any manager on this client. Further calls add up. A
    /// command may carry many calls, and the fault is for all of them. A manager sends commands of its own accord too,
    /// and sends a command again after a fault that allows it.
    pub fn fail_next(&self, command: CommandKind, fault: MemoryFault) {
        self.faults.lock().planned.push((command, fault));
    }

    /// How many planned faults no command has met yet. A command that hangs has met its fault.
    #[must_use]
    pub fn faults_left(&self) -> usize {
        self.faults.lock().planned.len()
    }

    /// Ends the time of a lease on the store alone. Returns false if no lease of this name is held, or kept by
    /// [`hold_at_least`](crate::Acquire::hold_at_least), in any collection.
    ///
    /// It is as if the server's clock had gone wrong: another call is granted the lease at once, while the old holder
    /// still believes in it, until its next renewal. If nobody has taken the lease by then, that renewal prolongs it.
    /// The first waiter is told, by the change stream. Use it to test what tokens are for.
    pub fn expire(&self, name: &str) -> bool {
        self.in_each_collection(name, |collection| collection.expire(name))
    }

    /// Releases a lease in place of its holder, as an operator does, in every collection. Returns false if no lease of
    /// this name is held, or kept by `hold_at_least`. The holder learns of it by its next renewal.
    pub fn release(&self, name: &str) -> bool {
        self.in_each_collection(name, |collection| collection.release(name))
    }

    /// How many leases are held, kept by [`hold_at_least`](crate::Acquire::hold_at_least), or waited for.
    #[doc(hidden)]
    #[must_use]
    pub fn leases_in_use(&self) -> usize {
        self.shared.leases.lock().in_use(self.shared.date_ms())
    }

    fn in_each_collection(&self, name: &str, change: impl Fn(&mut Collection<'_>) -> bool) -> bool {
        let collections = self.shared.leases.lock().collections_with(name);
        let is_changed = |collection: &&String| self.with_collection(collection, &change);
        collections.iter().filter(is_changed).count() > 0
    }

    pub(crate) fn clock(&self) -> &MemoryClock {
        &self.clock
    }

    /// Waits while the store hangs.
    pub(crate) async fn until_it_answers(&self) {
        let answered = {
            let mut faults = self.faults.lock();
            if faults.hangs == 0 {
                return;
            }
            let (sender, receiver) = oneshot::channel();
            faults.waiting.push(sender);
            receiver
        };
        // The sender is used or kept.
        let _ = answered.await;
    }

    /// The fault that is planned for a command of this kind. It happens once.
    pub(crate) fn take_fault(&self, command: Option<CommandKind>) -> Option<MemoryFault> {
        let (command, mut faults) = (command?, self.faults.lock());
        let place = faults.planned.iter().position(|&(planned, _)| planned == command)?;
        Some(faults.planned.remove(place).1)
    }

    /// Carries a command out, and tells the streams of it.
    pub(crate) fn with_collection<R>(
        &self,
        name: &str,
        command: impl FnOnce(&mut Collection<'_>) -> R,
    ) -> R {
        let mut leases = self.shared.leases.lock();
        let before = leases.next_event();
        let answer = command(&mut leases.collection(name, self.shared.date_ms()));
        let has_news = leases.next_event() != before;
        drop(leases);
        if has_news {
            self.shared.events.notify_waiters();
        }
        answer
    }

    /// Carries a read out, which shows what a majority has.
    pub(crate) fn read_collection<R>(
        &self,
        name: &str,
        read: impl FnOnce(&mut Collection<'_>) -> R,
    ) -> R {
        let mut leases = self.shared.leases.lock();
        let mut collection = leases.collection(name, self.shared.date_ms());
        collection.read_majority();
        read(&mut collection)
    }

    /// Waits until a majority has all writes up to this time.
    pub(crate) async fn until_majority_has(&self, at: Timestamp) {
        loop {
            let due_ms = self.majority_at(|leases| leases.majority_has_at(at));
            let Some(due_ms) = due_ms else { return };
            self.until_date(due_ms).await;
        }
    }

    fn majority_at(&self, of: impl FnOnce(&Leases) -> Option<i64>) -> Option<i64> {
        let mut leases = self.shared.leases.lock();
        leases.catch_up(self.shared.date_ms());
        of(&leases)
    }

    async fn until_date(&self, date_ms: i64) {
        let left = from_millis(date_ms.saturating_sub(self.shared.date_ms()));
        let clock = Clock::from(self.clock.clone());
        clock.sleep(left.max(Duration::from_millis(1))).await;
    }

    /// The number of the first event at or after this time; without a time, of the next event.
    pub(crate) fn first_event_since(&self, since: Option<Token>) -> u64 {
        self.shared.leases.lock().first_event_since(since.map(Timestamp::from))
    }

    /// Waits for the event with this number. Returns the number of the event after it, too.
    pub(crate) async fn event(&self, number: u64) -> (u64, PromotionEvent) {
        loop {
            // Waits from here on: no event comes in between.
            let news = self.shared.events.notified();
            let majority_at = self.majority_at(Leases::next_majority_at);
            if let Some((number, event)) = self.shared.leases.lock().event(number) {
                return (number + 1, event.clone());
            }
            match majority_at {
                // The event may be one that a late majority lacks.
                Some(date_ms) => tokio::select! {
                    biased;
                    () = news => {}
                    () = self.until_date(date_ms) => {}
                },
                None => news.await,
            }
        }
    }
}

impl Inner {
    /// The store's date, in milliseconds since 1970.
    fn date_ms(&self) -> i64 {
        self.clock.date_ms().saturating_add(self.date_ahead_ms.load(Ordering::Relaxed))
    }
}

impl Default for MemoryStore {
    fn default() -> MemoryStore {
        MemoryStore::new()
    }
}

impl Drop for MemoryHang {
    /// Ends one hang. After the last one, the commands that waited go on in their order.
    fn drop(&mut self) {
        let mut faults = self.store.faults.lock();
        faults.hangs = faults.hangs.saturating_sub(1);
        if faults.hangs > 0 {
            return;
        }
        let waiting = std::mem::take(&mut faults.waiting);
        drop(faults);
        for command in waiting {
            // The command's task may have ended with its runtime.
            let _ = command.send(());
        }
    }
}

impl fmt::Debug for MemoryStore {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("MemoryStore").field("now", &self.now()).finish_non_exhaustive()
    }
}

impl fmt::Debug for MemoryHang {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("MemoryHang").finish_non_exhaustive()
    }
}
