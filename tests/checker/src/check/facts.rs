//! Facts from the records: calls, holds, faults, and when processes were stopped or dead.

// Each reader wants a few of the many kinds of records.
#![allow(clippy::wildcard_enum_match_arm)]

use std::borrow::Cow;
use std::collections::BTreeMap;

use super::Evidence;
use crate::changes::{Grant, GrantKey, State};
use crate::history::{CURSOR, Ending, KILL_WORKER, Outcome, What};
use crate::maps::{Map, OrderedMap, Set};
use crate::permits::Permits;
use crate::time::{MILLI, Nanos};

/// One acquire call.
#[derive(Clone, Debug)]
pub struct Call<'a> {
    /// Its id, which no other has.
    pub id: &'a str,
    /// The name of its process.
    pub by: &'a str,
    /// The name of the lease.
    pub name: &'a str,
    /// When it began.
    pub invoked: Nanos,
    /// The ttl that it asked for.
    pub ttl_ms: u64,
    /// Its longest wait; `None` for a call that does not wait.
    pub wait_ms: Option<u64>,
    /// The permits that it asked for.
    pub permits: Permits,
    /// How it ended, if it got no lease.
    pub ended: Option<(Nanos, Ending)>,
    /// When its caller heard of its grant.
    pub granted: Option<Nanos>,
    /// The result of its release.
    pub released: Option<Outcome>,
}

impl Call<'_> {
    /// For how long it may go on, without what is allowed beyond. A call that does not wait has the time of two
    /// attempts, which is a ttl.
    pub(super) fn time(&self) -> Nanos {
        self.wait_ms.unwrap_or(self.ttl_ms).saturating_mul(MILLI)
    }

    /// When its caller heard of it.
    pub fn answered(&self) -> Option<Nanos> {
        self.granted.or(self.ended.map(|(at, _)| at))
    }
}

/// One lease in a worker's hands.
#[derive(Clone, Debug)]
pub struct Hold<'a> {
    /// The id of the call that was granted it.
    pub call: &'a str,
    /// The name of its process.
    pub by: &'a str,
    /// The name of the lease.
    pub name: &'a str,
    /// Its fencing token.
    pub token: u64,
    /// The text that identifies the holder.
    pub value: &'a str,
    /// The identity of the grant, by the oplog. A call may be granted a lease twice, and believes in one of the grants.
    pub grant: &'a str,
    /// When it was granted, by the server's clock in milliseconds. Two grants of one call have one identity where the
    /// document was deleted between them.
    pub granted_at: i64,
    /// When its holder heard of it.
    pub began: Nanos,
    /// Its ttl.
    pub ttl_ms: u64,
    /// Its permits.
    pub permits: Permits,
    /// The beliefs: at each moment, the end of validity.
    pub beliefs: Vec<(Nanos, Nanos)>,
    /// When its holder began to release it.
    pub let_go: Option<Nanos>,
    /// When its holder reported the loss.
    pub lost: Option<Nanos>,
}

impl<'a> Hold<'a> {
    /// Its grant.
    pub fn key(&self) -> GrantKey<'a> {
        (self.grant, self.granted_at)
    }

    /// The end of its belief, by the whole history. A process that dies takes nothing back.
    pub fn believed_until(&self) -> Nanos {
        let until = self.beliefs.iter().map(|(_, until)| *until).max().unwrap_or(self.began);
        let ends = [self.let_go, self.lost].into_iter().flatten();
        ends.fold(until, Nanos::min)
    }
}

/// A fault, from its beginning to its end.
#[derive(Clone, Debug)]
pub struct Fault {
    /// Its kind, as the history has it.
    pub kind: String,
    /// Its beginning.
    pub began: Nanos,
    /// Its end; the end of all faults, if the history has none.
    pub ended: Nanos,
}

impl Fault {
    /// Whether waiters may have to wait for its end. Waiting has to cope with a dead worker and a dead cursor.
    pub(super) fn puts_off(&self) -> bool {
        !matches!(&self.kind[..], KILL_WORKER | CURSOR)
    }
}

/// A grant as a write made it.
struct Made<'a> {
    at: Nanos,
    token: u64,
    grant: &'a Grant,
}

