//! Promises about how soon a process knows something while nothing ails it: its holders learn at their next renewal
//! that a lease is gone, its waiters hear of a hand-off, its transactions commit, and it sees its own actions in order.

use std::collections::BTreeMap;
use std::mem;

use mongo_lease_checker::changes::{Change, State};
use mongo_lease_checker::history::{Ending, Letting, TransactionEnd, What};
use mongo_lease_checker::{Call, Hold, MILLI, Nanos, SECOND};
use mongo_lease_core::rules::slots::LANES_MIN;

use crate::promises::{Sight, seat_of};
use crate::transactions::LeftOpen;
use crate::workload::LAST;

/// How long a command takes at most in good health, and a holder until it looks at its lease.
const COMMAND: Nanos = 50 * MILLI;
const LOOK: Nanos = 250 * MILLI;
/// How long it takes at most to hear of a hand-off: less than until the next heartbeat, which finds it out by itself.
const HEARD: Nanos = 200 * MILLI;
/// How long a stream that nobody needed takes at most until it is open again: it was closed, and nobody is told that.
const OPENS: Nanos = SECOND;

impl Sight<'_> {
    /// All promises of this file.
    pub(crate) fn prompt(&mut self) {
        self.known_losses();
        self.hand_offs();
        self.streams();
        self.commits();
        self.open_transactions();
        self.own_actions();
    }

    /// A holder that renews learns by its next renewal that its grant is gone, whoever has ended that.
    fn known_losses(&mut self) {
        for hold in &self.facts.holds {
            let ended = self.grant_ended(hold.key());
            let is_mine = self.history.renewing.contains(hold.call) && !hold.grant.is_empty();
            if !is_mine || ended == Nanos::MAX || self.history.excused.contains(hold.call) {
                continue;
            }
            // A renewal comes after a third of the ttl.
            let late = ended + hold.ttl_ms * MILLI * 2 / 5 + 2 * COMMAND + LOOK + self.clocks();
            let gone = [hold.let_go, hold.lost, self.facts.deaths.get(hold.by).copied()];
            let is_known = gone.into_iter().flatten().any(|at| at <= late);
            let is_known = is_known || self.are_slots_taken((ended, late));
            if !is_known && self.is_calm(hold.by, ended, late) {
                let text = format!("{} believes in {}, which is gone", hold.call, hold.name);
                self.add("Known", late, (hold.name, hold.call), text);
            }
        }
    }

    /// Whether a manager with too few slots for lanes may have had one taken by a command that a transaction blocked.
    /// All other commands wait behind that one.
    fn are_slots_taken(&self, (from, to): (Nanos, Nanos)) -> bool {
        let mut blockages = self.history.blockages.iter();
        self.plan.in_flight_max < LANES_MIN
            && blockages.any(|it| it.times.start < to && from < it.times.end)
    }

    /// A call that waits hears at once that a release has handed the lease to it, and where the stream is being opened
    /// just then, as soon as it is open.
    fn hand_offs(&mut self) {
        for change in &self.evidence().changes {
            let at = self.evidence().moment(change.wall);
            for grant in change.promoted() {
                let Some(call) = self.facts.calls.get(&grant.call[..]) else { continue };
                let Some(told) = self.tells(call.by, at) else { continue };
                let late = told + HEARD + self.clocks();
                let heard = self.facts.heard.get(&grant.value[..]);
                let is_in_time = heard.is_some_and(|heard| *heard <= late);
                if !is_in_time && self.waits_on(call, late) && self.is_calm(call.by, at, late) {
                    let text = format!("{} did not hear of its promotion in time", call.id);
                    self.add("HandOff", late, (call.name, call.id), text);
                }
            }
        }
    }

    /// A call that waits for long after the last fault is woken by a stream in the end.
    fn streams(&mut self) {
        for call in self.facts.calls.values().filter(|call| call.name == LAST) {
            let Some((ended, Ending::Dropped)) = call.ended else { continue };
            let changes = self.history.streams.get(call.by).map_or(&[][..], Vec::as_slice);
            let told = changes.partition_point(|(told, _)| *told <= ended);
            let is_open =
                changes[..told].last().is_some_and(|(_, is_open)| *is_open != Some(false));
            if !is_open && self.has_stream(call) {
                let text = format!("{} waited in vain for a change stream", call.by);
                self.add("Stream", ended, (call.name, call.id), text);
            }
        }
    }

    /// A transaction in good health commits by its second try, however many wait for the lease.
    fn commits(&mut self) {
        let mut failed: BTreeMap<&str, bool> = BTreeMap::new();
        for record in &self.evidence().records {
            let What::Transacted { call, transaction, end, text } = &record.what else { continue };
            let Some(of) = self.facts.calls.get(&call[..]).filter(|of| of.name == LAST) else {
                continue;
            };
            let is_first_failure = !mem::replace(
                failed.entry(&call[..]).or_default(),
                *end == TransactionEnd::NotCommitted,
            );
            let is_broken = match end {
                TransactionEnd::Committed => false,
                TransactionEnd::NotCommitted => !is_first_failure,
                TransactionEnd::Unknown => true,
            };
            if is_broken && self.is_calm(of.by, record.at.saturating_sub(SECOND), record.at) {
                let text = format!("{transaction} ended as {end:?}: {text}");
                self.add("Commits", record.at, (of.name, of.id), text);
            }
        }
    }

    /// A transaction is ended by who began it, however its future was dropped.
    fn open_transactions(&mut self) {
        for LeftOpen { by, name, times } in &self.history.left_open {
            if self.is_calm(by, times.start, times.end) {
                let text = format!("{by} left a transaction open");
                self.add("LeftOpen", times.end, (name, ""), text);
            }
        }
    }

    /// Whether the manager that made this call has a change stream.
    fn has_stream(&self, call: &Call<'_>) -> bool {
        seat_of(call.by).is_some_and(|seat| self.plan.has_stream(seat))
    }

    /// When the stream of a process tells of a promotion at this moment; `None` where its calls poll.
    fn tells(&self, process: &str, at: Nanos) -> Option<Nanos> {
        let changes = self.history.streams.get(process)?;
        let (before, after) = changes.split_at(changes.partition_point(|(told, _)| *told <= at));
        match after.first() {
            Some((told, Some(true))) if *told <= at + OPENS => Some(*told),
            // The calls look for themselves from then on, or it is not known.
            Some((told, _)) if *told <= at + OPENS => None,
            Some(_) | None => before.last().is_some_and(|(_, it)| *it == Some(true)).then_some(at),
        }
    }

    /// Whether a call waits until after this moment, in a process that lives, polls it, and has a change stream.
    fn waits_on(&self, call: &Call<'_>, late: Nanos) -> bool {
        let died = self.facts.deaths.get(call.by).copied();
        let gone = [call.ended.map(|(at, _)| at), died].into_iter().flatten().min();
        self.has_stream(call)
            && gone.is_none_or(|gone| gone > late)
            && !self.history.excused.contains(call.id)
    }

    /// A call that is made after its process has dropped the lease does not find it held by that process.
    fn own_actions(&mut self) {
        for call in self.facts.calls.values() {
            let Some((ended, Ending::Busy)) = call.ended else { continue };
            let holds =
                self.facts.holds.iter().filter(|it| (it.by, it.name) == (call.by, call.name));
            let mut dropped = holds.filter(|hold| self.was_dropped_before(hold, call));
            let Some(hold) = dropped.next() else { continue };
            let is_certain = call.name.starts_with("lease:");
            let is_certain =
                is_certain && !self.history.is_blocked(call.name, (call.invoked - LOOK, ended), 0);
            let is_calm = is_certain && self.is_calm(call.by, call.invoked, ended);
            if is_calm && self.is_held_by_none_but(hold, (call.invoked, ended)) {
                let text = format!("{} found {} held by {}", call.id, call.name, hold.call);
                self.add("OwnActions", ended, (call.name, call.id), text);
            }
        }
    }

    /// Whether the holder had dropped the lease, a little before the call. A release whose future is not over promises
    /// nothing to other calls of its process.
    fn was_dropped_before(&self, hold: &Hold<'_>, call: &Call<'_>) -> bool {
        let dropped = hold.let_go.is_some_and(|at| {
            (at..=at + LOOK).contains(&call.invoked) && self.drops_first(hold, at, call)
        });
        dropped && hold.lost.is_none() && !hold.grant.is_empty()
    }

    /// Whether it was a drop at that time, and noted before the call: both may be of the same moment.
    fn drops_first(&self, hold: &Hold<'_>, at: Nanos, call: &Call<'_>) -> bool {
        let records = &self.evidence().records;
        let dropped = records.iter().position(|record| {
            let drops = |of: &str, how| of == hold.call && how == Letting::Drop;
            matches!(&record.what, What::Releasing { call, how } if drops(call, *how))
                && record.at == at
        });
        let made = records.iter().position(
            |record| matches!(&record.what, What::Invoked { call: made, .. } if made == call.id),
        );
        dropped.is_some() && dropped < made
    }

    /// Whether in this time nobody else had the lease or waited for it.
    fn is_held_by_none_but(&self, hold: &Hold<'_>, (from, to): (Nanos, Nanos)) -> bool {
        let (from, to) = (from.saturating_sub(self.clocks()), to + LOOK + self.clocks());
        let is_alone = |state: &State| {
            let is_its = state.grants.iter().all(|grant| grant.key() == hold.key());
            is_its && state.queue.is_empty()
        };
        let at = |change: &&Change| self.evidence().moment(change.wall);
        let of_name = || self.evidence().changes.iter().filter(|it| it.name == hold.name);
        let before = of_name().take_while(|change| at(change) < from).last();
        let within = of_name().filter(|change| (from..=to).contains(&at(change)));
        let mut states = before.into_iter().chain(within).filter_map(|it| it.after.as_deref());
        states.all(is_alone)
    }

    /// By how much the servers' clock and a process's may differ.
    fn clocks(&self) -> Nanos {
        2 * self.evidence().terms.clock_error
    }
}
