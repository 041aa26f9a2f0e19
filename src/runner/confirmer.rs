//! The writes that were applied, and that no majority has yet: which of them the next read is to show.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use mongo_lease_core::commands::{FindWritten, SeenHolder, SharedSnapshot, Trace, Written};
use mongo_lease_core::rules::Instant;
use mongodb::bson::Timestamp;
use tokio::sync::oneshot;

use crate::lock::Lock;
use crate::mistake::{Mistake, is_made};

/// The most grants of one read. No command is about more.
const GRANTS_MAX: usize = 2_000;

/// A read waits for the oldest write, and for those that were sent so soon after it, at most. Without that, a row of
/// writes would need as many reads.
const TOGETHER_MAX: Duration = Duration::from_millis(250);

/// The writes of one manager that wait for a majority.
pub(super) struct Confirmer(Lock<State>);

struct State {
    next_number: u64,
    /// In the order of their times.
    waiting: Asked,
    /// A majority has all writes up to this time.
    reached: Option<Timestamp>,
    /// Whether a task reads.
    is_read: bool,
    /// Whether the delay may be measured.
    measures: bool,
    /// Whether it is measured now.
    is_measured: bool,
    /// How long the newest confirmation has taken, from the sending of its command, or a measurement since. Zero if the
    /// reply of the command was the confirmation. Longer if a write waits for longer already.
    delay: Duration,
}

/// The writes of one command.
pub(super) struct AwaitedWrites {
    pub(super) traces: Vec<Trace>,
    pub(super) sent: Instant,
    pub(super) deadline: Instant,
    /// A command that wrote nothing waits for an earlier write, so it shows less than the delay.
    pub(super) has_written: bool,
    /// `None` if nobody waits, and the time that it takes is measured.
    pub(super) sender: Option<oneshot::Sender<Vec<SharedSnapshot>>>,
}

/// The time of a command's writes, and a number of its own.
pub(super) type WriteKey = (Timestamp, u64);

/// Those that one read is to show.
pub(super) type Asked = BTreeMap<WriteKey, AwaitedWrites>;

impl State {
    /// The time up to which the next read has to see all; `None` if nobody waits.
    fn next_time(&self) -> Option<Timestamp> {
        let (_, oldest) = self.waiting.first_key_value()?;
        let until = oldest.sent.after((self.delay / 4).min(TOGETHER_MAX));
        let together = self.waiting.iter().take_while(|(_, it)| it.sent <= until);
        let (&(last, _), _) = together.last()?;
        Some(self.reached.map_or(last, |reached| reached.max(last)))
    }
}

impl AwaitedWrites {
    /// Whether anybody waits for them. A measurement is for nobody.
    fn is_wanted(&self, measures: bool) -> bool {
        self.sender.as_ref().map_or(measures, |sender| !sender.is_closed())
    }

    /// The part of these leases that is about their holders.
    fn part_of(&self, found: &HashMap<&str, &SharedSnapshot>) -> Vec<SharedSnapshot> {
        let mut values = BTreeMap::<&str, BTreeSet<&str>>::new();
        for (name, value) in self.traces.iter().map(Trace::name_and_value) {
            values.entry(name).or_default().insert(value);
        }
        let part = |(name, values): (&str, BTreeSet<&str>)| {
            let SharedSnapshot { lease, holders } = found.get(name)?;
            let is_own = |holder: &&SeenHolder| {
                holder.value.as_deref().is_some_and(|value| values.contains(value))
            };
            let holders = holders.iter().filter(is_own).cloned().collect();
            Some(SharedSnapshot { lease: lease.clone(), holders })
        };
        values.into_iter().filter_map(part).collect()
    }
}

impl Default for Confirmer {
    fn default() -> Confirmer {
        Confirmer(Lock::new(State {
            next_number: 0,
            waiting: Asked::new(),
            reached: None,
            is_read: false,
            measures: true,
            is_measured: false,
            delay: Duration::ZERO,
        }))
    }
}

