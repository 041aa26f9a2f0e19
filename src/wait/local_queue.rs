//! The local queues of one process: its waiters for each lease, in order.
//!
//! One waiter of a local queue at a time is active, and it alone sends commands: together they share one queue entry on
//! the server. When the active waiter gives up, the next one inherits the entry.
//!
//! Calls for permits have queues of their own, in which several are active, each with an entry of its own. They inherit
//! nothing. The first of them leads: it rechecks the lease for all. Invariants:
//!
//! 1. Waiters become active in the order of their calls. One that is woken and not polled loses its turn if others
//!    wait: its entries and grants are given up, and when it is polled again it begins anew at the end.
//! 2. An inherited entry is taken over by the next call, or removed from the queue if no call is left.
//! 3. Nothing of a caller (its waker, its future) runs or is dropped under the lock.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Poll, Wake};
use std::time::Duration;

use mongo_lease_core::info::LeaseInfo;
use mongo_lease_core::rules::{Permits, Waiter};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::clock::Clock;
use crate::lock::Lock;
use crate::mistake::{Mistake, is_made};
use crate::release::call_state::CallState;
use crate::runner::Runner;
use crate::wait::local_call::{LocalCall, Turn};
use crate::wait::waiters::WaiterGuard;

/// An active call that is woken and not polled for this long loses its turn, if another call waits for it.
const UNPOLLED_MAX: Duration = Duration::from_secs(1);

/// When a call was not polled, so many of those that wait after it are woken, to see whether they are. A name may have
/// many thousands of calls.
const PROBED_MAX: usize = 64;

#[derive(Clone, Default)]
pub(crate) struct LocalQueues {
    queues: Arc<Lock<BTreeMap<QueueKey, LocalQueue>>>,
    /// Notified when a call waits for its turn.
    crowded: Arc<Notify>,
}

/// The lease's name, and how many calls are active.
type QueueKey = (Arc<str>, u32);

struct LocalQueue {
    /// How many calls may be active.
    turns: usize,
    tickets: usize,
    next_number: u64,
    /// The calls that wait for their turn, by number.
    waiting: BTreeMap<u64, Arc<LocalCall>>,
    active: BTreeMap<u64, Arc<LocalCall>>,
    /// Notified when the first active call has gone.
    first_has_gone: Arc<Notify>,
    inherited: Option<InheritedEntry>,
    /// The newest state of the lease that the server sent.
    seen: Option<Arc<LeaseInfo>>,
}

impl LocalQueue {
    /// A queue without calls, of which so many will be active.
    fn new(turns: u32) -> LocalQueue {
        LocalQueue {
            turns: usize::try_from(turns).unwrap_or(usize::MAX),
            tickets: 0,
            next_number: 0,
            waiting: BTreeMap::new(),
            active: BTreeMap::new(),
            first_has_gone: Arc::default(),
            inherited: None,
            seen: None,
        }
    }

    /// Puts the call at the end, if it has no place. Returns whether it waits.
    fn line_up(&mut self, place: &Arc<LocalCall>) -> bool {
        let number = place.number();
        if self.active.contains_key(&number) {
            return false;
        }
        if !self.waiting.contains_key(&number) {
            let number = self.next_number;
            self.next_number += 1;
            place.number.store(number, Ordering::Relaxed);
            // Calls wait only while all turns are taken.
            if self.active.len() < self.turns {
                self.activate(number, Arc::clone(place));
            } else {
                self.waiting.insert(number, Arc::clone(place));
            }
        }
        !place.has_turn()
    }

    fn activate(&mut self, number: u64, place: Arc<LocalCall>) {
        place.has_turn.store(true, Ordering::Release);
        self.active.insert(number, place);
    }

    /// Takes a call's place from it, and makes the next one active. Its turn, if any, is over.
    fn remove(&mut self, number: u64, wake: &mut Wakes) {
        self.waiting.remove(&number);
        let was_first = self.active.first_key_value().is_some_and(|(first, _)| *first == number);
        let Some(place) = self.active.remove(&number) else {
            return;
        };
        place.has_turn.store(false, Ordering::Release);
        if was_first {
            wake.leading.push(Arc::clone(&self.first_has_gone));
        }
        if is_made(Mistake::TurnKept) {
            return;
        }
        if let Some((number, next)) = self.waiting.pop_first() {
            wake.calls.push(Arc::clone(&next));
            self.activate(number, next);
        }
    }

    /// Removes the calls that are not polled. Notes their entries, which are given up, and the calls to wake.
    fn pass_unpolled_over(&mut self, wake: &mut Wakes, given_up: &mut Vec<Arc<CallState>>) {
        let front = self.active.values().chain(self.waiting.values().take(PROBED_MAX));
        let unpolled: Vec<_> = front.filter(|place| place.is_unpolled()).cloned().collect();
        // From the end, so that no turn goes to a call that is removed next.
        for place in unpolled.iter().rev() {
            self.remove(place.number(), wake);
            given_up.append(&mut place.entries.lock());
        }
        if !unpolled.is_empty() {
            wake.calls.extend(self.waiting.values().take(PROBED_MAX).cloned());
            // One that was polled meanwhile learns that its turn is over.
            wake.calls.extend(unpolled);
        }
    }
}

