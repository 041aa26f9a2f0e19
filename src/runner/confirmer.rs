//! The writes that were applied, and that no majority has yet: which of them the next read is to show.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use mongo_lease_core::commands::{FindWritten, SharedSnapshot, Trace, Written};
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
    /// A majority has all writes up to this time.
    reached: Option<Timestamp>,
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
    /// Whether anybody waits for them. A measurement is for nobody.
    fn is_wanted(&self, measures: bool) -> bool {
        self.sender.as_ref().map_or(measures, |sender| !sender.is_closed())
    }

    /// Whether an earlier state than that of their time may show them. One of before a grant shows its end, too.
    fn may_show_early(&self) -> bool {
        !self.is_late && !self.traces.iter().any(Trace::is_absence)
    }
}

impl Default for Confirmer {
    fn default() -> Confirmer {
        Confirmer(Lock::new(State {
            next_number: 0,
            waiting: BTreeMap::new(),
            reached: None,
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
    ///
    /// It waits for the oldest write alone. Where a majority is known to have newer ones, it shows all up to these.
    pub(super) fn next(&self, now: Instant) -> Option<(FindWritten, Asked)> {
        let mut state = self.0.lock();
        let measures = state.measures;
        state.waiting.retain(|_, it| it.is_wanted(measures) && now < it.deadline);
        let Some((&(oldest, _), _)) = state.waiting.first_key_value() else {
            state.is_read = false;
            return None;
        };
        let after = state.reached.map_or(oldest, |reached| reached.max(oldest));
        let (mut holders, mut asked) = (BTreeMap::<String, BTreeSet<String>>::new(), Asked::new());
        let is_told = |(key, it): (&(Timestamp, u64), &AwaitedWrites)| {
            (key.0 <= after || it.may_show_early()).then_some(*key)
        };
        let told: Vec<_> = state.waiting.iter().filter_map(is_told).collect();
        let mut grants = 0;
        for key in told {
            if grants >= GRANTS_MAX {
                break;
            }
            let Some(waiting) = state.waiting.remove(&key) else { continue };
            grants += waiting.traces.len();
            for (name, value) in waiting.traces.iter().map(Trace::holder) {
                holders.entry(name.to_owned()).or_default().insert(value.to_owned());
            }
            asked.insert(key, waiting);
        }
        Some((FindWritten { holders, after }, asked))
    }

    /// Tells the callers what a read has shown. Those whose writes are later than it, and not in it, wait on.
    pub(super) fn tell(&self, after: Timestamp, asked: Asked, written: &Written, now: Instant) {
        let found = written.found.iter().map(|found| (found.lease.info.name.as_str(), found));
        let by_name: HashMap<&str, &SharedSnapshot> = found.collect();
        let mut state = self.0.lock();
        state.reached = state.reached.max(written.until);
        drop(state);
        for ((at, number), waiting) in asked {
            let found = |trace: &Trace| by_name.get(trace.holder().0).copied();
            let shows = |trace: &Trace| trace.is_shown(found(trace), now);
            if at > after && !(waiting.may_show_early() && waiting.traces.iter().all(shows)) {
                self.0.lock().waiting.insert((at, number), waiting);
                continue;
            }
            let took = now.since(waiting.sent);
            let mut state = self.0.lock();
            // A command that wrote nothing waited for an earlier write, so it shows less than the delay.
            state.delay = if waiting.sender.is_some() { took } else { took.max(state.delay) };
            drop(state);
            let names: BTreeSet<&str> = waiting.traces.iter().map(|it| it.holder().0).collect();
            let own = names.iter().filter_map(|name| by_name.get(name).copied().cloned());
            let own = own.map(|found| match is_made(Mistake::EchoIgnored) {
                true => with_echo(found, waiting.sent),
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

/// The document with the echo of a command that was sent at this moment.
fn with_echo(mut found: SharedSnapshot, sent: Instant) -> SharedSnapshot {
    let echo = i64::try_from(sent.as_micros()).ok();
    found.lease.sent = echo;
    found.holders.iter_mut().for_each(|holder| holder.sent = echo);
    found
}
