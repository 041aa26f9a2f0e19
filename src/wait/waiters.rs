//! The registry of one manager's waiters: receives their signals, schedules their heartbeats.
//!
//! The heartbeat task, the watcher and the calls share this registry. They signal each other by flags, and none blocks.
//! Invariants:
//!
//! 1. A call is registered before its first attempt is sent, so every signal for it finds it.
//! 2. A waiter that relies on a change stream is notified when the stream ends.
//! 3. Locks are taken in the order table, then slot.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use mongo_lease_core::commands::{Promotion, QueueEntry};
use mongo_lease_core::rules::{
    CallId, Instant, heartbeat_every, heartbeat_slack, next_heartbeat_at,
};
use tokio::sync::Notify;

use crate::lock::Lock;
use crate::mistake::{Mistake, is_made};
use crate::release::call_state::CallState;
use crate::token::Token;

/// The waiters of one manager. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Waiters {
    shared: Arc<Inner>,
}

struct Inner {
    table: Lock<Table>,
    /// Notified when the next heartbeat is due earlier than before.
    sooner: Notify,
    /// Notified when a call has joined a queue.
    joined: Notify,
    waiter_ttl: Duration,
}

struct Table {
    /// By call id.
    waiters: BTreeMap<CallId, Arc<WaiterSlot>>,
    queued: usize,
    stream: Stream,
    /// When the heartbeat task wakes next.
    next_due_at: Instant,
}

/// The state of the change stream that reports promotions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stream {
    /// No waiter has needed it.
    Closed,
    /// It is being opened, and will report events from this oplog time on.
    Wanted { since: Option<Token> },
    /// It reports events from `since` on, and in any case events after `opened`.
    Open { since: Option<Token>, opened: Instant },
    /// It does not work.
    Absent,
}

impl Stream {
    /// Whether the stream may have missed this waiter's promotion.
    ///
    /// Its attempt was sent at `sent`, and joined at oplog time `at`.
    fn may_have_missed(self, sent: Instant, at: Option<Token>) -> bool {
        match self {
            // No waiter relies on an absent stream. After one with an unknown start is opened, every waiter sends an
            // attempt.
            Stream::Closed | Stream::Absent | Stream::Wanted { since: None } => false,
            Stream::Wanted { since } => at < since,
            Stream::Open { since, opened } => sent < opened && (since.is_none() || at < since),
        }
    }
}

/// The registration of one call.
pub(crate) struct WaiterSlot {
    pub(crate) call: Arc<CallState>,
    state: Lock<State>,
    woken: Notify,
}

struct State {
    is_queued: bool,
    deadline: Instant,
    /// When the newest confirmed heartbeat was sent.
    heartbeat_confirmed: Instant,
    heartbeat_at: Instant,
    signal: Option<Signal>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Signal {
    /// Something changed: send an attempt.
    Recheck,
    /// The lease was handed off to it.
    Promoted(Promotion),
}

impl Waiters {
    pub(crate) fn new(waiter_ttl: Duration) -> Waiters {
        let (stream, next_due_at) = (Stream::Closed, Instant::FAR_FUTURE);
        let table = Table { waiters: BTreeMap::new(), queued: 0, stream, next_due_at };
        let (table, sooner, joined) = (Lock::new(table), Notify::new(), Notify::new());
        Waiters { shared: Arc::new(Inner { table, sooner, joined, waiter_ttl }) }
    }

    /// Registers a call that may join a queue. The registration ends with the guard.
    pub(crate) fn register(&self, call: Arc<CallState>, deadline: Instant) -> WaiterGuard {
        let state = State {
            is_queued: false,
            deadline,
            heartbeat_confirmed: Instant::START,
            heartbeat_at: Instant::FAR_FUTURE,
            signal: None,
        };
        let id = call.request.call_id.clone();
        let slot = Arc::new(WaiterSlot { call, state: Lock::new(state), woken: Notify::new() });
        self.shared.table.lock().waiters.insert(id, Arc::clone(&slot));
        WaiterGuard { slot, waiters: self.clone() }
    }

    /// Whether a stream reports promotions, or will.
    pub(crate) fn has_stream(&self) -> bool {
        matches!(self.shared.table.lock().stream, Stream::Wanted { .. } | Stream::Open { .. })
    }

    pub(crate) fn disable_stream(&self) {
        self.shared.table.lock().stream = Stream::Absent;
    }

