//! How things end: dead processes' leases, waits, and the run itself.

// Each reader wants a few of the many kinds of records.
#![allow(clippy::wildcard_enum_match_arm)]

use super::{Cursor, Evidence, Facts, Found, Hold, Invariant, Violation};
use crate::changes::manager;
use crate::history::{OVERLOAD, What};
use crate::maps::{Map, Set};
use crate::time::{MILLI, Nanos};

/// How long a dead holder kept a name blocked, and how long that was acceptable.
#[derive(Clone, Debug)]
pub struct Freed {
    /// When its process died.
    pub died: Nanos,
    /// When the lease was free, if it ever was.
    pub freed: Option<Nanos>,
    /// The last moment at which it may be free.
    pub deadline: Nanos,
    /// There were faults in that time.
    pub is_faulted: bool,
}

/// When the lease of a holder that died was free; `None` if the holder did not die.
pub fn freed(evidence: &Evidence, facts: &Facts, hold: &Hold) -> Option<Freed> {
    let died = *facts.deaths.get(&hold.by)?;
    // A holder that had begun to release may have had the time for it.
    if hold.let_go.is_some() || died >= hold.believed_until() {
        return None;
    }
    let terms = evidence.terms;
    let fair = hold.ttl_ms * MILLI + terms.max_clock_skew + 2 * terms.waiter_ttl;
    let fair = fair + terms.allowances.freeing;
    let deadline = facts.deadline(died, fair, None);
    let ended = facts.grants_ended.get(&hold.key()).map(|wall| evidence.moment(*wall));
    let freed = match hold.permits.is_exclusive() {
        true => ended,
        // A share that has expired stays in the document until somebody is admitted, and counts for nothing.
        false => ended.into_iter().chain(expired_at(evidence, hold)).min(),
    };
    let is_faulted = facts.faulted(died, freed.unwrap_or(deadline)) > 0;
    Some(Freed { died, freed, deadline, is_faulted })
}

/// When the hold's grant expires, by its last write.
fn expired_at(evidence: &Evidence, hold: &Hold) -> Option<Nanos> {
    let grants = evidence.changes.iter().rev().flat_map(|change| &change.after);
    let mut grants = grants.flat_map(|state| &state.grants);
    let last = grants.find(|grant| grant.key() == hold.key())?;
    Some(evidence.moment(last.expires_at)).filter(|at| *at <= evidence.known_until)
}

/// The lease of a dead process is free again in time.
pub(super) fn abandoned(evidence: &Evidence, facts: &Facts, found: &mut Found) {
    for hold in &facts.holds {
        let Some(Freed { died, freed, deadline, .. }) = freed(evidence, facts, hold) else {
            continue;
        };
        if freed.is_none_or(|freed| freed > deadline) {
            let after = freed.map(|freed| (freed.saturating_sub(died)) / MILLI);
            let text = format!("{} kept {} for {after:?} ms after its death", hold.call, hold.name);
            let violation = Violation::new(Invariant::Abandoned, deadline, text);
            found.add(violation.of(hold.name, [hold.call]).since(died));
        }
    }
}

/// Each grant, heard of or not, is gone soon after its document has expired: somebody acquires the lease, or the server
/// removes it. A grant that is still there at the end is left over.
pub(super) fn expired(evidence: &Evidence, facts: &Facts, found: &mut Found) {
    let mut open: Map<&str, (Nanos, Nanos, &str)> = Map::default();
    let mut late = |(since, expires, call): (Nanos, Nanos, &str), name: &str, ended: Nanos| {
        let fair = evidence.terms.allowances.freeing;
        // A damaged ttl may have made a grant that expired before it was written.
        let expires = expires.max(since);
        let deadline = facts.deadline(expires, fair, None);
        if ended > deadline {
            let text = format!("{call} had {name}, which was not freed in time");
            let violation = Violation::new(Invariant::Abandoned, deadline, text);
            found.add(violation.of(name, [call]).since(expires));
        }
    };
    for change in &evidence.changes {
        let at = evidence.moment(change.wall);
        for grant in change.ended() {
            if let Some(known) = open.remove(&grant.id[..]) {
                late(known, &change.name, at);
            }
        }
        if let Some(after) = &change.after {
            let expires = evidence.moment(after.expires_at);
            for grant in &after.grants {
                open.entry(&grant.id).or_insert((at, expires, &grant.call)).1 = expires;
            }
        }
    }
}

/// By how much a call went on beyond its deadline, without the time in which its process was stopped.
pub fn overshoot(facts: &Facts, call: &super::Call) -> Option<Nanos> {
    let answered = call.answered()?;
    let took = answered - call.invoked - facts.stopped(call.by, call.invoked, answered);
    Some(took.saturating_sub(call.time()))
}

