//! [`MemoryStore`]: leases in memory, for the tests of programs that use this crate.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use mongo_lease_core::memory::{Collection, Leases, MemoryCommand, PromotionEvent};
use mongodb::bson::Timestamp;
use tokio::sync::{oneshot, watch};

use crate::clock::MemoryClock;
use crate::lock::Lock;
use crate::token::Token;

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
/// assert_eq!(lease.lost().await, LostReason::NotRenewed);
/// # Ok(())
/// # }
/// ```
///
/// With a paused tokio clock (`#[tokio::test(start_paused = true)]`), waiting takes no time either, and renewals and
/// heartbeats happen when they are due. A paused clock belongs to one runtime: use the store and its leases in that
/// runtime alone. Timers of your own follow tokio's clock, and `advance` does not move them.
///
/// # What it is not
/// It has no transactions: [`Lease::guard`](crate::Lease::guard) fails with
/// [`Error::Unsupported`](crate::Error::Unsupported). It shows nothing of a server's speed, indexes, privileges,
/// failovers, or of documents that another program writes. For these, test with a real server.
#[derive(Clone)]
pub struct MemoryStore {
    shared: Arc<Inner>,
    faults: Arc<Lock<Faults>>,
}

struct Inner {
    clock: MemoryClock,
    leases: Lock<Leases>,
    /// The number of the next event.
    events: watch::Sender<u64>,
}

/// The troubles that a test makes: commands that fail, and a store that does not answer.
#[derive(Default)]
struct Faults {
    planned: Vec<(MemoryCommand, MemoryFault)>,
    hangs: usize,
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
        let clock = MemoryClock::new();
        let leases = Lock::new(Leases::new(clock.date_ms()));
        let events = watch::Sender::new(0);
        let shared = Arc::new(Inner { clock, leases, events });
        MemoryStore { shared, faults: Arc::default() }
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
        MemoryStore { shared: Arc::clone(&self.shared), faults: Arc::default() }
    }

    /// The date by the store's clock, as `expires_at` and `acquired_at` have it.
    #[must_use]
    pub fn now(&self) -> DateTime<Utc> {
        DateTime::from_timestamp_millis(self.shared.clock.date_ms()).unwrap_or_default()
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
    pub fn fail_next(&self, command: MemoryCommand, fault: MemoryFault) {
        self.faults.lock().planned.push((command, fault));
    }

    /// Carries the next command of this kind out, and loses its reply: as
    /// [`fail_next`](MemoryStore::fail_next) with [`MemoryFault::LostReply`].
    pub fn lose_reply(&self, command: MemoryCommand) {
        self.fail_next(command, MemoryFault::LostReply);
    }

    /// How many planned faults no command has met yet. A command that hangs has met its fault.
    #[must_use]
    pub fn faults_left(&self) -> usize {
        self.faults.lock().planned.len()
    }

    /// Forgets the planned faults that have not happened yet.
    pub fn clear_faults(&self) {
        self.faults.lock().planned.clear();
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
    #[must_use]
    pub fn leases_in_use(&self) -> usize {
        self.shared.leases.lock().in_use(self.shared.clock.date_ms())
    }

    fn in_each_collection(&self, name: &str, change: impl Fn(&mut Collection<'_>) -> bool) -> bool {
        let collections = self.shared.leases.lock().collections_with(name);
        let is_changed = |collection: &&String| self.with_collection(collection, &change);
        collections.iter().filter(is_changed).count() > 0
    }

    pub(crate) fn clock(&self) -> &MemoryClock {
        &self.shared.clock
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
    pub(crate) fn take_fault(&self, command: Option<MemoryCommand>) -> Option<MemoryFault> {
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
        let answer = command(&mut leases.collection(name, self.shared.clock.date_ms()));
        let next = leases.next_event();
        drop(leases);
        self.shared.events.send_if_modified(|number| std::mem::replace(number, next) != next);
        answer
    }

    /// The number of the first event at or after this time; without a time, of the next event.
    pub(crate) fn first_event_since(&self, since: Option<Token>) -> u64 {
        self.shared.leases.lock().first_event_since(since.map(Timestamp::from))
    }

    /// Waits for the event with this number. Returns the number of the event after it, too.
    pub(crate) async fn event(&self, number: u64) -> (u64, PromotionEvent) {
        let mut events = self.shared.events.subscribe();
        loop {
            events.mark_unchanged();
            if let Some((number, event)) = self.shared.leases.lock().event(number) {
                return (number + 1, event.clone());
            }
            // The sender lives as long as this store.
            let _ = events.changed().await;
        }
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
