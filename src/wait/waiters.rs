//! The places in line of one manager's calls: who is there to be told, and when the next sign of life is due.
//!
//! The heartbeat, the watcher and the calls themselves meet here, and nobody waits for anybody: what one has to say to
//! another is a flag. Invariants:
//!
//! 1. A call has its place before its first attempt goes out, so whatever is told of it finds it.
//! 2. Whoever is told that a stream will wake it is told again when that is not so any more.
//! 3. The table's lock comes before a place's.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

use crate::commands::heartbeat::QueueEntry;
use crate::commands::watch::Promotion;
use crate::release::cleanup::CallCleanup;
use crate::rules::ids::CallId;
use crate::rules::time::Instant;
use crate::rules::token::Token;
use crate::rules::waiter::next_heartbeat_at;

/// The places of one manager. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Waiters {
    shared: Arc<Shared>,
}

struct Shared {
    table: Mutex<Table>,
    /// A sign of life is due earlier than it was.
    sooner: Notify,
    /// Somebody joined a line.
    joined: Notify,
    life: Duration,
}

struct Table {
    /// By call ids.
    waiters: HashMap<CallId, Arc<WaiterSlot>>,
    in_line: usize,
    stream: Stream,
    /// When the heartbeat will look again.
    looks_at: Instant,
}

/// Whether promotions are told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stream {
    /// Nobody has needed it.
    Closed,
    /// It is being opened, and will tell of what happens from this time in the oplog on.
    Wanted { since: Option<Token> },
    /// It tells of what happens from `since` on, and in any case of what happens behind `opened`.
    Open { since: Option<Token>, opened: Instant },
    /// It does not.
    Absent,
}

impl Stream {
    /// Whether it may not have told of the promotion of somebody who asked at `sent`, and joined at `at` in the oplog.
    fn may_have_missed(self, sent: Instant, at: Option<Token>) -> bool {
        match self {
            // Nobody believes in one that is not there; and when one of unknown time is opened, everybody asks.
            Stream::Closed | Stream::Absent | Stream::Wanted { since: None } => false,
            Stream::Wanted { since } => at < since,
            Stream::Open { since, opened } => sent < opened && (since.is_none() || at < since),
        }
    }
}

/// One call's place.
pub(crate) struct WaiterSlot {
    pub(crate) call: Arc<CallCleanup>,
    state: Mutex<State>,
    woken: Notify,
}

struct State {
    is_in_line: bool,
    deadline: Instant,
    /// The newest sign of life that was confirmed.
    heartbeat_confirmed: Instant,
    heartbeat_at: Instant,
    /// Something holds its document up: its signs of life go apart.
    goes_alone: bool,
    signal: Option<Signal>,
}

/// What a call is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Signal {
    /// Only the server can tell.
    Recheck,
    /// The lease was handed on to it.
    Promoted(Promotion),
}

impl Waiters {
    pub(crate) fn new(life: Duration) -> Waiters {
        let looks_at = Instant::FAR_FUTURE;
        let stream = Stream::Closed;
        let table = Table { waiters: HashMap::new(), in_line: 0, stream, looks_at };
        let shared =
            Shared { table: Mutex::new(table), sooner: Notify::new(), joined: Notify::new(), life };
        Waiters { shared: Arc::new(shared) }
    }

    /// A place for a call that may come to stand in line. It is given up with the guard.
    pub(crate) fn register(&self, call: Arc<CallCleanup>, deadline: Instant) -> WaiterGuard {
        let state = State {
            is_in_line: false,
            deadline,
            heartbeat_confirmed: Instant::START,
            heartbeat_at: Instant::FAR_FUTURE,
            goes_alone: false,
            signal: None,
        };
        let id = call.request.call_id.clone();
        let slot = Arc::new(WaiterSlot { call, state: Mutex::new(state), woken: Notify::new() });
        self.table().waiters.insert(id, Arc::clone(&slot));
        WaiterGuard { slot, waiters: self.clone() }
    }

    /// Whether a stream tells of promotions, or will.
    pub(crate) fn are_told(&self) -> bool {
        matches!(self.table().stream, Stream::Wanted { .. } | Stream::Open { .. })
    }

