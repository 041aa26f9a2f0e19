//! Promises that hold only while nothing ails the system, and which the checker of real clusters cannot see therefore:
//! releases end their grants at once, holders that renew lose nothing, waiters keep their entries, and a shutdown
//! forgets nothing.

// Each reader wants a few of the many kinds of faults.
#![allow(clippy::wildcard_enum_match_arm)]

use std::fmt;

use mongo_lease_checker::changes::{Change, GrantKey};
use mongo_lease_checker::history::What;
use mongo_lease_checker::maps::{Map, OrderedMap};
use mongo_lease_checker::{Call, Evidence, Facts, Hold, MILLI, Nanos, SECOND, Violation};

use crate::neighbours::{PLAIN, is_operated};
use crate::plan::{Fault, Kind, Plan, Whom};
use crate::round::History;
use crate::turns;
use crate::workload::JOB;

/// How long a fault may be felt after it is over.
pub(crate) const AFTERMATH: Nanos = 5 * SECOND;
/// How long a release may take in good health.
const RELEASE: Nanos = SECOND;

/// A promise that was not kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken {
    /// The promise: an invariant of the checker, or one of these.
    pub promise: String,
    /// When it was broken.
    pub at: Nanos,
    /// The name of the lease, if it concerns one.
    pub lease: Option<String>,
    /// The calls that it concerns.
    pub calls: Vec<String>,
    /// The event, in words.
    pub text: String,
}

impl fmt::Display for Broken {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Broken { promise, at, text, .. } = self;
        write!(formatter, "{promise} at {}.{:03} s: {text}", at / SECOND, at % SECOND / MILLI)
    }
}

impl From<Violation> for Broken {
    fn from(violation: Violation) -> Broken {
        let Violation { invariant, at, lease, calls, text, .. } = violation;
        Broken { promise: format!("{invariant:?}"), at, lease, calls, text }
    }
}

/// The calls of each process for each lease, in the order of their ids.
pub(crate) type Calls<'a> = OrderedMap<(&'a str, &'a str), Vec<&'a Call<'a>>>;

/// The promises of this file that were broken.
pub(crate) fn broken(plan: &Plan, history: &History, facts: &Facts) -> Vec<Broken> {
    let calls = facts.by_process();
    let mut sight = Sight { plan, history, facts, calls: &calls, found: Vec::new() };
    sight.releases();
    sight.dropped_calls();
    sight.losses();
    sight.entries();
    sight.shutdowns();
    sight.prompt();
    let is_calm =
        |process: &str, from: Nanos, to| sight.is_calm(process, from.saturating_sub(AFTERMATH), to);
    let given_up = turns::given_up(history, facts, &calls, is_calm);
    sight.found.extend(given_up);
    sight.found
}

pub(crate) struct Sight<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) history: &'a History,
    pub(crate) facts: &'a Facts<'a>,
    /// The calls of each process for each lease.
    calls: &'a Calls<'a>,
    pub(crate) found: Vec<Broken>,
}

