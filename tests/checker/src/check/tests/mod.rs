//! Histories made by hand: a good one without findings, and for each promise one that breaks it.

mod clocks;
mod ends;
mod faults;
mod line;
mod progress;
mod shares;
mod together;
mod transactions;

use std::sync::Arc;

use super::*;
use crate::changes::{Change, Grant, State, Waiting};
use crate::history::{CURSOR, Ending, FOREVER_MS, Letting, Outcome, Record, TransactionEnd, What};
use crate::permits::Permits;

/// How far the servers' clock is ahead.
const AHEAD: Nanos = 1_000 * SECOND;
const TTL_MS: u64 = 2_000;

/// A history and an oplog that grow together.
#[derive(Clone)]
struct Story(Evidence);

impl Story {
    fn new() -> Story {
        let terms = CheckOptions {
            max_clock_skew: 0,
            waiter_ttl: SECOND,
            clock_error: 0,
            calls_travel_together: false,
            allowances: Allowances::REAL,
        };
        Story(Evidence {
            records: Vec::new(),
            changes: Vec::new(),
            wall_ahead: AHEAD,
            began: 0,
            ended: 60 * SECOND,
            known_until: Nanos::MAX,
            terms,
            left: LeftOver::default(),
        })
    }

    fn note(&mut self, millis: u64, by: &str, what: What) -> &mut Story {
        self.0.records.push(Record { at: millis * MILLI, by: by.to_owned(), what });
        self
    }

    fn invoke(&mut self, millis: u64, call: &str) -> &mut Story {
        self.invoke_for(millis, call, Permits::EXCLUSIVE)
    }

    fn invoke_for(&mut self, millis: u64, call: &str, permits: Permits) -> &mut Story {
        self.invoke_with(millis, call, 5_000, permits)
    }

    fn invoke_with(
        &mut self,
        millis: u64,
        call: &str,
        wait_ms: u64,
        permits: Permits,
    ) -> &mut Story {
        let what = What::Invoked {
            call: call.to_owned(),
            name: "n".to_owned(),
            ttl_ms: TTL_MS,
            wait_ms: Some(wait_ms),
            permits,
        };
        self.note(millis, worker(call), what)
    }

    /// Writes the document's new state; `None` deletes it.
    fn write(&mut self, millis: u64, after: Option<State>) -> &mut Story {
        let before = self.0.changes.last().and_then(|change| change.after.clone());
        let (token, wall, after) = (millis, wall(millis), after.map(Arc::new));
        self.0.changes.push(Change { token, wall, name: "n".to_owned(), before, after });
        self
    }

    fn told(&mut self, millis: u64, call: &str, token: u64, valid_until: u64) -> &mut Story {
        let what = What::Granted {
            call: call.to_owned(),
            name: "n".to_owned(),
            token,
            value: value(call),
            valid_until: valid_until * MILLI,
        };
        self.note(millis, worker(call), what)
    }

    /// A correct grant: sent, written 10 ms later, heard of 10 ms after that.
    fn grant(&mut self, millis: u64, call: &str) -> &mut Story {
        self.invoke(millis, call).write(millis + 10, Some(held(call, millis + 10))).told(
            millis + 20,
            call,
            millis + 10,
            millis + TTL_MS - 20,
        )
    }

    /// A release that deletes the document.
    fn release(&mut self, millis: u64, call: &str) -> &mut Story {
        let (call, outcome) = (call.to_owned(), Outcome::Released);
        let releasing = What::Releasing { call: call.clone(), how: Letting::Release };
        self.note(millis, worker(&call), releasing).write(millis + 10, None);
        let by = worker(&call).to_owned();
        self.note(millis + 20, &by, What::Released { call, outcome, text: String::new() })
    }

    fn judge(&mut self, millis: u64, call: &str, token: u64, accepted: bool) -> &mut Story {
        let (call, name) = (call.to_owned(), "n".to_owned());
        self.note(millis, "resource", What::Judged { call, name, token, accepted })
    }

