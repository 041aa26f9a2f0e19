//! Whether waiting calls get on: each moment of a wait is explained by somebody before the call.
//!
//! A waiting call has an entry in the queue, and waits because
//!
//! - a live entry is before its own, or
//! - it is the first, and does not fit beside the holders in the document.
//!
//! All else explains nothing: a free lease; a grant of its own of which it has not heard; and, whoever holds, that the
//! call has no entry. So a call that has lost its entry is found although others go on holding, and so is one that
//! never joined. A holder explains nothing when its grant is alive for more than a ttl although its call has ended it.
//!
//! An earlier call of the same process for the same lease explains it too: calls of one process take turns, in one
//! entry or in several. So does the release of a lease that the process has dropped in a fault: a call waits for that,
//! for the time of one attempt at the most.
//!
//! Such a time may last for the waiter ttl, within which each waiting call sends an attempt, the round trip of that
//! ([`Allowances::noticing`](super::Allowances::noticing)), and the time of faults and of the process's own stops.
//!
//! Two other invariants are about waits: by [`Invariant::Deadline`] every wait ends, and by [`Invariant::Gap`] the
//! first entry is served, whether a call of the history has it or not.

use super::gaps::moments;
use super::{Call, Evidence, Facts, Fault, Found, Hold, Invariant, Violation};
use crate::changes::{Change, Grant, State, Waiting};
use crate::maps::Map;
use crate::permits;
use crate::time::{MILLI, Nanos, SECOND};

/// The time of one attempt by default, and of the command of a release. With a short ttl an acquire has half of that.
const ATTEMPT: Nanos = 5 * SECOND;

/// The facts with which the wait of a call is compared.
struct Sight<'a> {
    evidence: &'a Evidence,
    facts: &'a Facts<'a>,
    /// For each lease the changes of its document, and the moment of each.
    changes: Map<&'a str, Vec<(Nanos, &'a Change)>>,
    /// The holds by the ids of their grants.
    holds: Map<&'a str, &'a Hold<'a>>,
    /// For each process and lease, when its holders let it go.
    drops: Map<[&'a str; 2], Vec<Nanos>>,
}

/// No waiting call waits for long without anybody before it.
pub(super) fn unexplained(evidence: &Evidence, facts: &Facts, found: &mut Found) {
    let sight = Sight::of(evidence, facts);
    for mut calls in facts.by_process().into_values() {
        calls.sort_by_key(|call| call.invoked);
        let mut its_turn = 0;
        for call in calls {
            let end = sight.end_of(call);
            let since = call.invoked.max(its_turn);
            its_turn = its_turn.max(end);
            if call.wait_ms.is_some() && end.saturating_sub(since) > sight.fair() {
                let since = since.max(sight.own_release(call));
                found.0.extend(sight.longest_beyond(call, [since, end]));
            }
        }
    }
}

