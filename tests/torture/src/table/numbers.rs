//! The numbers of a run.

// Each reader wants a few of the many kinds of records.
#![allow(clippy::wildcard_enum_match_arm)]

use std::collections::BTreeMap;

use mongo_lease_checker::changes::State;
use mongo_lease_checker::history::{Ending, Letting, Outcome, TransactionEnd, What};
use mongo_lease_checker::{self as checker, Evidence, Facts, MILLI, Nanos, SECOND};

/// How long after a fault a pause of grants is counted as the fault's.
const AFTERMATH: Nanos = 6 * SECOND;

/// How calls of unknown outcome really ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Unknown {
    /// Nothing had happened.
    pub(crate) nothing: usize,
    /// It was granted after all, and given back or handed off.
    pub(crate) given_back: usize,
    /// It was granted, and expired.
    pub(crate) expired: usize,
}

/// The numbers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Numbers {
    pub(crate) acquires: usize,
    pub(crate) grants: usize,
    pub(crate) promotions: usize,
    pub(crate) endings: BTreeMap<&'static str, usize>,
    pub(crate) waits: usize,
    pub(crate) renewals: usize,
    pub(crate) losses: usize,
    pub(crate) releases: BTreeMap<&'static str, usize>,
    pub(crate) drops: usize,
    pub(crate) transactions: BTreeMap<&'static str, usize>,
    pub(crate) deaths: usize,
    pub(crate) faults: BTreeMap<String, usize>,
    /// For each kind of fault that came alone, the longest time without a grant.
    pub(crate) pauses: BTreeMap<String, Vec<Nanos>>,
    pub(crate) faulted: Nanos,
    pub(crate) unknown_acquires: Unknown,
    pub(crate) unknown_releases: Unknown,
    /// How long it took until an abandoned lease was free, without faults meanwhile and with them.
    pub(crate) freed: Vec<Nanos>,
    pub(crate) freed_under_fault: Vec<Nanos>,
    pub(crate) overshoot: Nanos,
    /// The grants by their limit.
    pub(crate) by_limit: BTreeMap<u32, usize>,
    /// How long first waiters waited although they fitted, without faults meanwhile and with them.
    pub(crate) gaps: Vec<Nanos>,
    pub(crate) gaps_under_fault: Vec<Nanos>,
    pub(crate) writes: usize,
    pub(crate) stale_refused: usize,
    pub(crate) refused: usize,
    /// Queues that were lost with a document that the TTL monitor removed.
    pub(crate) lines_lost: usize,
    pub(crate) memory_peak_kb: u64,
}

impl Numbers {
    pub(crate) fn of(evidence: &Evidence) -> Numbers {
        let facts = Facts::of(evidence);
        let mut numbers = Numbers::default();
        numbers.count_records(evidence);
        numbers.count_calls(&facts);
        numbers.count_changes(evidence);
        numbers.sort_out_unknown(evidence, &facts);
        numbers.count_pauses(evidence, &facts);
        for hold in &facts.holds {
            if let Some(freed) = checker::freed(evidence, &facts, hold)
                && let Some(at) = freed.freed
            {
                let list = match freed.is_faulted {
                    true => &mut numbers.freed_under_fault,
                    false => &mut numbers.freed,
                };
                list.push(at.saturating_sub(freed.died));
            }
        }
        for hold in &facts.holds {
            *numbers.by_limit.entry(hold.permits.limit).or_default() += 1;
        }
        for gap in checker::gaps(evidence, &facts) {
            let list = match gap.is_faulted {
                true => &mut numbers.gaps_under_fault,
                false => &mut numbers.gaps,
            };
            list.push(gap.ended - gap.began);
        }
        numbers.deaths = facts.deaths.len();
        numbers.faulted = evidence.ended.saturating_sub(evidence.began);
        numbers
    }

    fn count_records(&mut self, evidence: &Evidence) {
        for record in &evidence.records {
            match &record.what {
                What::Granted { .. } => self.grants += 1,
                What::Renewed { .. } => self.renewals += 1,
                What::Lost { .. } => self.losses += 1,
                What::Releasing { how: Letting::Drop, .. } => self.drops += 1,
                What::Released { outcome, .. } => {
                    *self.releases.entry(word_for(*outcome)).or_default() += 1;
                }
                What::Transacted { end, .. } => {
                    *self.transactions.entry(word_for_end(*end)).or_default() += 1;
                }
                What::Judged { accepted, .. } => {
                    self.writes += 1;
                    self.refused += usize::from(!accepted);
                }
                What::Wrote { accepted: Some(false), is_stale: true, .. } => {
                    self.stale_refused += 1
                }
                What::FaultBegan { kind, .. } => {
                    *self.faults.entry(kind.clone()).or_default() += 1;
                }
                What::Left { memory_peak_kb, .. } => {
                    self.memory_peak_kb = self.memory_peak_kb.max(*memory_peak_kb);
                }
                _ => {}
            }
        }
    }