/// The facts of a run.
#[derive(Clone, Debug, Default)]
pub struct Facts<'a> {
    /// The calls by their ids, in the order of these.
    pub calls: OrderedMap<&'a str, Call<'a>>,
    /// In the order in which their holders heard of them.
    pub holds: Vec<Hold<'a>>,
    /// In the order of their beginnings.
    pub faults: Vec<Fault>,
    /// The times in which each worker was stopped.
    pub stops: Map<&'a str, Vec<(Nanos, Nanos)>>,
    /// When each worker died that did not end by itself.
    pub deaths: Map<&'a str, Nanos>,
    /// The values of holders and waiters whose stored numbers were damaged.
    pub damaged: Set<&'a str>,
    /// When the holder with each value heard of its grant.
    pub heard: Map<&'a str, Nanos>,
    /// When each grant ended, by the servers' clock in milliseconds.
    pub grants_ended: Map<GrantKey<'a>, i64>,
    /// The times in which a fault or its aftermath puts off waiters, in the order of their beginnings.
    put_off: Vec<(Nanos, Nanos)>,
}

impl<'a> Facts<'a> {
    /// Reads the evidence.
    pub fn of(evidence: &'a Evidence) -> Facts<'a> {
        let mut facts = Facts::default();
        let mut index = Map::default();
        let mut under_way = Map::default();
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
                    // A process that is stopped already is not stopped once more.
                    let stops = facts.stops.entry(&record.by).or_default();
                    if stops.last().is_none_or(|(_, until)| *until < Nanos::MAX) {
                        stops.push((record.at, Nanos::MAX));
                    }
                }
                What::Resumed => {
                    let stops = facts.stops.get_mut(&record.by[..]);
                    let last = stops.and_then(|stops| stops.last_mut());
                    if let Some((_, until)) = last.filter(|(_, until)| *until == Nanos::MAX) {
                        *until = record.at;
                    }
                }
                What::Damaged { value, .. } => drop(facts.damaged.insert(value)),
                What::Crashing | What::Killed => {
                    facts.deaths.entry(&record.by).or_insert(record.at);
                }
                _ => {}
            }
        }
        facts.calls.sort_unstable_keys();
        let faults = facts.faults.iter().filter(|fault| fault.puts_off());
        let aftermath = evidence.terms.allowances.aftermath;
        facts.put_off = faults.map(|fault| (fault.began, fault.ended + aftermath)).collect();
        facts.put_off.sort_unstable();
        facts.find_grants(evidence);
        facts
    }

    /// Finds the grant by its token. The token of a batch is that of its last write: then it is the newest grant that
    /// is no later than the token and of which the holder can have heard; where none is, the newest of which it can.
    fn find_grants(&mut self, evidence: &'a Evidence) {
        // The name is in both keys: calls that travel in one batch have one token, and a value may be a user's own. A
        // call's id is in neither: a call for several leases has one id in all of their documents.
        let mut by_token: Map<(u64, &str), &State> = Map::default();
        let mut by_value: Map<(&str, &str), Vec<Made<'_>>> = Map::default();
        for change in &evidence.changes {
            if let Some(after) = change.after.as_ref().filter(|after| !after.grants.is_empty()) {
                by_token.insert((change.token, &change.name), after);
            }
            for ended in change.over() {
                self.grants_ended.entry(ended.key()).or_insert(change.wall);
            }
            let at = evidence.moment(change.wall);
            for granted in change.granted() {
                let of_value = by_value.entry((&granted.value, &change.name)).or_default();
                of_value.push(Made { at, token: change.token, grant: granted });
            }
        }
        for hold in &mut self.holds {
            let state = by_token.get(&(hold.token, hold.name));
            let exact = state.and_then(|state| state.grant_of(hold.value));
            let latest = hold.began + evidence.terms.clock_error;
            let heard_of = by_value.get(&(hold.value, hold.name)).into_iter().flatten();
            let mut heard_of = heard_of.rev().filter(|made| made.at <= latest).peekable();
            let newest = heard_of.peek().map(|made| made.grant);
            let own = heard_of.find(|made| made.token <= hold.token).map(|made| made.grant);
            if let Some(grant) = exact.or(own).or(newest) {
                (hold.grant, hold.granted_at) = (&grant.id, grant.acquired_at);
            }
        }
    }

    fn take_call(&mut self, at: Nanos, by: &'a str, what: &'a What) {
        if let What::Invoked { call, name, ttl_ms, wait_ms, permits } = what {
            let new = Call {
                id: call,
                by,
                name,
                invoked: at,
                ttl_ms: *ttl_ms,
                wait_ms: *wait_ms,
                permits: *permits,
                ended: None,
                granted: None,
                released: None,
            };
            self.calls.insert(call, new);
        }
        let (What::Granted { call, .. } | What::Ended { call, .. } | What::Released { call, .. }) =
            what
        else {
            return;
        };
        let Some(known) = self.calls.get_mut(&call[..]) else {
            return;
        };
        match what {
            What::Ended { how, .. } => known.ended = Some((at, *how)),
            What::Released { outcome, .. } => known.released = Some(*outcome),
            _ => known.granted = Some(at),
        }
    }

    fn take_hold(
        &mut self,
        at: Nanos,
        by: &'a str,
        what: &'a What,
        index: &mut Map<&'a str, usize>,
    ) {
        if let What::Granted { call, name, token, value, valid_until } = what {
            index.insert(call, self.holds.len());
            self.heard.insert(value, at);
            let asked = self.calls.get(&call[..]);
            let ttl_ms = asked.map_or(0, |call| call.ttl_ms);
            let permits = asked.map_or(Permits::EXCLUSIVE, |call| call.permits);
            self.holds.push(Hold {
                call,
                by,
                name,
                token: *token,
                value,
                grant: "",
                granted_at: 0,
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
        let Some(hold) = index.get(&call[..]).and_then(|number| self.holds.get_mut(*number)) else {
            return;
        };
        match what {
            What::Renewed { valid_until, .. } => hold.beliefs.push((at, *valid_until)),
            What::Lost { .. } => hold.lost = hold.lost.or(Some(at)),
            _ => hold.let_go = hold.let_go.or(Some(at)),
        }
    }

    /// The calls of each process for each name, in the order of their ids.
    pub fn by_process(&self) -> OrderedMap<(&'a str, &'a str), Vec<&Call<'a>>> {
        let mut calls: OrderedMap<_, Vec<_>> = OrderedMap::default();
        for call in self.calls.values() {
            calls.entry((call.by, call.name)).or_default().push(call);
        }
        calls.sort_unstable_keys();
        calls
    }

    /// The holds of each name, in order.
    pub fn by_name(&self) -> BTreeMap<&'a str, Vec<&Hold<'a>>> {
        let mut names: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for hold in &self.holds {
            names.entry(hold.name).or_default().push(hold);
        }
        names
    }

    /// Whether the document contains a damaged number. Its holders and waiters are handed on when it expires, and its
    /// queue keeps no order.
    pub fn is_damaged(&self, state: &State) -> bool {
        let grants = state.grants.iter().map(|grant| &grant.value);
        let mut values = grants.chain(state.queue.iter().map(|entry| &entry.value));
        !self.damaged.is_empty() && values.any(|value| self.damaged.contains(&value[..]))
    }

    /// For how long a worker was stopped between these moments.
    pub fn stopped(&self, worker: &str, from: Nanos, to: Nanos) -> Nanos {
        let stops = self.stops.get(worker).into_iter().flatten();
        stops.map(|(began, ended)| overlap((*began, *ended), (from, to))).sum()
    }

    /// When this time has gone by since then, without that of faults, of their aftermath, and of stops of the worker.
    pub(super) fn deadline(&self, began: Nanos, fair: Nanos, worker: Option<&str>) -> Nanos {
        let stops = worker.and_then(|worker| self.stops.get(worker));
        let excused = stops.map_or(Cow::Borrowed(&self.put_off), |stops| {
            let mut all = [&self.put_off[..], stops].concat();
            all.sort_unstable();
            Cow::Owned(all)
        });
        let (mut at, mut left) = (began, fair);
        for (from, to) in excused.iter().copied().filter(|(_, to)| *to > began) {
            let counted = from.saturating_sub(at);
            if counted >= left {
                break;
            }
            left -= counted;
            at = at.max(to);
        }
        at.saturating_add(left)
    }

    /// For how long the database was faulted between these moments, without the aftermath.
    pub fn faulted(&self, from: Nanos, to: Nanos) -> Nanos {
        let mut total = 0;
        let mut until = from;
        // In the order of their beginnings.
        for fault in self.faults.iter().filter(|fault| fault.puts_off()) {
            total += overlap((fault.began.max(until), fault.ended), (from, to));
            until = until.max(fault.ended);
        }
        total
    }
}

fn overlap(one: (Nanos, Nanos), other: (Nanos, Nanos)) -> Nanos {
    one.1.min(other.1).saturating_sub(one.0.max(other.0))
}
