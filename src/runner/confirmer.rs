//! The writes that were applied, and that no majority has yet: which of them the next read is to show.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use mongo_lease_core::commands::{FindWritten, SharedSnapshot, Trace};
use mongo_lease_core::rules::Instant;
use mongodb::bson::Timestamp;
use tokio::sync::oneshot;

use crate::lock::Lock;
use crate::mistake::{Mistake, is_made};

/// The most grants of one read, unless those of one command are more.
const GRANTS_MAX: usize = 2_000;

/// The writes of one manager that wait for a majority.
pub(super) struct Confirmer(Lock<State>);

struct State {
    next_number: u64,
    /// In the order of their times.
    waiting: BTreeMap<(Timestamp, u64), AwaitedWrites>,
    /// Whether a task reads.
    is_read: bool,
    /// Whether the delay may be measured.
    measures: bool,
    /// How long the newest confirmation has taken, from the sending of its command, or a measurement since. Zero if the
    /// reply of the command was the confirmation.
    delay: Duration,
}

/// The writes of one command.
pub(super) struct AwaitedWrites {
    pub(super) traces: Vec<Trace>,
    pub(super) sent: Instant,
    pub(super) deadline: Instant,
    /// Whether the read has to see everything up to their time, also if an earlier state shows them.
    pub(super) is_late: bool,
    /// `None` if nobody waits, and the time that it takes is measured.
    pub(super) sender: Option<oneshot::Sender<Vec<SharedSnapshot>>>,
}

/// Those that one read is to show.
pub(super) type Asked = BTreeMap<(Timestamp, u64), AwaitedWrites>;

impl AwaitedWrites {
    fn is_wanted(&self) -> bool {
        self.sender.as_ref().is_none_or(|sender| !sender.is_closed())
    }
}

impl Default for Confirmer {
    fn default() -> Confirmer {
        Confirmer(Lock::new(State {
            next_number: 0,
            waiting: BTreeMap::new(),
            is_read: false,
            measures: true,
            delay: Duration::ZERO,
        }))
    }
}

impl Confirmer {
    /// Adds the writes of a command. Says also whether a task has to be started that reads.
    pub(super) fn add(&self, at: Timestamp, waiting: AwaitedWrites) -> bool {
        let mut state = self.0.lock();
        let number = state.next_number;
        state.next_number += 1;
        state.waiting.insert((at, number), waiting);
        !std::mem::replace(&mut state.is_read, true)
    }

    /// Whether a measurement may begin. One at a time is enough.
    pub(super) fn may_measure(&self) -> bool {
        let state = self.0.lock();
        state.measures && state.waiting.values().all(|it| it.sender.is_some())
    }

    /// The next read, and the writes that it is to show; `None` if nobody waits for any.
    pub(super) fn next(&self, now: Instant) -> Option<(FindWritten, Asked)> {
        let mut state = self.0.lock();
        state.waiting.retain(|_, it| it.is_wanted() && now < it.deadline);
        let Some((&(after, _), _)) = state.waiting.first_key_value() else {
            state.is_read = false;
            return None;
        };
        let (mut grants, mut asked) = (Vec::new(), Asked::new());
        while let Some(next) = state.waiting.first_entry() {
            if !grants.is_empty() && grants.len() + next.get().traces.len() > GRANTS_MAX {
                break;
            }
            grants.extend(next.get().traces.iter().map(|trace| trace.key().clone()));
            let (key, waiting) = next.remove_entry();
            asked.insert(key, waiting);
        }
        Some((FindWritten { grants, after }, asked))
    }

    /// Tells the callers what a read has shown. Those whose writes are later than it, and not in it, wait on.
    pub(super) fn tell(
        &self,
        after: Timestamp,
        asked: Asked,
        found: &[SharedSnapshot],
        now: Instant,
    ) {
        let by_name: HashMap<&str, &SharedSnapshot> =
            found.iter().map(|found| (found.lease.info.name.as_str(), found)).collect();
        for ((at, number), waiting) in asked {
            let shows = |trace: &Trace| {
                // A read from before a grant shows it no more than one from behind its end.
                matches!(trace, Trace::Grant { .. })
                    && trace.is_shown(by_name.get(trace.key().name()).copied(), now)
            };
            if at > after && (waiting.is_late || !waiting.traces.iter().all(shows)) {
                self.0.lock().waiting.insert((at, number), waiting);
                continue;
            }
            let took = now.since(waiting.sent);
            let mut state = self.0.lock();
            // A command that wrote nothing waited for an earlier write, so it shows less than the delay.
            state.delay = if waiting.sender.is_some() { took } else { took.max(state.delay) };
            drop(state);
            let names: BTreeSet<&str> = waiting.traces.iter().map(|it| it.key().name()).collect();
            let own = names.iter().filter_map(|name| by_name.get(name).copied().cloned());
            let own = own.map(|found| match is_made(Mistake::EchoIgnored) {
                true => newest(found, now),
                false => found,
            });
            if let Some(sender) = waiting.sender {
                // Its caller may have gone.
                let _ = sender.send(own.collect());
            }
        }
    }

    /// From now on nothing is measured.
    pub(super) fn stop_measuring(&self) {
        let mut state = self.0.lock();
        state.measures = false;
        state.waiting.retain(|_, it| it.sender.is_some());
    }

    /// Puts the writes back for the next read.
    pub(super) fn put_back(&self, asked: Asked) {
        self.0.lock().waiting.extend(asked);
    }

    /// Nobody waits any more: no read will confirm anything.
    pub(super) fn give_up(&self) {
        let mut state = self.0.lock();
        state.is_read = false;
        state.waiting.clear();
    }

    /// Whether the majority was late last.
    pub(super) fn is_late(&self) -> bool {
        !self.delay().is_zero()
    }

    /// A write was confirmed by its own reply.
    pub(super) fn confirmed_in_time(&self) {
        self.0.lock().delay = Duration::ZERO;
    }

    /// How late the majority was last.
    pub(super) fn delay(&self) -> Duration {
        self.0.lock().delay
    }
}

/// The document with the newest echo that it can have.
fn newest(mut found: SharedSnapshot, now: Instant) -> SharedSnapshot {
    let echo = i64::try_from(now.as_micros()).ok();
    found.lease.sent = echo;
    found.holders.iter_mut().for_each(|holder| holder.sent = echo);
    found
}
