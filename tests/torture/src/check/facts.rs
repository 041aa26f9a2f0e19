//! Facts from the records: calls, holds, faults, and when processes were stopped or dead.

// Each reader wants a few of the many kinds of records.
#![allow(clippy::wildcard_enum_match_arm)]

use std::collections::{BTreeMap, HashMap, HashSet};

use super::Evidence;
use crate::clock::{Nanos, SECOND};
use crate::history::{Ending, Outcome, What};
use crate::oplog::{Grant, State};
use crate::permits::Permits;

/// How long elections and reconnecting still take after a fault.
const RECOVERY: Nanos = 4 * SECOND;

/// One acquire call.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) id: String,
    pub(crate) by: String,
    pub(crate) invoked: Nanos,
    pub(crate) ttl_ms: u64,
    pub(crate) wait_ms: Option<u64>,
    pub(crate) permits: Permits,
    /// How it ended, if it got no lease.
    pub(crate) ended: Option<(Nanos, Ending)>,
    pub(crate) granted: Option<Nanos>,
    pub(crate) released: Option<Outcome>,
}

impl Call {
    /// When its caller heard of it.
    pub(crate) fn answered(&self) -> Option<Nanos> {
        self.granted.or(self.ended.map(|(at, _)| at))
    }
}

/// One lease in a worker's hands.
#[derive(Clone, Debug)]
pub(crate) struct Hold {
    pub(crate) call: String,
    pub(crate) by: String,
    pub(crate) name: String,
    pub(crate) token: u64,
    pub(crate) value: String,
    /// The identity of the grant, by the oplog. A call may be granted a lease twice, and believes in one of the grants.
    pub(crate) grant: String,
    pub(crate) began: Nanos,
    pub(crate) ttl_ms: u64,
    pub(crate) permits: Permits,
    /// The beliefs: at each moment, the end of validity.
    pub(crate) beliefs: Vec<(Nanos, Nanos)>,
    /// When its holder began to release it.
    pub(crate) let_go: Option<Nanos>,
    /// When its holder reported the loss.
    pub(crate) lost: Option<Nanos>,
}

impl Hold {
    /// The end of its belief, by the whole history. A process that dies takes nothing back.
    pub(crate) fn believed_until(&self) -> Nanos {
        let until = self.beliefs.iter().map(|(_, until)| *until).max().unwrap_or(self.began);
        let ends = [self.let_go, self.lost].into_iter().flatten();
        ends.fold(until, Nanos::min)
    }
}

/// A fault, from its beginning to its end.
#[derive(Clone, Debug)]
pub(crate) struct Fault {
    pub(crate) kind: String,
    pub(crate) began: Nanos,
    pub(crate) ended: Nanos,
}

impl Fault {
    /// Whether waiters may have to wait for its end. Waiting has to cope with a dead worker and a dead cursor.
    fn puts_off(&self) -> bool {
        !matches!(&self.kind[..], "kill-worker" | "cursor")
    }
}

/// The facts of a run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Facts {
    pub(crate) calls: BTreeMap<String, Call>,
    /// In the order in which their holders heard of them.
    pub(crate) holds: Vec<Hold>,
    pub(crate) faults: Vec<Fault>,
    /// The times in which each worker was stopped.
    pub(crate) stops: HashMap<String, Vec<(Nanos, Nanos)>>,
    /// When each worker died that did not end by itself.
    pub(crate) deaths: HashMap<String, Nanos>,
    /// The values of holders and waiters whose stored numbers were damaged.
    pub(crate) damaged: HashSet<String>,
    /// When each grant ended, by the servers' clock in milliseconds.
    pub(crate) grants_ended: HashMap<String, i64>,
}

impl Facts {
    pub(crate) fn of(evidence: &Evidence) -> Facts {
        let mut facts = Facts::default();
        let mut index = HashMap::new();
        let mut under_way = HashMap::new();
        for record in &evidence.records {
            facts.take_call(record.at, &record.by, &record.what);
            facts.take_hold(record.at, &record.by, &record.what, &mut index);
            match &record.what {
                What::FaultBegan { fault, kind, .. } => {
                    under_way.insert(*fault, facts.faults.len());
                    let (began, ended) = (record.at, evidence.ended.max(record.at));
                    facts.faults.push(Fault { kind: kind.clone(), began, ended });
                }
                What::FaultEnded { fault } => {
                    if let Some(number) = under_way.remove(fault) {
                        facts.faults[number].ended = record.at;
                    }
                }
                What::Stopped => {
                    let stops = facts.stops.entry(record.by.clone()).or_default();
                    stops.push((record.at, Nanos::MAX));
                }
                What::Resumed => {
                    let stops = facts.stops.get_mut(&record.by);
                    if let Some(last) = stops.and_then(|stops| stops.last_mut()) {
                        last.1 = record.at;
                    }
                }
                What::Damaged { value, .. } => drop(facts.damaged.insert(value.clone())),
                What::Crashing | What::Killed => {
                    facts.deaths.entry(record.by.clone()).or_insert(record.at);
                }
                _ => {}
            }
        }
        facts.find_grants(evidence);
        facts
    }

