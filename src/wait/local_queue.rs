//! The local queues of one process: its waiters for each lease, in order.
//!
//! One waiter of a local queue at a time is active, and it alone sends commands: together they share one queue entry on
//! the server. When the active waiter gives up, the next one inherits the entry.
//!
//! Calls for permits have queues of their own, in which several are active, each with an entry of its own: with one
//! entry, a process would have one of its readers admitted between two writers. They inherit nothing. The first of them
//! leads: it rechecks the lease for all. Invariants:
//!
//! 1. Waiters become active in the order of their calls.
//! 2. An inherited entry is taken over by the next call, or removed from the queue if no call is left.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

use crate::info::LeaseInfo;
use crate::rules::permits::Permits;
use crate::rules::waiter::Waiter;
use crate::wait::waiters::WaiterGuard;

/// The local queues of one manager.
#[derive(Clone, Default)]
pub(crate) struct LocalQueues {
    queues: Arc<Mutex<HashMap<QueueKey, LocalQueue>>>,
}

/// The lease's name, and how many calls are active.
type QueueKey = (Arc<str>, u32);

struct LocalQueue {
    turn: Arc<Semaphore>,
    tickets: usize,
    /// The active calls, where there may be several.
    active: Option<ActiveCalls>,
    inherited: Option<InheritedEntry>,
    /// The newest state of the lease that the server sent.
    seen: Option<Arc<LeaseInfo>>,
}

impl LocalQueue {
    /// A queue without calls, of which so many will be active.
    fn new(turns: u32) -> LocalQueue {
        let turns = usize::try_from(turns).unwrap_or(usize::MAX);
        let turn = Arc::new(Semaphore::new(turns));
        let active = (turns > 1).then(ActiveCalls::default);
        LocalQueue { turn, tickets: 0, active, inherited: None, seen: None }
    }
}

/// The active calls of a local queue.
#[derive(Default)]
struct ActiveCalls {
    /// Their numbers, in the order in which they became active.
    numbers: BTreeSet<u64>,
    next_number: u64,
    /// Notified when the first call has gone.
    first_has_gone: Arc<Notify>,
}

impl ActiveCalls {
    /// Adds a call, and returns its number.
    fn add(&mut self) -> u64 {
        let number = self.next_number;
        self.next_number += 1;
        self.numbers.insert(number);
        number
    }

    fn remove(&mut self, number: u64) {
        let was_first = self.numbers.first() == Some(&number);
        self.numbers.remove(&number);
        if was_first {
            self.first_has_gone.notify_waiters();
        }
    }
}

/// The queue entry of a call that has given up.
pub(crate) struct InheritedEntry {
    pub(crate) slot: WaiterGuard,
    pub(crate) waiter: Waiter,
}

impl InheritedEntry {
    /// The server has assigned the entry to another call.
    pub(crate) fn confirm(self) {
        self.slot.call().succeeded();
    }
}

impl Drop for InheritedEntry {
    fn drop(&mut self) {
        // Has no effect after `confirm`.
        self.slot.call().abandon();
    }
}

/// The place of one call in a local queue.
pub(crate) struct Ticket {
    queues: LocalQueues,
    /// Its name is shared by the calls of this queue.
    key: QueueKey,
    turn: Option<OwnedSemaphorePermit>,
    /// Its number among the active calls, if there may be several.
    number: Option<u64>,
}

impl LocalQueues {
    /// Joins the end of the local queue of the calls that ask for these permits.
    pub(crate) fn join(&self, name: &str, permits: Permits) -> Ticket {
        let new = (Arc::from(name), permits.active_calls());
        let mut queues = self.lock();
        let key = match queues.get_key_value(&new) {
            Some((key, _)) => key.clone(),
            None => new,
        };
        let queue = queues.entry(key.clone()).or_insert_with(|| LocalQueue::new(key.1));
        queue.tickets += 1;
        drop(queues);
        Ticket { queues: self.clone(), key, turn: None, number: None }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<QueueKey, LocalQueue>> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Ticket {
    /// Waits until this call is active, and returns the entry that it inherits.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the call loses its place in the local queue. Nothing else changes.
    pub(crate) async fn turn(&mut self) -> Option<InheritedEntry> {
        let turn = self.with(|queue| Arc::clone(&queue.turn))?;
        // The semaphore is never closed.
        self.turn = turn.acquire_owned().await.ok();
        let begun = |queue: &mut LocalQueue| {
            (queue.active.as_mut().map(ActiveCalls::add), queue.inherited.take())
        };
        let (number, inherited) = self.with(begun)?;
        self.number = number;
        inherited
    }

    /// How many active calls are before this one. 0 for the one that leads.
    pub(crate) fn led_by(&self) -> u32 {
        let Some(number) = self.number else {
            return 0;
        };
        let before = self.with_active(|active| active.numbers.range(..number).count());
        u32::try_from(before.unwrap_or(0)).unwrap_or(u32::MAX)
    }

    /// Waits until this call leads.
    pub(crate) async fn leads(&self) {
        while let Some(gone) = self.with_active(|active| Arc::clone(&active.first_has_gone)) {
            let gone = gone.notified();
            if self.led_by() == 0 {
                return;
            }
            gone.await;
        }
    }

    /// Passes a queue entry on to the next call. If there is none, the entry is given up with the local queue.
    pub(crate) fn pass_on(&self, inherited: InheritedEntry) {
        let _ = self.with(|queue| queue.inherited = Some(inherited));
    }

    /// Stores the newest state of the lease. For calls whose wait ends before they become active.
    pub(crate) fn record(&self, info: Arc<LeaseInfo>) {
        let _ = self.with(|queue| queue.seen = Some(info));
    }

    /// The newest state of the lease that any call in this queue has seen.
    pub(crate) fn last_seen(&self) -> Option<Arc<LeaseInfo>> {
        self.with(|queue| queue.seen.clone())?
    }

    fn with<T>(&self, change: impl FnOnce(&mut LocalQueue) -> T) -> Option<T> {
        self.queues.lock().get_mut(&self.key).map(change)
    }

    fn with_active<T>(&self, change: impl FnOnce(&mut ActiveCalls) -> T) -> Option<T> {
        self.with(|queue| queue.active.as_mut().map(change))?
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let mut queues = self.queues.lock();
        let queue = queues.get_mut(&self.key);
        let is_last = queue.is_some_and(|queue| {
            queue.tickets -= 1;
            if let (Some(number), Some(active)) = (self.number, &mut queue.active) {
                active.remove(number);
            }
            queue.tickets == 0
        });
        let last = if is_last { queues.remove(&self.key) } else { None };
        // Dropped outside of the lock, because this may give up an inherited entry.
        drop(queues);
        drop(last);
    }
}