    /// No stream will ever tell.
    pub(crate) fn nobody_tells(&self) {
        self.table().stream = Stream::Absent;
    }

    /// Waits until somebody stands in line. The answer is from when on the stream has to tell, where it is known.
    pub(crate) async fn somebody_joined(&self) -> Option<Token> {
        loop {
            let joined = self.shared.joined.notified();
            {
                let table = self.table();
                match (table.in_line, table.stream) {
                    (1.., Stream::Wanted { since }) => return since,
                    (1.., Stream::Absent) => return None,
                    (_, _) => {}
                }
            }
            joined.await;
        }
    }

    /// The stream tells from now on, of what happens from `since` on. Who was told that none would, or joined nobody
    /// knows when, has to ask once more: the promotion may have been before.
    pub(crate) fn stream_is_open(&self, since: Option<Token>, now: Instant) {
        let open = Stream::Open { since, opened: now };
        let before = std::mem::replace(&mut self.table().stream, open);
        if matches!(before, Stream::Absent | Stream::Wanted { since: None }) {
            self.all_recheck();
        }
    }

    /// The stream does not tell any more.
    pub(crate) fn stream_is_gone(&self) {
        self.table().stream = Stream::Absent;
        self.all_recheck();
    }

    /// Gives the stream up if nobody needs it. False when somebody does.
    pub(crate) fn close_stream(&self) -> bool {
        let mut table = self.table();
        if table.in_line == 0 {
            table.stream = Stream::Closed;
        }
        table.in_line == 0
    }

    /// Whether anybody stands in line.
    pub(crate) fn somebody_is_in_line(&self) -> bool {
        self.table().in_line > 0
    }

    /// Tells a call that it was promoted.
    pub(crate) fn promoted(&self, promotion: Promotion) {
        let slot = self.table().waiters.get(&promotion.call_id()).cloned();
        // Nobody there: it has taken what it was promoted to, or gives it back.
        if let Some(slot) = slot {
            slot.signal(Signal::Promoted(promotion));
        }
    }

    /// Tells a call to ask.
    pub(crate) fn recheck(&self, call_id: &CallId) {
        let slot = self.table().waiters.get(call_id).cloned();
        if let Some(slot) = slot {
            slot.signal(Signal::Recheck);
        }
    }

    fn all_recheck(&self) {
        for slot in self.all() {
            // Who is not in line has yet to look whether it is told.
            if slot.state().is_in_line {
                slot.signal(Signal::Recheck);
            }
        }
    }

    /// Gives up every call that waits.
    pub(crate) fn abandon_all(&self) {
        for slot in self.all() {
            slot.call.abandon();
        }
    }

    fn all(&self) -> Vec<Arc<WaiterSlot>> {
        self.table().waiters.values().cloned().collect()
    }

    /// Whose next sign of life is due, or nearly so, and when to look again.
    pub(crate) fn due(&self, now: Instant) -> (Vec<Arc<WaiterSlot>>, Instant) {
        // Who is due takes others along, or there would soon be a command for each.
        let until = now.after(self.shared.life / 12);
        let mut due = Vec::new();
        let mut wake_at = Instant::FAR_FUTURE;
        let mut table = self.table();
        let somebody_is = table.waiters.values().any(|slot| slot.state().heartbeat_at <= now);
        for slot in table.waiters.values() {
            let mut state = slot.state();
            if somebody_is && state.heartbeat_at <= until {
                // Whatever comes of this one, the next one goes out in time.
                state.heartbeat_at = now.after(self.shared.life / 3);
                due.push(Arc::clone(slot));
            }
            wake_at = wake_at.min(state.heartbeat_at);
        }
        table.looks_at = wake_at;
        (due, wake_at)
    }

    /// A sign of life is due earlier than it was.
    pub(crate) fn look_again(&self) {
        self.shared.sooner.notify_one();
    }

    /// Waits until a sign of life is due earlier than it was.
    pub(crate) async fn sooner(&self) {
        self.shared.sooner.notified().await;
    }

