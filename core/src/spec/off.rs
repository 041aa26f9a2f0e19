//! The specification with one of its protections switched off, for tests: no user's build has it.

use super::{AsBuilt, Expiry, Protections};

/// The protection that is switched off, by the name of its method; with an empty name none is. The model's switches are
/// in `tests/model`: it has many at once, and this package must not include files from there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Off(pub &'static str);

/// All protections.
pub const PROTECTIONS: [&str; 24] = [
    "renewed",
    "renewed_for",
    "granted_again",
    "heartbeat_at",
    "entry_expires_at",
    "promoted_from",
    "taken_over_from",
    "has_order",
    "keeps_position",
    "in_order",
    "may_write",
    "frees_without_waiter",
    "ends_when_leaving",
    "empties_tombstones",
    "permit_renewed",
    "shared_expiry",
    "fast_attempt_finds_own",
    "attempt_finds_own",
    "limit_in_force",
    "admits_in_order",
    "admits_when_leaving",
    "removes_expired_only",
    "keeps_own_lease",
    "tells_of_earlier_end",
];

impl Off {
    fn is(self, method: &str) -> bool {
        self.0 == method
    }
}

impl Protections for Off {
    fn renewed(&self, old: Expiry, until: i64) -> Expiry {
        if self.is("renewed") { Expiry::At(until) } else { AsBuilt.renewed(old, until) }
    }

    fn renewed_for(&self, stored: i64, carried: i64) -> i64 {
        if self.is("renewed_for") { stored } else { AsBuilt.renewed_for(stored, carried) }
    }

    fn granted_again(&self, old: Expiry, until: i64) -> Expiry {
        if self.is("granted_again") { Expiry::At(until) } else { AsBuilt.granted_again(old, until) }
    }

    fn heartbeat_at(&self, old: i64, now: i64) -> i64 {
        if self.is("heartbeat_at") { now } else { AsBuilt.heartbeat_at(old, now) }
    }

    fn entry_expires_at(&self, old: i64, until: i64) -> i64 {
        if self.is("entry_expires_at") { until } else { AsBuilt.entry_expires_at(old, until) }
    }

    fn promoted_from(&self, now: i64, heartbeat_at: i64) -> i64 {
        if self.is("promoted_from") { now } else { AsBuilt.promoted_from(now, heartbeat_at) }
    }

    fn taken_over_from(&self, now: i64, heartbeat_at: i64) -> i64 {
        if self.is("taken_over_from") { now } else { AsBuilt.taken_over_from(now, heartbeat_at) }
    }

    fn has_order(&self) -> bool {
        !self.is("has_order") && AsBuilt.has_order()
    }

    fn keeps_position(&self) -> bool {
        !self.is("keeps_position") && AsBuilt.keeps_position()
    }

    fn in_order<E>(&self, line: Vec<E>) -> Vec<E> {
        let mut line = AsBuilt.in_order(line);
        if self.is("in_order") {
            line.reverse();
        }
        line
    }

    fn may_write(&self, expiry: Expiry) -> bool {
        self.is("may_write") || AsBuilt.may_write(expiry)
    }

    fn frees_without_waiter(&self) -> bool {
        !self.is("frees_without_waiter") && AsBuilt.frees_without_waiter()
    }

    fn ends_when_leaving(&self) -> bool {
        !self.is("ends_when_leaving") && AsBuilt.ends_when_leaving()
    }

    fn empties_tombstones(&self) -> bool {
        !self.is("empties_tombstones") && AsBuilt.empties_tombstones()
    }

    fn permit_renewed(&self, old: i64, until: i64) -> i64 {
        if self.is("permit_renewed") { until } else { AsBuilt.permit_renewed(old, until) }
    }

    fn shared_expiry(&self, expiries: &[i64]) -> Option<i64> {
        match self.is("shared_expiry") {
            true => expiries.last().copied(),
            false => AsBuilt.shared_expiry(expiries),
        }
    }

    fn fast_attempt_finds_own(&self) -> bool {
        !self.is("fast_attempt_finds_own") && AsBuilt.fast_attempt_finds_own()
    }

    fn attempt_finds_own(&self) -> bool {
        !self.is("attempt_finds_own") && AsBuilt.attempt_finds_own()
    }

    fn limit_in_force(&self, before: i64, own: i64) -> i64 {
        if self.is("limit_in_force") { own } else { AsBuilt.limit_in_force(before, own) }
    }

    fn admits_in_order(&self) -> bool {
        !self.is("admits_in_order") && AsBuilt.admits_in_order()
    }

    fn admits_when_leaving(&self) -> bool {
        !self.is("admits_when_leaving") && AsBuilt.admits_when_leaving()
    }

    fn removes_expired_only(&self) -> bool {
        !self.is("removes_expired_only") && AsBuilt.removes_expired_only()
    }

    fn keeps_own_lease(&self) -> bool {
        !self.is("keeps_own_lease") && AsBuilt.keeps_own_lease()
    }

    fn tells_of_earlier_end(&self) -> bool {
        !self.is("tells_of_earlier_end") && AsBuilt.tells_of_earlier_end()
    }
}

#[test]
fn every_protection_is_switched_off_in_turn() {
    let source = include_str!("protections.rs");
    let methods = source.lines().filter_map(|line| line.strip_prefix("    fn "));
    let names = methods.map(|rest| rest.split(['(', '<']).next().unwrap_or_default());
    assert_eq!(names.collect::<Vec<_>>(), PROTECTIONS);
}
