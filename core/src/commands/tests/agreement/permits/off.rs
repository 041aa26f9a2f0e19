//! The specification with one of its protections of permits switched off.

use crate::spec::permits::PermitProtections;
use crate::spec::{AsBuilt, Protections};

/// The protection that is switched off, by the name of its method.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Off(pub(super) &'static str);

/// All protections of permits.
pub(super) const PROTECTIONS: [&str; 11] = [
    "permit_renewed",
    "shared_expiry",
    "fast_attempt_finds_own",
    "attempt_finds_own",
    "limit_in_force",
    "admits_in_order",
    "admits_when_leaving",
    "removes_expired_only",
    "replaces_own_exclusive_grant",
    "replaces_grants_of_its_call_alone",
    "tells_of_earlier_end",
];

impl Off {
    fn is(self, method: &str) -> bool {
        self.0 == method
    }
}

impl Protections for Off {}

impl PermitProtections for Off {
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

    fn replaces_own_exclusive_grant(&self, limit: i64) -> bool {
        let is_off = self.is("replaces_own_exclusive_grant");
        !is_off && AsBuilt.replaces_own_exclusive_grant(limit)
    }

    fn replaces_grants_of_its_call_alone(&self) -> bool {
        let is_off = self.is("replaces_grants_of_its_call_alone");
        !is_off && AsBuilt.replaces_grants_of_its_call_alone()
    }

    fn tells_of_earlier_end(&self) -> bool {
        !self.is("tells_of_earlier_end") && AsBuilt.tells_of_earlier_end()
    }
}

#[test]
fn every_protection_of_permits_is_switched_off_in_turn() {
    let source = include_str!("../../../../spec/permits/protections.rs");
    let methods = source.lines().filter_map(|line| line.strip_prefix("    fn "));
    let names = methods.map(|rest| rest.split(['(', '<']).next().unwrap_or_default());
    assert_eq!(names.collect::<Vec<_>>(), PROTECTIONS);
}