    /// Waits until a call is in a queue. Returns the oplog time from which the stream has to report, if known.
    pub(crate) async fn until_queued(&self) -> Option<Token> {
        loop {
            let joined = self.shared.joined.notified();
            {
                let table = self.shared.table.lock();
                match (table.queued, table.stream) {
                    (1.., Stream::Wanted { since }) => return since,
                    (1.., Stream::Absent) => return None,
                    (_, _) => {}
                }
            }
            joined.await;
        }
    }

    /// The stream reports events from `since` on. If it was absent before, or its start was unknown, all waiters send
    /// another attempt: a promotion may have come earlier.
    pub(crate) fn stream_is_open(&self, since: Option<Token>, now: Instant) {
        let open = Stream::Open { since, opened: now };
        let before = std::mem::replace(&mut self.shared.table.lock().stream, open);
        if matches!(before, Stream::Absent | Stream::Wanted { since: None }) {
            self.all_recheck();
        }
    }

    /// The stream no longer reports.
    pub(crate) fn stream_is_gone(&self) {
        self.shared.table.lock().stream = Stream::Absent;
        self.all_recheck();
    }

    /// Closes the stream if no call is in a queue. Returns whether it did.
    pub(crate) fn close_stream(&self) -> bool {
        let mut table = self.shared.table.lock();
        if table.queued == 0 {
            table.stream = Stream::Closed;
        }
        table.queued == 0
    }

    pub(crate) fn has_queued(&self) -> bool {
        self.shared.table.lock().queued > 0
    }

    /// Signals a call that it was promoted. A call that is not registered has accepted the promotion already, or gives
    /// it back.
    pub(crate) fn promoted(&self, promotion: Promotion) {
        if is_made(Mistake::PromotionShared) {
            let slots = self.all();
            let own = slots.iter().find(|it| it.call.request.call_id == promotion.call_id());
            let own = own.map(|own| own.name().to_owned());
            for slot in slots.iter().filter(|it| own.as_deref() == Some(it.name())) {
                slot.signal(Signal::Promoted(promotion.clone()));
            }
        }
        self.signal(&promotion.call_id(), Signal::Promoted(promotion));
    }

    /// Signals a call to send an attempt.
    pub(crate) fn recheck(&self, call_id: &CallId) {
        self.signal(call_id, Signal::Recheck);
    }

    fn signal(&self, call_id: &CallId, signal: Signal) {
        let slot = self.shared.table.lock().waiters.get(call_id).cloned();
        if let Some(slot) = slot {
            slot.signal(signal);
        }
    }

    fn all_recheck(&self) {
        for slot in self.all() {
            // A call that is not in a queue yet checks the stream when it joins.
            if slot.state.lock().is_queued {
                slot.signal(Signal::Recheck);
            }
        }
    }

    pub(crate) fn abandon_all(&self) {
        for slot in self.all() {
            slot.call.abandon();
        }
    }

    fn all(&self) -> Vec<Arc<WaiterSlot>> {
        self.shared.table.lock().waiters.values().cloned().collect()
    }

    /// The slots whose heartbeat is due or nearly due, and when to check again.
    pub(crate) fn due(&self, now: Instant) -> (Vec<Arc<WaiterSlot>>, Instant) {
        // Heartbeats that are due within half an interval go along with a due one. So all entries come to share one
        // command, however long after each other they joined: of two groups in one interval, one finds the other due.
        let until = now.after(heartbeat_slack(self.shared.waiter_ttl));
        let mut due = Vec::new();
        let mut wake_at = Instant::FAR_FUTURE;
        let mut table = self.shared.table.lock();
        let somebody_is = table.waiters.values().any(|slot| slot.state.lock().heartbeat_at <= now);
        for slot in table.waiters.values() {
            let mut state = slot.state.lock();
            if somebody_is && state.heartbeat_at <= until {
                // Whatever happens to this heartbeat, the next one is sent in time.
                state.heartbeat_at = now.after(heartbeat_every(self.shared.waiter_ttl));
                due.push(Arc::clone(slot));
            }
            wake_at = wake_at.min(state.heartbeat_at);
        }
        table.next_due_at = wake_at;
        (due, wake_at)
    }

    /// Wakes the heartbeat task: a heartbeat is due earlier than before.
    pub(crate) fn look_again(&self) {
        self.shared.sooner.notify_one();
    }

    /// Waits until a heartbeat is due earlier than before.
    pub(crate) async fn sooner(&self) {
        self.shared.sooner.notified().await;
    }

    /// The waiter ttl: how long an entry lasts after a heartbeat.
    pub(crate) fn waiter_ttl(&self) -> Duration {
        self.shared.waiter_ttl
    }
}

impl WaiterSlot {
    pub(crate) fn name(&self) -> &str {
        &self.call.request.name
    }