impl Confirmer {
    /// Adds the writes of a command that no majority has by now. Says also whether a task has to be started that reads.
    pub(super) fn add(&self, at: Timestamp, waiting: AwaitedWrites, now: Instant) -> bool {
        let mut state = self.0.lock();
        state.delay = state.delay.max(now.since(waiting.sent));
        let number = state.next_number;
        state.next_number += 1;
        state.is_measured |= waiting.sender.is_none();
        state.waiting.insert((at, number), waiting);
        !std::mem::replace(&mut state.is_read, true)
    }

    /// Whether a measurement may begin. One at a time is enough.
    pub(super) fn may_measure(&self) -> bool {
        let state = self.0.lock();
        state.measures && !state.is_measured
    }

    /// The next read, and the writes that it is to show; `None` if nobody waits for any.
    ///
    /// It sees all up to the oldest write, and up to those that were sent soon after it. Where a majority is known to
    /// have newer ones, it sees all up to these.
    pub(super) fn next(&self, now: Instant) -> Option<(FindWritten, Asked)> {
        let mut state = self.0.lock();
        let measures = state.measures;
        let mut is_measured = false;
        state.waiting.retain(|_, it| {
            let is_kept = it.is_wanted(measures) && now < it.deadline;
            is_measured |= is_kept && it.sender.is_none();
            is_kept
        });
        state.is_measured = is_measured;
        let Some(after) = state.next_time() else {
            state.is_read = false;
            return None;
        };
        let (mut holders, mut asked) = (BTreeMap::<String, BTreeSet<String>>::new(), Asked::new());
        let mut grants = 0;
        while let Some(oldest) = state.waiting.first_entry()
            && oldest.key().0 <= after
            && (asked.is_empty() || grants + oldest.get().traces.len() <= GRANTS_MAX)
        {
            let (key, waiting) = oldest.remove_entry();
            grants += waiting.traces.len();
            for (name, value) in waiting.traces.iter().map(Trace::name_and_value) {
                holders.entry(name.to_owned()).or_default().insert(value.to_owned());
            }
            asked.insert(key, waiting);
        }
        Some((FindWritten { holders, after }, asked))
    }

    /// Tells the callers what a read has shown.
    pub(super) fn tell(&self, asked: Asked, written: &Written, now: Instant) {
        let found = written.found.iter().map(|found| (found.lease.info.name.as_str(), found));
        let by_name: HashMap<&str, &SharedSnapshot> = found.collect();
        let mut state = self.0.lock();
        state.reached = state.reached.max(written.until);
        for waiting in asked.values() {
            let took = now.since(waiting.sent);
            state.delay = if waiting.has_written { took } else { took.max(state.delay) };
        }
        drop(state);
        for waiting in asked.into_values() {
            let mut own = waiting.part_of(&by_name);
            if is_made(Mistake::EchoIgnored) {
                own = own.into_iter().map(|found| with_echo(found, waiting.sent)).collect();
            }
            if let Some(sender) = waiting.sender {
                // Its caller may have gone.
                let _ = sender.send(own);
            }
        }
    }

    /// Takes those of these writes that wait still, for a read that was answered late.
    pub(super) fn take(&self, keys: &[WriteKey]) -> Asked {
        let mut state = self.0.lock();
        keys.iter().filter_map(|key| state.waiting.remove_entry(key)).collect()
    }

    /// From now on nothing is measured.
    pub(super) fn stop_measuring(&self) {
        self.0.lock().measures = false;
    }

    /// Puts the writes back for the next read.
    pub(super) fn put_back(&self, asked: Asked) {
        self.0.lock().waiting.extend(asked);
    }

    /// Nobody waits any more: no read will confirm anything.
    pub(super) fn give_up(&self) {
        let mut state = self.0.lock();
        (state.is_read, state.is_measured) = (false, false);
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