    /// How long an entry counts after a sign of life.
    pub(crate) fn life(&self) -> Duration {
        self.shared.life
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.shared.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl WaiterSlot {
    /// The entry in the queue.
    pub(crate) fn entry(&self) -> QueueEntry {
        QueueEntry { name: self.call.request.name.clone(), value: self.call.request.value.clone() }
    }

    /// A sign of life that was sent at `sent` has been confirmed.
    pub(crate) fn heartbeat_confirmed(&self, sent: Instant, life: Duration) {
        let mut state = self.state();
        state.heartbeat_confirmed = state.heartbeat_confirmed.max(sent);
        state.heartbeat_at = next_heartbeat_at(state.heartbeat_confirmed, life, state.deadline);
        state.goes_alone = false;
    }

    /// A sign of life was not confirmed: the next one goes out at this moment, if none was to go out before.
    pub(crate) fn heartbeat_by(&self, moment: Instant) {
        let mut state = self.state();
        state.heartbeat_at = state.heartbeat_at.min(moment);
    }

    /// Whether its signs of life go apart.
    pub(crate) fn goes_alone(&self) -> bool {
        self.state().goes_alone
    }

    /// Something holds its document up.
    pub(crate) fn is_held_up(&self) {
        self.state().goes_alone = true;
    }

    /// Tells it something.
    pub(crate) fn signal(&self, signal: Signal) {
        let mut state = self.state();
        // A promotion says more than that there is something to be asked.
        if signal != Signal::Recheck || state.signal.is_none() {
            state.signal = Some(signal);
        }
        drop(state);
        self.woken.notify_one();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A place that is held.
pub(crate) struct WaiterGuard {
    slot: Arc<WaiterSlot>,
    waiters: Waiters,
}

impl WaiterGuard {
    pub(crate) fn call(&self) -> &Arc<CallCleanup> {
        &self.slot.call
    }

    /// It stands in line, by an attempt that was sent at `sent` and carried out at `at` in the oplog.
    pub(crate) fn stands_in_line(&self, sent: Instant, at: Option<Token>) {
        let life = self.waiters.life();
        let mut table = self.waiters.table();
        self.slot.heartbeat_confirmed(sent, life);
        let mut state = self.slot.state();
        let heartbeat_at = state.heartbeat_at;
        let is_new = !std::mem::replace(&mut state.is_in_line, true);
        drop(state);
        let is_sooner = heartbeat_at < table.looks_at;
        if is_new {
            table.in_line += 1;
            if table.stream == Stream::Closed {
                table.stream = Stream::Wanted { since: at };
            }
        }
        // Its reply may have come later than that of another one, from whose time on the stream tells.
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

    /// Somebody else waits in this place now, until then.
    pub(crate) fn set_deadline(&self, deadline: Instant) {
        let life = self.waiters.life();
        let mut table = self.waiters.table();
        let mut state = self.slot.state();
        state.deadline = deadline;
        if state.is_in_line {
            state.heartbeat_at = next_heartbeat_at(state.heartbeat_confirmed, life, deadline);
        }
        let is_sooner = state.heartbeat_at < table.looks_at;
        if is_sooner {
            table.looks_at = state.heartbeat_at;
        }
        drop(state);
        drop(table);
        if is_sooner {
            self.waiters.shared.sooner.notify_one();
        }
    }

    /// Waits until the call is told something.
    pub(crate) async fn signal(&self) -> Signal {
        loop {
            let woken = self.slot.woken.notified();
            if let Some(signal) = self.slot.state().signal.take() {
                return signal;
            }
            woken.await;
        }
    }

    /// Waits until the call is told that it was promoted. What else it is told is kept for [`WaiterGuard::signal`].
    pub(crate) async fn promotion(&self) -> Promotion {
        loop {
            let woken = self.slot.woken.notified();
            let signal = self.slot.state().signal.take_if(|it| *it != Signal::Recheck);
            if let Some(Signal::Promoted(promotion)) = signal {
                return promotion;
            }
            woken.await;
        }
    }

    /// It is about to ask.
    pub(crate) fn asks(&self) {
        let _ = self.slot.state().signal.take_if(|signal| *signal == Signal::Recheck);
    }
}

impl Drop for WaiterGuard {
    fn drop(&mut self) {
        let mut table = self.waiters.table();
        table.waiters.remove(&self.slot.call.request.call_id);
        if self.slot.state().is_in_line {
            table.in_line -= 1;
        }
    }
}