    fn found(&self) -> Vec<Invariant> {
        let all = check(&self.0);
        for invariant in Invariant::ALL {
            let of_it = all.iter().filter(|found| found.invariant == invariant).cloned();
            // Each check is run for every invariant of which it finds violations.
            assert_eq!(check_only(&self.0, &[invariant]), of_it.collect::<Vec<_>>());
        }
        self.found_of(&Invariant::ALL)
    }

    fn found_of(&self, invariants: &[Invariant]) -> Vec<Invariant> {
        let found = check_only(&self.0, invariants);
        let mut found: Vec<_> = found.iter().map(|found| found.invariant).collect();
        found.sort();
        found.dedup();
        found
    }
}

/// A call is named after its worker: `a/1` is one of `a`.
fn worker(call: &str) -> &str {
    call.split_once('/').map_or(call, |(worker, _)| worker)
}

fn value(call: &str) -> String {
    format!("{}-{call}", worker(call))
}

fn wall(millis: u64) -> i64 {
    i64::try_from(millis + AHEAD / MILLI).unwrap()
}

/// A document that was granted at that moment.
fn held(call: &str, millis: u64) -> State {
    held_until(call, [millis, millis + TTL_MS])
}

fn held_until(call: &str, [millis, until]: [u64; 2]) -> State {
    let grants = vec![granted(call, [millis, until], Permits::EXCLUSIVE)];
    State { expires_at: wall(until), grants, ..State::default() }
}

/// A holder who was granted this at that moment.
fn granted(call: &str, [millis, until]: [u64; 2], permits: Permits) -> Grant {
    Grant {
        value: value(call),
        id: format!("{call}.1"),
        call: call.to_owned(),
        acquired_at: wall(millis),
        expires_at: wall(until),
        permits,
    }
}

/// The same, handed off by the former holder.
fn promoted(call: &str, millis: u64) -> State {
    State { promoted: format!("{call}.1@{millis}"), ..held(call, millis) }
}

fn waits(call: &str, until: u64) -> Waiting {
    waits_for(call, until, Permits::EXCLUSIVE)
}

fn waits_for(call: &str, until: u64, permits: Permits) -> Waiting {
    Waiting { value: value(call), call: call.to_owned(), expires_at: wall(until), permits }
}

#[test]
fn nothing_is_found_in_a_good_history() {
    let mut story = Story::new();
    let in_line = State { queue: vec![waits("b/1", 1_500)], ..held("a/1", 110) };
    story.grant(100, "a/1").judge(200, "a/1", 110, true);
    story.invoke(300, "b/1").write(310, Some(in_line));
    let releasing = What::Releasing { call: "a/1".to_owned(), how: Letting::Drop };
    story.note(900, "a", releasing).write(910, Some(promoted("b/1", 910)));
    story.told(920, "b/1", 910, 2_300).judge(930, "b/1", 910, true);
    story.judge(940, "a/1", 110, false).release(1_000, "b/1");
    assert_eq!(story.found(), []);
}

#[test]
fn every_invariant_is_of_a_check() {
    for invariant in Invariant::ALL {
        assert!(CHECKS.iter().any(|(_, finds)| finds.contains(&invariant)), "{invariant:?}");
    }
}

#[test]
fn a_violation_names_its_lease_its_calls_and_its_moments() {
    let mut story = Story::new();
    story.grant(100, "a/1").grant(500, "b/1");
    let found = check_only(&story.0, &[Invariant::Exclusion, Invariant::Removal]);
    let [removal, exclusion] = &found[..] else { panic!("{found:?}") };
    let calls = |violation: &Violation| violation.calls.join(" ");
    assert_eq!((&exclusion.lease, calls(exclusion)), (&Some("n".to_owned()), "a/1 b/1".to_owned()));
    assert_eq!((exclusion.at, exclusion.since), (520 * MILLI, 520 * MILLI));
    assert_eq!((&removal.lease, calls(removal)), (&Some("n".to_owned()), "a/1 b/1".to_owned()));
    // The holder believed since it had heard of its grant.
    assert_eq!((removal.at, removal.since), (510 * MILLI, 120 * MILLI));
    let text = "Exclusion at 0.520 s: a/1, b/1 hold n, 2 permits of 1, for 1560 ms";
    assert_eq!(exclusion.to_string(), text);
}