    pub(crate) fn entry(&self) -> QueueEntry {
        QueueEntry { name: self.call.request.name.clone(), value: self.call.request.value.clone() }
    }

    pub(crate) fn heartbeat_confirmed(&self, sent: Instant, waiter_ttl: Duration) {
        let mut state = self.state.lock();
        state.heartbeat_confirmed = state.heartbeat_confirmed.max(sent);
        state.heartbeat_at =
            next_heartbeat_at(state.heartbeat_confirmed, waiter_ttl, state.deadline);
    }

    /// Moves the next heartbeat to `moment`, if it was later. Used after a heartbeat that was not confirmed.
    pub(crate) fn heartbeat_by(&self, moment: Instant) {
        let mut state = self.state.lock();
        state.heartbeat_at = state.heartbeat_at.min(moment);
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let mut state = self.state.lock();
        // A promotion takes precedence over a recheck.
        if signal != Signal::Recheck || state.signal.is_none() {
            state.signal = Some(signal);
        }
        drop(state);
        self.woken.notify_one();
    }
}

/// Keeps a call registered.
pub(crate) struct WaiterGuard {
    slot: Arc<WaiterSlot>,
    waiters: Waiters,
}

impl WaiterGuard {
    pub(crate) fn call(&self) -> &Arc<CallState> {
        &self.slot.call
    }

    /// Notes that the call is in the queue. Its attempt was sent at `sent`, and applied at oplog time `at`.
    pub(crate) fn joined_queue(&self, sent: Instant, at: Option<Token>) {
        let waiter_ttl = self.waiters.waiter_ttl();
        let mut table = self.waiters.shared.table.lock();
        self.slot.heartbeat_confirmed(sent, waiter_ttl);
        let mut state = self.slot.state.lock();
        let heartbeat_at = state.heartbeat_at;
        let is_new = !std::mem::replace(&mut state.is_queued, true);
        drop(state);
        let is_sooner = heartbeat_at < table.next_due_at;
        if is_new {
            table.queued += 1;
            if table.stream == Stream::Closed {
                table.stream = Stream::Wanted { since: at };
            }
        }
        // The stream reports from the oplog time of the first reply on. This attempt may have joined earlier, although
        // its reply came later.
        let is_missed = is_new && table.stream.may_have_missed(sent, at);
        drop(table);
        if is_missed {
            self.slot.signal(Signal::Recheck);
        }
        if is_new {
            self.waiters.shared.joined.notify_one();
        }
        if is_sooner {
            self.waiters.shared.sooner.notify_one();
        }
    }

    /// Another call now waits with this entry, until `deadline`.
    pub(crate) fn set_deadline(&self, deadline: Instant) {
        let waiter_ttl = self.waiters.waiter_ttl();
        let mut table = self.waiters.shared.table.lock();
        let mut state = self.slot.state.lock();
        state.deadline = deadline;
        if state.is_queued {
            state.heartbeat_at = next_heartbeat_at(state.heartbeat_confirmed, waiter_ttl, deadline);
        }
        let is_sooner = state.heartbeat_at < table.next_due_at;
        if is_sooner {
            table.next_due_at = state.heartbeat_at;
        }
        drop(state);
        drop(table);
        if is_sooner {
            self.waiters.shared.sooner.notify_one();
        }
    }

    pub(crate) async fn signal(&self) -> Signal {
        loop {
            let woken = self.slot.woken.notified();
            if let Some(signal) = self.slot.state.lock().signal.take() {
                return signal;
            }
            woken.await;
        }
    }

    /// Waits for a promotion. Other signals are kept for [`WaiterGuard::signal`].
    pub(crate) async fn promotion(&self) -> Promotion {
        loop {
            let woken = self.slot.woken.notified();
            let signal = self.slot.state.lock().signal.take_if(|it| *it != Signal::Recheck);
            if let Some(Signal::Promoted(promotion)) = signal {
                return promotion;
            }
            woken.await;
        }
    }

    /// Clears a pending recheck, because the call is about to send an attempt.
    pub(crate) fn clear_recheck(&self) {
        let _ = self.slot.state.lock().signal.take_if(|signal| *signal == Signal::Recheck);
    }
}

impl Drop for WaiterGuard {
    fn drop(&mut self) {
        let mut table = self.waiters.shared.table.lock();
        table.waiters.remove(&self.slot.call.request.call_id);
        if self.slot.state.lock().is_queued {
            table.queued -= 1;
        }
    }
}
