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
use crate::places::PlaceGuard;
use crate::rules::waiter::Waiter;

/// The lines of one manager, by the names of the leases.
#[derive(Clone, Default)]
pub(crate) struct Lines {
    lines: Arc<Mutex<HashMap<String, Line>>>,
}

struct Line {
    turn: Arc<Semaphore>,
    members: usize,
    heirloom: Option<Heirloom>,
    /// What the server last said of the lease.
    seen: Option<Box<LeaseInfo>>,
}

/// The place in the queue of a call that has given up.
pub(crate) struct Heirloom {
    pub(crate) place: PlaceGuard,
    pub(crate) waiter: Waiter,
}

impl Heirloom {
    /// The server has put another call into the place.
    pub(crate) fn taken_over(self) {
        self.place.call().succeeded();
    }
}

impl Drop for Heirloom {
    fn drop(&mut self) {
        // Nothing happens when it was taken over.
        self.place.call().abandon();
    }
}

/// A call that stands in a line.
pub(crate) struct Member {
    lines: Lines,
    name: String,
    turn: Option<OwnedSemaphorePermit>,
}

impl Lines {
    /// Joins the end of a line.
    pub(crate) fn join(&self, name: &str) -> Member {
        let mut lines = self.lock();
        if let Some(line) = lines.get_mut(name) {
            line.members += 1;
        } else {
            let turn = Arc::new(Semaphore::new(1));
            lines.insert(name.to_owned(), Line { turn, members: 1, heirloom: None, seen: None });
        }
        drop(lines);
        Member { lines: self.clone(), name: name.to_owned(), turn: None }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Line>> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Member {
    /// Waits for its turn, and gives what the one before it has left behind.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses the place in the line, and nothing else.
    pub(crate) async fn turn(&mut self) -> Option<Heirloom> {
        let turn = self.with(|line| Arc::clone(&line.turn))?;
        // It is never closed.
        self.turn = turn.acquire_owned().await.ok();
        self.with(|line| line.heirloom.take())?
    }

    /// Leaves a place in the queue to the next one. Where there is none, it is given up with the line.
    pub(crate) fn bequeath(&self, heirloom: Heirloom) {
        let _ = self.with(|line| line.heirloom = Some(heirloom));
    }

    /// What the server said, for those who have not had their turn when their time is over.
    pub(crate) fn seen(&self, info: &LeaseInfo) {
        let seen = Box::new(info.clone());
        let _ = self.with(|line| line.seen = Some(seen));
    }

    /// What it last said to any of them.
    pub(crate) fn last_seen(&self) -> Option<Box<LeaseInfo>> {
        self.with(|line| line.seen.clone())?
    }

    fn with<T>(&self, change: impl FnOnce(&mut Line) -> T) -> Option<T> {
        self.lines.lock().get_mut(&self.name).map(change)
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        let mut lines = self.lines.lock();
        let line = lines.get_mut(&self.name);
        let is_last = line.is_some_and(|line| {
            line.members -= 1;
            line.members == 0
        });
        let last = if is_last { lines.remove(&self.name) } else { None };
        // What is left in it is given up outside of the lock.
        drop(lines);
        drop(last);
    }
}