#[test]
fn two_who_hold_are_found() {
    let mut story = Story::new();
    story.grant(100, "a/1").grant(500, "b/1");
    let found = story.found();
    assert!(found.contains(&Invariant::Exclusion), "{found:?}");
    assert!(found.contains(&Invariant::TakeOver) && found.contains(&Invariant::Removal));
}

#[test]
fn a_stopped_holder_does_not_overlap_its_successor() {
    let mut story = Story::new();
    story.grant(100, "a/1").grant(2_200, "b/1");
    let lost = What::Lost { call: "a/1".to_owned(), reason: String::new() };
    story.note(4_000, "a", lost);
    assert_eq!(story.found(), []);
}

#[test]
fn tokens_that_fall_or_are_not_the_grants_are_found() {
    let mut story = Story::new();
    story.grant(100, "a/1").release(200, "a/1");
    story.invoke(300, "b/1").write(310, Some(held("b/1", 310))).told(320, "b/1", 90, 2_200);
    assert_eq!(story.found(), [Invariant::Tokens, Invariant::TokenTimes]);
    let mut late = Story::new();
    late.invoke(100, "a/1").write(110, Some(held("a/1", 110))).told(120, "a/1", 115, 2_000);
    assert_eq!(late.found(), [Invariant::TokenTimes]);
    late.0.terms.calls_travel_together = true;
    assert_eq!(late.found(), []);
}

#[test]
fn a_write_of_an_earlier_grant_is_found_whatever_its_token() {
    let two = || {
        let mut story = Story::new();
        story.grant(100, "a/1").release(200, "a/1").grant(300, "b/1").judge(400, "b/1", 310, true);
        story
    };
    assert_eq!(two().judge(500, "a/1", 110, true).found(), [Invariant::Fence]);
    assert_eq!(
        two().judge(500, "a/1", 400, true).found(),
        [Invariant::Fence],
        "a token from later"
    );
    assert_eq!(two().judge(500, "a/1", 110, false).found(), []);
}

#[test]
fn who_believes_for_too_long_is_found() {
    let mut story = Story::new();
    story.invoke(100, "a/1").write(110, Some(held("a/1", 110))).told(120, "a/1", 110, 2_120);
    assert_eq!(story.found(), [Invariant::Belief]);
    let mut renewed = Story::new();
    renewed.grant(100, "a/1");
    let what = What::Renewed { call: "a/1".to_owned(), valid_until: 2_500 * MILLI };
    renewed.note(700, "a", what);
    assert_eq!(renewed.found(), [Invariant::Belief], "no renewal was written");
}

#[test]
fn a_document_removed_under_its_holder_is_found() {
    let mut story = Story::new();
    story.grant(100, "a/1").write(500, None);
    assert_eq!(story.found(), [Invariant::Removal]);
    let mut expired = Story::new();
    expired.grant(100, "a/1").write(2_200, None);
    assert_eq!(expired.found(), [], "the TTL monitor");
}

#[test]
fn a_lease_taken_early_is_found() {
    let mut story = Story::new();
    // The holder no longer relies on the lease, but the server keeps it until it expires.
    let releasing = What::Releasing { call: "a/1".to_owned(), how: Letting::Release };
    story.grant(100, "a/1").note(200, "a", releasing).grant(300, "b/1");
    assert_eq!(story.found(), [Invariant::TakeOver]);
}

#[test]
fn an_expiry_that_falls_is_found() {
    let mut story = Story::new();
    story.grant(100, "a/1").write(150, Some(held_until("a/1", [110, 2_105])));
    assert_eq!(story.found(), [Invariant::Expiry]);
}

/// Damaged numbers of an entry can make an expiry before or after all dates.
#[test]
fn an_expiry_that_rises_from_before_all_dates_is_none_that_falls() {
    for expiry in [i64::MIN, i64::MIN + 1, -1] {
        let mut story = Story::new();
        let mut before = held_until("a/1", [110, 0]);
        (before.expires_at, before.grants[0].expires_at) = (expiry, expiry);
        story.write(100, Some(before));
        story.write(150, Some(held_until("a/1", [110, 2_105])));
        let found = story.found();
        assert!(!found.contains(&Invariant::Expiry), "{expiry}: {found:?}");
    }
}
