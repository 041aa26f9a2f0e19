//! Trap 1 of leases that several hold, by the commands that admit. The tests of `permits::traps` show it on a real
//! server, and those of `inspect` what users see of such leases on both.

use std::sync::Arc;
use std::time::Duration;

use mongo_lease_core::bson::doc;
use mongo_lease_core::commands::{AcquireReply, AcquireRequest, FastAdmit, GetLease, SlowAcquire};
use mongo_lease_core::rules::{Instant, Permits, Timing};

use crate::{InMemory, Leases};

const SENT: Instant = Instant::from_micros(7_000_001);
const NOW_MS: i64 = 1_700_000_000_000;

/// An exclusive first attempt is refused by the grant of the second one, and of permits there may be more.
#[test]
fn a_late_fast_attempt_takes_no_second_permit() {
    let timing = Timing::new(Duration::from_secs(300), Duration::from_secs(1), None).unwrap();
    let request = Arc::new(AcquireRequest {
        name: "tenant:7".to_owned(),
        value: "a".to_owned(),
        call_id: "a".into(),
        owner: "a@host:1".into(),
        metadata: doc! {},
        permits: Permits::new(1, 5).unwrap(),
        timing: Arc::new(timing),
        has_oplog: true,
        joins: None,
    });
    let mut leases = Leases::new(NOW_MS);
    let mut leases = leases.collection("locks", NOW_MS);
    let second = SlowAcquire { request: Arc::clone(&request), attempt_no: 2, predecessor: None };
    let granted = second.carry_out(&mut leases, SENT);
    assert!(matches!(granted, AcquireReply::Granted(_)), "{granted:?}");
    let late = FastAdmit { request, attempt_no: 1 }.carry_out(&mut leases, SENT);
    assert_eq!(late, AcquireReply::UseSlowForm { maybe_granted: false });
    let found = GetLease { name: "tenant:7".to_owned() }.carry_out(&mut leases, SENT);
    let [seen] = &found[..] else { panic!("{found:?}") };
    assert_eq!((seen.info.in_use, seen.info.holders.len()), (Some(1), 1));
}
