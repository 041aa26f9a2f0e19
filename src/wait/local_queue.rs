//! The lines of one process: its own waiters for one lease, in order.
//!
//! One of them at a time has its turn, and it alone asks the server: all of them together are one entry in the queue.
//! Who gives up in its turn leaves the entry to the next one. Invariants:
//!
//! 1. Turns go round in the order of the calls.
//! 2. An entry that is left behind is taken over by the next call, or taken out when no call is left.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::info::LeaseInfo;
use crate::rules::waiter::Waiter;
use crate::wait::waiters::WaiterGuard;

/// The lines of one manager, by the names of the leases.
#[derive(Clone, Default)]
pub(crate) struct LocalQueues {
    queues: Arc<Mutex<HashMap<String, LocalQueue>>>,
}

struct LocalQueue {
    turn: Arc<Semaphore>,
    tickets: usize,
    inherited: Option<InheritedEntry>,
    /// What the server last said of the lease.
    seen: Option<Box<LeaseInfo>>,
}

/// The place in the queue of a call that has given up.
pub(crate) struct InheritedEntry {
    pub(crate) slot: WaiterGuard,
    pub(crate) waiter: Waiter,
}

impl InheritedEntry {
    /// The server has put another call into the place.
    pub(crate) fn taken_over(self) {
        self.slot.call().succeeded();
    }
}

impl Drop for InheritedEntry {
    fn drop(&mut self) {
        // Nothing happens when it was taken over.
        self.slot.call().abandon();
    }
}

/// A call that stands in a line.
pub(crate) struct Ticket {
    queues: LocalQueues,
    name: String,
    turn: Option<OwnedSemaphorePermit>,
}

impl LocalQueues {
    /// Joins the end of a line.
    pub(crate) fn join(&self, name: &str) -> Ticket {
        let mut queues = self.lock();
        if let Some(queue) = queues.get_mut(name) {
            queue.tickets += 1;
        } else {
            let turn = Arc::new(Semaphore::new(1));
            queues.insert(
                name.to_owned(),
                LocalQueue { turn, tickets: 1, inherited: None, seen: None },
            );
        }
        drop(queues);
        Ticket { queues: self.clone(), name: name.to_owned(), turn: None }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, LocalQueue>> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Ticket {
    /// Waits for its turn, and gives what the one before it has left behind.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses the place in the line, and nothing else.
    pub(crate) async fn turn(&mut self) -> Option<InheritedEntry> {
        let turn = self.with(|queue| Arc::clone(&queue.turn))?;
        // It is never closed.
        self.turn = turn.acquire_owned().await.ok();
        self.with(|queue| queue.inherited.take())?
    }

    /// Leaves a place in the queue to the next one. Where there is none, it is given up with the line.
    pub(crate) fn pass_on(&self, inherited: InheritedEntry) {
        let _ = self.with(|queue| queue.inherited = Some(inherited));
    }

    /// What the server said, for those who have not had their turn when their time is over.
    pub(crate) fn record(&self, info: &LeaseInfo) {
        let seen = Box::new(info.clone());
        let _ = self.with(|queue| queue.seen = Some(seen));
    }

    /// What it last said to any of them.
    pub(crate) fn last_seen(&self) -> Option<Box<LeaseInfo>> {
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
        // What is left in it is given up outside of the lock.
        drop(queues);
        drop(last);
    }
}