/// Calls and tasks that are woken after the lock.
#[derive(Default)]
struct Wakes {
    calls: Vec<Arc<LocalCall>>,
    /// Those that wait to lead.
    leading: Vec<Arc<Notify>>,
}

impl Wakes {
    fn wake(self) {
        self.calls.into_iter().for_each(Wake::wake);
        self.leading.into_iter().for_each(|leading| leading.notify_waiters());
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
    place: Arc<LocalCall>,
}

impl LocalQueues {
    /// Starts the task that takes the turn from calls that are not polled. When it ends, also with its runtime, it
    /// cancels `ended`.
    pub(crate) fn start(
        runner: &Runner,
        ended: CancellationToken,
        stop: CancellationToken,
    ) -> LocalQueues {
        let queues = LocalQueues::default();
        let (watch, guard) = (queues.clone().watch(runner.clock().clone()), ended.drop_guard());
        runner.spawn_service(async move {
            let _guard = guard;
            let _ = stop.run_until_cancelled(watch).await;
        });
        queues
    }

    /// Joins the local queue of the calls that ask for these permits.
    pub(crate) fn join(&self, name: &str, permits: Permits) -> Ticket {
        let new = (Arc::from(name), permits.active_calls());
        let mut queues = self.queues.lock();
        let key = queues.get_key_value(&new).map_or_else(|| new.clone(), |(key, _)| key.clone());
        let queue = queues.entry(key.clone()).or_insert_with(|| LocalQueue::new(key.1));
        queue.tickets += 1;
        drop(queues);
        Ticket { queues: self.clone(), key, place: Arc::new(LocalCall::new()) }
    }

    /// Takes the turn from calls that are not polled, for as long as others wait for it.
    async fn watch(self, clock: Clock) {
        loop {
            self.crowded.notified().await;
            while self.pass_unpolled_over() {
                clock.sleep(UNPOLLED_MAX).await;
            }
        }
    }

    /// Takes the turn, or the place, from the calls that were found woken the last time and not polled since. Returns
    /// whether any call waits for its turn.
    fn pass_unpolled_over(&self) -> bool {
        let (mut wake, mut given_up) = (Wakes::default(), Vec::new());
        let mut is_crowded = false;
        let mut queues = self.queues.lock();
        for queue in queues.values_mut().filter(|queue| !queue.waiting.is_empty()) {
            queue.pass_unpolled_over(&mut wake, &mut given_up);
            is_crowded |= !queue.waiting.is_empty();
        }
        drop(queues);
        // A grant that such a call has been answered is given back, and its entries leave the queue.
        for call in given_up {
            call.abandon();
        }
        wake.wake();
        is_crowded
    }
}

impl Ticket {
    /// Waits until this call is active, and returns its turn and the entry that it inherits. A call that has lost its
    /// turn waits at the end of the local queue. A call whose future is dropped keeps its place as long as its ticket.
    pub(crate) async fn turn(&self) -> (Turn, Option<InheritedEntry>) {
        poll_fn(|context| {
            self.place.polled(context.waker());
            match self.with(|queue| queue.line_up(&self.place)) {
                Some(true) => {
                    self.queues.crowded.notify_one();
                    Poll::Pending
                }
                Some(false) | None => Poll::Ready(()),
            }
        })
        .await;
        let inherited = self.with(|queue| queue.inherited.take()).flatten();
        (Turn(Arc::clone(&self.place)), inherited)
    }

    /// Notes the calls whose entries and grants are given up if this call loses its turn.
    pub(crate) fn answers_for(&self, calls: impl IntoIterator<Item = Arc<CallState>>) {
        *self.place.entries.lock() = calls.into_iter().collect();
    }

    pub(crate) fn has_turn(&self) -> bool {
        self.place.has_turn()
    }

    /// How many active calls are before this one. 0 for the one that leads.
    pub(crate) fn led_by(&self) -> u32 {
        let number = self.place.number();
        let before = self.with(|queue| queue.active.range(..number).count());
        u32::try_from(before.unwrap_or(0)).unwrap_or(u32::MAX)
    }

    pub(crate) async fn leads(&self) {
        while let Some(gone) = self.with(|queue| Arc::clone(&queue.first_has_gone)) {
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
        self.queues.queues.lock().get_mut(&self.key).map(change)
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let mut wake = Wakes::default();
        let mut queues = self.queues.queues.lock();
        let queue = queues.get_mut(&self.key);
        let is_last = queue.is_some_and(|queue| {
            queue.tickets -= 1;
            queue.remove(self.place.number(), &mut wake);
            queue.tickets == 0
        });
        let last = if is_last { queues.remove(&self.key) } else { None };
        // Dropped outside of the lock, because this may give up an inherited entry.
        drop(queues);
        drop(last);
        wake.wake();
    }
}