/// How late a call may be: a process that is overloaded runs its timers late, by the time that its own work takes.
fn allowed(evidence: &Evidence, facts: &Facts, call: &super::Call) -> Nanos {
    let is_overloaded = facts.faults.iter().any(|fault| {
        let began_before = call.answered().is_some_and(|answered| fault.began <= answered);
        fault.kind == OVERLOAD && began_before && call.invoked <= fault.ended
    });
    let late = evidence.terms.allowances.late;
    if is_overloaded { 2 * late } else { late }
}

/// Each wait ends by its deadline.
pub(super) fn deadlines(evidence: &Evidence, facts: &Facts, found: &mut Found) {
    for call in facts.calls.values() {
        match overshoot(facts, call) {
            Some(late) if late <= allowed(evidence, facts, call) => {}
            Some(late) => {
                let text = format!("{} was answered {} ms late", call.id, late / MILLI);
                let violation = Violation::new(Invariant::Deadline, call.invoked, text);
                found.add(violation.of(call.name, [call.id]));
            }
            None if facts.deaths.contains_key(&call.by) => {}
            None => {
                let stopped = facts.stopped(call.by, call.invoked, Nanos::MAX);
                // In a complete history. While the run goes on, the call may still be answered.
                let late = evidence.terms.allowances.late;
                let at = call.invoked.saturating_add(call.time());
                let at = at.saturating_add(late + stopped.min(evidence.known_until));
                // A call that waits without a limit ends as well before its history is complete.
                let is_complete = evidence.known_until == Nanos::MAX;
                let at = match at {
                    Nanos::MAX if is_complete => evidence.ended.max(call.invoked),
                    _ => at,
                };
                let text = format!("{} never ended", call.id);
                let violation = Violation::new(Invariant::Deadline, at, text);
                found.add(violation.of(call.name, [call.id]).since(call.invoked));
            }
        }
    }
}

/// After an overload, a call for a lease that nobody has is granted within its wait, unless there were other faults.
pub(super) fn recovery(evidence: &Evidence, facts: &Facts, found: &mut Found) {
    let allowances = evidence.terms.allowances;
    for record in &evidence.records {
        let What::LoadOver { load, wait_ms, took_ms, is_granted } = record.what else {
            continue;
        };
        let asked = record.at.saturating_sub(took_ms * MILLI);
        let is_faulted = facts.faults.iter().any(|fault| {
            let over = fault.ended + allowances.aftermath;
            fault.kind != OVERLOAD && fault.began <= record.at && asked <= over
        });
        let is_in_time = is_granted && took_ms * MILLI <= wait_ms * MILLI + allowances.late;
        if !is_in_time && !is_faulted {
            let how = if is_granted { "granted" } else { "refused" };
            let text =
                format!("{} was {how} a free lease after load {load}, in {took_ms} ms", record.by);
            found.add(Violation::new(Invariant::Recovery, record.at, text).since(asked));
        }
    }
}

/// Whether the driver is responsible for a cursor, and not the library.
///
/// The driver is responsible for a cursor that was last used during faults: its connection broke, and its owner could
/// not tell the server that it is no longer needed. It is also responsible for one at a former primary: the stream goes
/// on there, and when it is closed, the driver (3.9.1) sends `killCursors` to the new one. The server drops both in its
/// own time.
pub fn is_lost(evidence: &Evidence, cursor: &Cursor) -> bool {
    !cursor.is_at_primary || {
        evidence.moment(cursor.used) < evidence.ended + evidence.terms.clock_error
    }
}

/// Nothing is left over at the end.
pub(super) fn left_over(evidence: &Evidence, facts: &Facts, found: &mut Found) {
    let mut add =
        |text: String| found.add(Violation::new(Invariant::LeftOver, evidence.ended, text));
    for document in &evidence.left.documents {
        add(format!("a document: {document}"));
    }
    if evidence.left.workers > 0 {
        add(format!("{} workers did not end, or not well", evidence.left.workers));
    }
    // A manager that was killed cannot close its stream.
    let well: Set<&str> = facts
        .holds
        .iter()
        .filter(|hold| !facts.deaths.contains_key(&hold.by))
        .map(|hold| manager(hold.value))
        .collect();
    for cursor in &evidence.left.cursors {
        let shown = &cursor.shown;
        if let Some(manager) = well.iter().find(|manager| shown.contains(**manager))
            && !is_lost(evidence, cursor)
        {
            add(format!("a cursor of manager {manager}: {shown}"));
        }
    }
    for record in &evidence.records {
        match record.what {
            What::ShutDown { left_to_expire, tasks_left, .. }
                if left_to_expire + tasks_left > 0 =>
            {
                add(format!("{}: {left_to_expire} leases, {tasks_left} tasks", record.by));
            }
            What::Left { tasks, sockets, .. } if tasks + sockets > 0 => {
                add(format!("{}: {tasks} tasks, {sockets} sockets", record.by));
            }
            _ => {}
        }
    }
}