impl<'a> Sight<'a> {
    pub(crate) fn evidence(&self) -> &'a Evidence {
        &self.history.evidence
    }

    pub(crate) fn add(
        &mut self,
        promise: &str,
        at: Nanos,
        (lease, call): (&str, &str),
        text: String,
    ) {
        let (promise, lease) = (promise.to_owned(), Some(lease.to_owned()));
        self.found.push(Broken { promise, at, lease, calls: vec![call.to_owned()], text });
    }

    /// Whether nothing ails this process or the server in this time. The troubles of other processes count for nothing.
    pub(crate) fn is_calm(&self, process: &str, from: Nanos, to: Nanos) -> bool {
        self.is_calm_after(AFTERMATH, process, from, to)
    }

    /// The same, where a fault is felt for so long after it is over.
    pub(crate) fn is_calm_after(
        &self,
        aftermath: Nanos,
        process: &str,
        from: Nanos,
        to: Nanos,
    ) -> bool {
        let began = self.evidence().began;
        let seat = seat_of(process);
        let ails = |fault: &Fault| {
            let is_anothers = match fault.kind {
                Kind::Stop(it) | Kind::Kill(it) | Kind::ShutDown(it) => Some(it) != seat,
                Kind::Loss { whom: Whom::One(it), .. }
                | Kind::Late { whom: Whom::One(it), .. }
                | Kind::LinkHangs(Whom::One(it)) => Some(it) != seat,
                _ => false,
            };
            let begins = began + fault.at_ms * MILLI;
            let ends = began + fault.over_ms() * MILLI + aftermath;
            !is_anothers && begins < to && from < ends
        };
        !self.plan.faults.iter().any(ails)
    }

    pub(crate) fn grant_ended(&self, grant: GrantKey<'_>) -> Nanos {
        let ended = self.facts.grants_ended.get(&grant);
        ended.map_or(Nanos::MAX, |wall| self.evidence().moment(*wall))
    }

    fn margin(&self) -> Nanos {
        RELEASE + 2 * self.evidence().terms.clock_error
    }

    /// A release, or a drop, ends its grant at once.
    fn releases(&mut self) {
        for hold in &self.facts.holds {
            let Some(let_go) = hold.let_go else { continue };
            let is_kept = hold.name == JOB || PLAIN.contains(&hold.name);
            let was_lost = hold.lost.is_some() || let_go >= believed(hold);
            if is_kept || was_lost || hold.grant.is_empty() || is_operated(hold.name) {
                continue;
            }
            let (late, by) = (let_go + self.margin(), self.facts.deaths.contains_key(hold.by));
            let is_calm = self.is_calm(hold.by, let_go.saturating_sub(AFTERMATH), late);
            if is_calm && !by && self.grant_ended(hold.key()) > late {
                let text = format!("{} of {} was released and goes on", hold.call, hold.name);
                self.add("Release", late, (hold.name, hold.call), text);
            }
        }
    }

    /// A call that has ended without a lease gives back at once all that it is granted.
    fn dropped_calls(&mut self) {
        for change in &self.evidence().changes {
            for grant in change.granted() {
                let Some(call) = self.facts.calls.get(&grant.call[..]) else { continue };
                let Some((ended, _)) = call.ended else { continue };
                if self.history.excused.contains(call.id) {
                    continue;
                }
                let at = self.evidence().moment(change.wall);
                let Some(left) = self.left_by_heirs(call, &grant.value, ended.max(at)) else {
                    continue;
                };
                let late = left + self.margin();
                let is_calm = self.is_calm(call.by, call.invoked.saturating_sub(AFTERMATH), late);
                let is_dead = self.facts.deaths.contains_key(call.by);
                if is_calm && !is_dead && self.grant_ended(grant.key()) > late {
                    let text = format!("{} has ended, and {} is still its", call.id, call.name);
                    self.add("GiveBack", late, (call.name, call.id), text);
                }
            }
        }
    }

    /// When nobody of the process waits any more who has inherited the entry of an ended call, and the grant with it.
    /// `None`: never, or one of them has heard of the grant.
    ///
    /// The next call of the process inherits. Where that one is not polled, it hears of nothing until its turn is over.
    fn left_by_heirs(&self, call: &Call<'_>, value: &str, ended: Nanos) -> Option<Nanos> {
        let others = self.calls.get(&(call.by, call.name)).into_iter().flatten();
        let others: Vec<_> = others.filter(|other| other.id != call.id).collect();
        let mut left = ended;
        loop {
            let heirs = others.iter().filter(|heir| {
                let waits = heir.answered().is_none_or(|answered| answered > left);
                heir.invoked <= left && waits
            });
            let mut longest = left;
            for heir in heirs {
                if self.facts.heard.contains_key(value) {
                    return None;
                }
                if self.history.excused.contains(heir.id) {
                    longest = longest.max(heir.answered()?);
                }
            }
            if longest == left {
                return Some(left);
            }
            left = longest;
        }
    }

    /// Whether a transaction of this call ended in this time.
    fn ended_a_transaction(&self, of: &str, (from, to): (Nanos, Nanos)) -> bool {
        self.evidence().records.iter().any(|record| {
            let is_its = matches!(&record.what, What::Transacted { call, .. } if call == of);
            is_its && from <= record.at && record.at <= to
        })
    }

    /// A holder that renews loses nothing.
    fn losses(&mut self) {
        for hold in &self.facts.holds {
            let Some(lost) = hold.lost else { continue };
            // It has more than half of the ttl for renewals, and needs little of that in good health.
            let believed = believed(hold).min(lost);
            let mut from = believed.saturating_sub(hold.ttl_ms * MILLI * 45 / 100 + SECOND / 3);
            // In a transaction it does not look at its lease, so it notes neither a renewal nor the loss meanwhile.
            let over = match self.ended_a_transaction(hold.call, (believed, lost)) {
                true => lost,
                false => believed,
            };
            let is_mine = self.history.renewing.contains(hold.call) && !is_operated(hold.name);
            let is_before = hold.let_go.is_none_or(|let_go| lost <= let_go);
            if hold.began > from {
                // It heard of its grant so late that it had less. A call that is not polled does.
                if self.history.excused.contains(hold.call) {
                    continue;
                }
                from = believed.saturating_sub(hold.ttl_ms * MILLI);
            }
            if is_mine && is_before && self.is_calm_after(0, hold.by, from, over) {
                let text = format!("{} lost {} without a reason", hold.call, hold.name);
                self.add("Renewal", lost, (hold.name, hold.call), text);
            }
        }
    }

    /// A call that waits keeps its entry.
    fn entries(&mut self) {
        let mut last: Map<&str, &Change> = Map::default();
        for change in &self.evidence().changes {
            let before = last.insert(&change.name, change).and_then(|change| change.after.as_ref());
            let entries = before.into_iter().flat_map(|before| &before.queue);
            for entry in entries.filter(|entry| entry.expires_at < change.wall) {
                let over = self.evidence().moment(entry.expires_at);
                let Some(call) = self.facts.calls.get(&entry.call[..]) else { continue };
                // It needs no entry beyond its wait, and a process that is stopped then answers later.
                let patience = call.wait_ms.map(|wait_ms| wait_ms.saturating_mul(MILLI));
                let gives_up = patience.map(|patience| call.invoked.saturating_add(patience));
                let died = self.facts.deaths.get(call.by).copied();
                let gone = [call.answered(), died, gives_up].into_iter().flatten().min();
                let waits = gone.is_none_or(|gone| gone > over + self.margin());
                let from = over.saturating_sub(AFTERMATH + 2 * self.evidence().terms.waiter_ttl);
                let waits = waits && !self.history.excused.contains(call.id);
                // Each heartbeat waits for a part of this time.
                let long = self.evidence().terms.waiter_ttl / 6;
                let waits = waits && !self.history.is_blocked(call.name, (from, over), long);
                if waits && self.is_calm(call.by, from, over) {
                    let text = format!("the entry of {} for {} expired", call.id, call.name);
                    self.add("Entry", over, (call.name, call.id), text);
                }
            }
        }
    }

    /// After a shutdown nothing of the process is held. A lease that was lost before expires.
    fn shutdowns(&mut self) {
        let evidence = self.evidence();
        for record in &evidence.records {
            let What::ShutDown { left_to_expire: 0, tasks_left: 0, .. } = record.what else {
                continue;
            };
            let late = record.at + self.margin();
            let is_its = |fault: &Fault| {
                let at = evidence.began + fault.at_ms * MILLI;
                matches!(fault.kind, Kind::ShutDown(_)) && at.abs_diff(record.at) < 2 * SECOND
            };
            let others = self.plan.faults.iter().filter(|it| !is_its(it)).copied().collect();
            let others = Plan { faults: others, ..self.plan.clone() };
            let calm = Sight { plan: &others, found: Vec::new(), ..*self };
            let is_calm = calm.is_calm(&record.by, record.at.saturating_sub(2 * AFTERMATH), late);
            let mine = |hold: &&Hold| hold.by == record.by && !is_operated(hold.name);
            let kept = |hold: &&Hold| {
                let was_lost = hold.lost.is_some_and(|lost| lost <= record.at);
                hold.name != JOB && !PLAIN.contains(&hold.name) && !was_lost
            };
            let holds = self.facts.holds.iter().filter(mine).filter(kept);
            let on = holds.filter(|it| !it.grant.is_empty() && self.grant_ended(it.key()) > late);
            let on: Vec<&Hold> = on.filter(|_| is_calm).collect();
            for hold in on {
                let text = format!("{} of {} outlives the shutdown", hold.call, hold.name);
                self.add("ShutDown", late, (hold.name, hold.call), text);
            }
        }
    }
}

/// The seat of a process, which the next one in it takes over.
pub(crate) fn seat_of(process: &str) -> Option<usize> {
    process.strip_prefix('p')?.split('.').next()?.parse().ok()
}

/// The end of a hold's belief, by its last renewal alone.
fn believed(hold: &Hold) -> Nanos {
    hold.beliefs.iter().map(|(_, until)| *until).max().unwrap_or(hold.began)
}