impl<'a> Sight<'a> {
    fn of(evidence: &'a Evidence, facts: &'a Facts<'a>) -> Sight<'a> {
        let mut changes: Map<&str, Vec<(Nanos, &Change)>> = Map::default();
        for change in &evidence.changes {
            let of_lease = changes.entry(&change.name).or_default();
            // In the order of the changes, also where the next one was made by a server whose clock is behind.
            let last = of_lease.last().map_or(0, |(at, _)| *at);
            of_lease.push((evidence.moment(change.wall).max(last), change));
        }
        let holds = facts.holds.iter().map(|hold| (hold.grant, hold)).collect();
        let mut drops: Map<[&str; 2], Vec<Nanos>> = Map::default();
        for hold in &facts.holds {
            drops.entry([hold.by, hold.name]).or_default().extend(hold.let_go);
        }
        Sight { evidence, facts, changes, holds, drops }
    }

    fn fair(&self) -> Nanos {
        self.evidence.terms.noticed_within()
    }

    /// Until when the call may have waited for the release of a lease that its process has dropped.
    ///
    /// Only a fault makes a release take long. Its command may outlast the fault by its own time.
    fn own_release(&self, call: &Call) -> Nanos {
        let drops = self.drops.get(&[call.by, call.name]).map(Vec::as_slice).unwrap_or_default();
        let is_late = |fault: &Fault| {
            let is_in_it = |at: &Nanos| (fault.began..=call.invoked).contains(at);
            fault.puts_off() && call.invoked <= fault.ended + ATTEMPT && drops.iter().any(is_in_it)
        };
        let is_any_late = self.facts.faults.iter().any(is_late);
        if is_any_late { call.invoked + ATTEMPT.min(call.ttl_ms * MILLI / 2) } else { 0 }
    }

    /// When the call no longer waited.
    fn end_of(&self, call: &Call) -> Nanos {
        let died = self.facts.deaths.get(&call.by).copied();
        // One thread of a dying process may still make a call, until the signal reaches it. A worker of the same name
        // never comes back.
        let died = died.map(|died| died.max(call.invoked));
        call.answered().into_iter().chain(died).min().unwrap_or(self.evidence.known_until)
    }

    /// The first time in this one in which nobody before the call explains its waiting for longer than allowed.
    fn longest_beyond(&self, call: &Call, [since, end]: [Nanos; 2]) -> Option<Violation> {
        let mut open: Option<Nanos> = None;
        for (from, state) in self.states(call, [since, end]) {
            let is_explained =
                state.is_some_and(|(state, now)| self.is_explained(call, state, now));
            if !is_explained {
                open = open.or(Some(from));
            } else if let Some(began) = open.take()
                && let Some(violation) = self.beyond(call, [began, from])
            {
                return Some(violation);
            }
        }
        self.beyond(call, [open?, end])
    }

    /// The states of the lease's document in this time, each with its beginning: `None` if there is no document.
    fn states(&self, call: &Call, [since, end]: [Nanos; 2]) -> Vec<(Nanos, Option<(&State, i64)>)> {
        let changes = self.changes.get(call.name).map(Vec::as_slice).unwrap_or_default();
        let first = changes.partition_point(|(at, _)| *at <= since).saturating_sub(1);
        let mut states = vec![(since, None)];
        for (number, (at, change)) in changes.iter().enumerate().skip(first) {
            if *at >= end {
                break;
            }
            let next = changes.get(number + 1);
            let until = next.map_or(i64::MAX, |(_, next)| next.wall);
            for now in moments(change, until) {
                let from = self.evidence.moment(now).max(*at);
                let state = change.after.as_deref().map(|state| (state, now));
                if from <= since {
                    states[0] = (since, state);
                } else if from < end {
                    states.push((from, state));
                }
            }
        }
        states
    }

    /// Whether somebody is before the call at this moment.
    fn is_explained(&self, call: &Call, state: &State, now: i64) -> bool {
        // Its queue keeps no order, and its holders and waiters are handed on late.
        if self.facts.is_damaged(state) {
            return true;
        }
        let mut live = state.queue.iter().filter(|entry| state.is_live(entry, now));
        match live.next() {
            Some(first) if self.is_entry_of(first, call) => {
                let holders = state.holders(now).filter(|grant| self.is_held(grant, call, now));
                let holders = holders.map(|grant| grant.permits);
                !permits::fit(holders.chain([call.permits]))
            }
            _ => live.any(|entry| self.is_entry_of(entry, call)),
        }
    }

    /// Whether the entry is the call's: a process has one for all of its exclusive calls.
    fn is_entry_of(&self, entry: &Waiting, call: &Call) -> bool {
        let is_of_process =
            || self.facts.calls.get(&entry.call[..]).is_some_and(|it| it.by == call.by);
        let are_exclusive = entry.permits.is_exclusive() && call.permits.is_exclusive();
        entry.call == call.id || (are_exclusive && is_of_process())
    }

    /// Whether the grant is that of somebody else, who has it or has not had it for longer than a ttl.
    fn is_held(&self, grant: &Grant, waiting: &Call, now: i64) -> bool {
        let over = match self.holds.get(&grant.id[..]) {
            Some(hold) => [hold.let_go, hold.lost].into_iter().flatten().min(),
            None => self.facts.calls.get(&grant.call[..]).and_then(|call| Some(call.ended?.0)),
        };
        let terms = self.evidence.terms;
        let ttl_ms = self.facts.calls.get(&grant.call[..]).map_or(0, |call| call.ttl_ms);
        let fair = ttl_ms * MILLI + terms.max_clock_skew + 2 * terms.clock_error;
        let fair = fair + terms.allowances.noticing;
        let now = self.evidence.moment(now);
        let lasts = |over| now <= self.facts.deadline(over, fair, None);
        grant.call != waiting.id && over.is_none_or(lasts)
    }

    /// The violation, if this time is longer than allowed.
    fn beyond(&self, call: &Call, [began, ended]: [Nanos; 2]) -> Option<Violation> {
        let deadline = self.facts.deadline(began, self.fair(), Some(call.by));
        if ended <= deadline {
            return None;
        }
        let waited = (ended.min(self.evidence.known_until) - began) / MILLI;
        let text = match ended == Nanos::MAX {
            true => format!("{} waits for {} for ever, behind nobody", call.id, call.name),
            false => format!("{} waited for {} behind nobody, {waited} ms", call.id, call.name),
        };
        let violation = Violation::new(Invariant::Progress, deadline, text);
        Some(violation.of(call.name, [call.id]).since(began))
    }
}