    /// Finds the grant by its token, or without one as the newest that the holder can have heard of.
    fn find_grants(&mut self, evidence: &Evidence) {
        let mut by_token: HashMap<u64, &State> = HashMap::new();
        let mut by_call: HashMap<&str, Vec<(Nanos, &Grant)>> = HashMap::new();
        for change in &evidence.changes {
            if let Some(after) = change.after.as_ref().filter(|after| !after.grants.is_empty()) {
                by_token.insert(change.token, after);
            }
            for ended in change.ended() {
                self.grants_ended.entry(ended.id.clone()).or_insert(change.wall);
            }
            let at = evidence.moment(change.wall);
            for granted in change.granted() {
                by_call.entry(&granted.call).or_default().push((at, granted));
            }
        }
        for hold in &mut self.holds {
            let exact = by_token.get(&hold.token).and_then(|state| state.grant_of(&hold.value));
            let heard_of = by_call.get(hold.call.as_str()).into_iter().flatten();
            let latest = hold.began + evidence.terms.clock_error;
            let newest = heard_of.rev().find(|(at, _)| *at <= latest).map(|(_, grant)| *grant);
            hold.grant = exact.or(newest).map(|grant| grant.id.clone()).unwrap_or_default();
        }
    }

    fn take_call(&mut self, at: Nanos, by: &str, what: &What) {
        if let What::Invoked { call, ttl_ms, wait_ms, permits, .. } = what {
            let new = Call {
                id: call.clone(),
                by: by.to_owned(),
                invoked: at,
                ttl_ms: *ttl_ms,
                wait_ms: *wait_ms,
                permits: *permits,
                ended: None,
                granted: None,
                released: None,
            };
            self.calls.insert(call.clone(), new);
        }
        let (What::Granted { call, .. } | What::Ended { call, .. } | What::Released { call, .. }) =
            what
        else {
            return;
        };
        let Some(known) = self.calls.get_mut(call) else {
            return;
        };
        match what {
            What::Ended { how, .. } => known.ended = Some((at, *how)),
            What::Released { outcome, .. } => known.released = Some(*outcome),
            _ => known.granted = Some(at),
        }
    }

    fn take_hold(&mut self, at: Nanos, by: &str, what: &What, index: &mut HashMap<String, usize>) {
        if let What::Granted { call, name, token, value, valid_until } = what {
            index.insert(call.clone(), self.holds.len());
            let asked = self.calls.get(call);
            let ttl_ms = asked.map_or(0, |call| call.ttl_ms);
            let permits = asked.map_or(Permits::EXCLUSIVE, |call| call.permits);
            self.holds.push(Hold {
                call: call.clone(),
                by: by.to_owned(),
                name: name.clone(),
                token: *token,
                value: value.clone(),
                grant: String::new(),
                began: at,
                ttl_ms,
                permits,
                beliefs: vec![(at, *valid_until)],
                let_go: None,
                lost: None,
            });
        }
        let (What::Renewed { call, .. } | What::Lost { call, .. } | What::Releasing { call, .. }) =
            what
        else {
            return;
        };
        let Some(hold) = index.get(call).and_then(|number| self.holds.get_mut(*number)) else {
            return;
        };
        match what {
            What::Renewed { valid_until, .. } => hold.beliefs.push((at, *valid_until)),
            What::Lost { .. } => hold.lost = hold.lost.or(Some(at)),
            _ => hold.let_go = hold.let_go.or(Some(at)),
        }
    }

    /// The holds of each name, in order.
    pub(crate) fn by_name(&self) -> BTreeMap<&str, Vec<&Hold>> {
        let mut names: BTreeMap<&str, Vec<&Hold>> = BTreeMap::new();
        for hold in &self.holds {
            names.entry(&hold.name).or_default().push(hold);
        }
        names
    }

    /// Whether the document contains a damaged number. Its holders and waiters are handed on when it expires, and its
    /// queue keeps no order.
    pub(crate) fn is_damaged(&self, state: &State) -> bool {
        let grants = state.grants.iter().map(|grant| &grant.value);
        let mut values = grants.chain(state.queue.iter().map(|entry| &entry.value));
        !self.damaged.is_empty() && values.any(|value| self.damaged.contains(value))
    }

    /// For how long a worker was stopped between these moments.
    pub(crate) fn stopped(&self, worker: &str, from: Nanos, to: Nanos) -> Nanos {
        let stops = self.stops.get(worker).into_iter().flatten();
        stops.map(|(began, ended)| overlap((*began, *ended), (from, to))).sum()
    }

    /// For how long the database was faulted between these moments, or in the aftermath of that.
    pub(crate) fn faulted(&self, from: Nanos, to: Nanos) -> Nanos {
        self.faulted_and(RECOVERY, from, to)
    }

    /// The same, with another aftermath.
    pub(crate) fn faulted_and(&self, aftermath: Nanos, from: Nanos, to: Nanos) -> Nanos {
        let mut total = 0;
        let mut until = from;
        // In the order of their beginnings.
        for fault in self.faults.iter().filter(|fault| fault.puts_off()) {
            let end = fault.ended + aftermath;
            total += overlap((fault.began.max(until), end), (from, to));
            until = until.max(end);
        }
        total
    }
}

fn overlap(one: (Nanos, Nanos), other: (Nanos, Nanos)) -> Nanos {
    one.1.min(other.1).saturating_sub(one.0.max(other.0))
}