    fn count_calls(&mut self, facts: &Facts) {
        self.acquires = facts.calls.len();
        for call in facts.calls.values() {
            self.waits += usize::from(call.wait_ms.is_some());
            if let Some((_, how)) = call.ended {
                *self.endings.entry(word_for_ending(how)).or_default() += 1;
            }
            self.overshoot = self.overshoot.max(checker::overshoot(facts, call).unwrap_or(0));
        }
    }

    fn count_changes(&mut self, evidence: &Evidence) {
        for change in &evidence.changes {
            self.promotions += change.promoted().count();
            let waits = |state: &State| {
                let mut queue = state.queue.iter();
                queue.any(|entry| state.is_live(entry, change.wall))
            };
            let is_gone = change.after.is_none() && change.before.as_deref().is_some_and(waits);
            self.lines_lost += usize::from(is_gone);
        }
    }

    /// Finds out from the oplog how calls and releases of unknown outcome ended.
    fn sort_out_unknown(&mut self, evidence: &Evidence, facts: &Facts) {
        let mut grants: BTreeMap<&str, Vec<Option<bool>>> = BTreeMap::new();
        for change in &evidence.changes {
            for granted in change.granted() {
                grants.entry(&granted.call).or_default().push(None);
            }
            for ended in change.ended() {
                let last = grants.get_mut(&ended.call[..]).and_then(|list| list.last_mut());
                if let Some(last) = last {
                    *last = Some(ended.expires_at <= change.wall);
                }
            }
        }
        for call in facts.calls.values() {
            let of_call = grants.get(call.id).map(Vec::as_slice).unwrap_or_default();
            let is_unknown = |(_, how): (Nanos, Ending)| {
                matches!(how, Ending::Unknown | Ending::TimedOutUnknown | Ending::Failed)
            };
            let unknown = if call.ended.is_some_and(is_unknown) {
                &mut self.unknown_acquires
            } else if matches!(call.released, Some(Outcome::Unknown | Outcome::Failed)) {
                &mut self.unknown_releases
            } else {
                continue;
            };
            match of_call.last() {
                None => unknown.nothing += 1,
                Some(Some(false)) => unknown.given_back += 1,
                Some(Some(true) | None) => unknown.expired += 1,
            }
        }
    }

    /// The longest time without a grant, from the beginning of each fault to a while behind its end.
    fn count_pauses(&mut self, evidence: &Evidence, facts: &Facts) {
        let grants: Vec<Nanos> = facts.holds.iter().map(|hold| hold.began).collect();
        for fault in &facts.faults {
            let is_beside = |other: &checker::Fault| {
                other.began != fault.began && other.began < fault.ended && fault.began < other.ended
            };
            if facts.faults.iter().any(is_beside) {
                continue;
            }
            let next = facts.faults.iter().map(|other| other.began);
            let next = next.filter(|began| *began > fault.ended).min().unwrap_or(evidence.ended);
            let until = (fault.ended + AFTERMATH).min(next.max(fault.ended));
            let within = |at: &Nanos| *at > fault.began && *at < until;
            let mut last = fault.began;
            let mut longest = 0;
            for at in grants.iter().copied().filter(within).chain([until]) {
                longest = longest.max(at - last);
                last = at;
            }
            self.pauses.entry(fault.kind.clone()).or_default().push(longest);
        }
    }
}

/// The median, in milliseconds.
pub(crate) fn middle(times: &[Nanos]) -> u64 {
    let mut sorted = times.to_vec();
    sorted.sort_unstable();
    sorted.get(sorted.len().saturating_sub(1) / 2).map_or(0, |time| time / MILLI)
}

/// The longest, in milliseconds.
pub(crate) fn longest(times: &[Nanos]) -> u64 {
    times.iter().max().map_or(0, |time| time / MILLI)
}

fn word_for(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Released => "released",
        Outcome::NotHeld => "not held",
        Outcome::Unknown => "unknown",
        Outcome::Failed => "failed",
    }
}

fn word_for_end(end: TransactionEnd) -> &'static str {
    match end {
        TransactionEnd::Committed => "committed",
        TransactionEnd::NotCommitted => "not committed",
        TransactionEnd::Unknown => "unknown",
    }
}

fn word_for_ending(how: Ending) -> &'static str {
    match how {
        Ending::Busy => "busy",
        Ending::TimedOut => "timed out",
        Ending::TimedOutUnknown => "timed out with the database silent",
        Ending::Unknown => "unknown",
        Ending::Dropped => "dropped by the caller",
        Ending::Failed => "failed",
    }
}
