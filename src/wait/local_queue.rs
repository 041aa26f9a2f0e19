//! The local queues of one process: its waiters for each lease, in order.
//!
//! One waiter of a local queue at a time is active, and it alone sends commands: together they share one queue entry on
//! the server. When the active waiter gives up, the next one inherits the entry. Invariants:
//!
//! 1. Waiters become active in the order of their calls.
//! 2. An inherited entry is taken over by the next call, or removed from the queue if no call is left.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::info::LeaseInfo;
use crate::rules::waiter::Waiter;
use crate::wait::waiters::WaiterGuard;

/// The local queues of one manager, by lease name.
#[derive(Clone, Default)]
pub(crate) struct LocalQueues {
    queues: Arc<Mutex<HashMap<Arc<str>, LocalQueue>>>,
}

struct LocalQueue {
    turn: Arc<Semaphore>,
    tickets: usize,
    inherited: Option<InheritedEntry>,
    /// The newest state of the lease that the server sent.
    seen: Option<Arc<LeaseInfo>>,
}

impl Default for LocalQueue {
    /// A queue without calls.
    fn default() -> LocalQueue {
        let turn = Arc::new(Semaphore::new(1));
        LocalQueue { turn, tickets: 0, inherited: None, seen: None }
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
    /// Shared by the calls of this queue.
    name: Arc<str>,
    turn: Option<OwnedSemaphorePermit>,
}

impl LocalQueues {
    /// Joins the end of a local queue.
    pub(crate) fn join(&self, name: &str) -> Ticket {
        let mut queues = self.lock();
        let name = match queues.get_key_value(name) {
            Some((name, _)) => Arc::clone(name),
            None => name.into(),
        };
        queues.entry(Arc::clone(&name)).or_default().tickets += 1;
        drop(queues);
        Ticket { queues: self.clone(), name, turn: None }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Arc<str>, LocalQueue>> {
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
        self.with(|queue| queue.inherited.take())?
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
        self.queues.lock().get_mut(&self.name).map(change)
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let mut queues = self.queues.lock();
        let queue = queues.get_mut(&self.name);
        let is_last = queue.is_some_and(|queue| {
            queue.tickets -= 1;
            queue.tickets == 0
        });
        let last = if is_last { queues.remove(&self.name) } else { None };
        // Dropped outside of the lock, because this may give up an inherited entry.
        drop(queues);
        drop(last);
    }
}
