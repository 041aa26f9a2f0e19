//! The calls of a batch that failed, or that no majority has yet.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use mongo_lease_core::commands::{
    AcquireReply, AcquireRequest, FastAcquire, FastAcquired, Granted, LeaseSnapshot, Refused,
    SharedSnapshot, Trace, snapshot,
};
use mongo_lease_core::rules::{Applied, FastForm, Instant, Lane, Permits, Timing};
use mongodb::bson::{DateTime, Timestamp, doc};
use mongodb::error::{CommandError, ErrorKind};

use super::{AcquireBatch, claim, or_use_full_form};
use crate::batch::op::{BatchOp, Claim};
use crate::failure::{Failure, UNANSWERED, driver_failure};
use crate::memory::MemoryStore;
use crate::runner::{AttemptLimits, AttemptTime, Backend, Runner};

const SENT: Instant = Instant::from_micros(7_000_001);
const LATER: Instant = Instant::from_micros(9_000_001);

/// The token of a batch: a time in seconds.
const TOKEN: Timestamp = Timestamp { time: 1_700_000_000, increment: 1 };

/// A call's attempt that has not been sent.
pub(in crate::batch) fn acquire(form: FastForm) -> FastAcquire {
    let timing = Timing::new(Duration::from_secs(30), Duration::from_secs(1), None);
    let request = AcquireRequest {
        name: "a".to_owned(),
        value: "own".to_owned(),
        call_id: "call".into(),
        owner: "owner".into(),
        metadata: doc! {},
        permits: Permits::EXCLUSIVE,
        timing: Arc::new(timing.expect("the default")),
        has_oplog: true,
        joins: None,
    };
    FastAcquire { request: request.into(), attempt_no: 1, form, resends: 0, first_sent: None }
}

/// The lease as a read shows it: granted to the call with this value, so many milliseconds after the batch's token.
fn stands(value: &str, later_ms: i64) -> LeaseSnapshot {
    let at = DateTime::from_millis(i64::from(TOKEN.time) * 1_000 + later_ms);
    let grant = doc! { "value": value, "id": "call.1", "acquiredAt": at };
    snapshot::read(&doc! {
        "name": "a",
        "value": value,
        "now": at,
        "expiresAt": DateTime::from_millis(at.timestamp_millis() + 30_000),
        "grant": grant,
    })
}

fn refused(ahead: Option<u32>) -> AcquireReply {
    let info = stands("another", 0).info;
    AcquireReply::Refused(Refused { sent: SENT, info, ahead, at: None, server_ms: None })
}

fn granted() -> AcquireReply {
    let (grant_id, info) = (acquire(FastForm::LookUp).grant_id(), stands("own", 0).info);
    AcquireReply::Granted(Granted { sent: SENT, grant_id, token: None, info, share: None })
}

const FULL_FORM: AcquireReply = AcquireReply::UseSlowForm { maybe_granted: false };

fn server_error(code: i32) -> Failure {
    let error = serde_json::json!({ "code": code, "codeName": "", "errmsg": "" });
    let error: CommandError = serde_json::from_value(error).expect("the driver's form");
    driver_failure(ErrorKind::Command(error).into())
}

#[test]
fn an_attempt_that_is_sent_again_keeps_the_time_of_its_first_sending() {
    let mut acquires = [acquire(FastForm::LookUp), acquire(FastForm::Insert)];
    for (resends, sent) in [(1, SENT), (2, LATER)] {
        AcquireBatch::note_sent(&mut acquires, &UNANSWERED, sent);
        for acquire in &acquires {
            assert_eq!((acquire.resends, acquire.first_sent), (resends, Some(SENT)));
        }
    }
}

#[test]
fn an_attempt_is_about_its_lease_and_a_grant_or_an_entry_is_a_write() {
    assert_eq!(AcquireBatch::name(&acquire(FastForm::LookUp)), "a");
    for (reply, wanted) in
        [(granted(), true), (refused(Some(0)), true), (refused(None), false), (FULL_FORM, false)]
    {
        assert_eq!(AcquireBatch::has_written(&reply), wanted, "{reply:?}");
    }
}

/// A shard may still carry out what its router has answered.
#[tokio::test(start_paused = true)]
async fn calls_of_a_batch_that_was_cut_off_go_on_together_but_for_a_router() {
    let runner = Runner::new(Backend::Memory(MemoryStore::new()), "locks", 9).expect("it runs");
    let deadline = runner.clock().now().after(Duration::from_secs(9));
    let slot = runner.slot(Lane::Acquire, false, deadline).await.expect("it is free");
    let acquires = [acquire(FastForm::LookUp), acquire(FastForm::LookUp)];
    for is_routed in [true, false] {
        let limits = AttemptLimits::from(AttemptTime::from(deadline));
        let batch = AcquireBatch { is_routed };
        let known = batch.after_cut_off(&slot, &acquires, &UNANSWERED, limits).await;
        let failed: Vec<bool> =
            known.iter().map(|it| it.as_ref().is_some_and(Result::is_err)).collect();
        assert_eq!(failed, [is_routed; 2]);
        assert_eq!(known.iter().flatten().count(), failed.iter().filter(|it| **it).count());
    }
}

#[test]
fn a_name_that_was_taken_meanwhile_asks_for_the_full_form() {
    const DUPLICATE_KEY: i32 = 11_000;
    const SHARD_KEY_NOT_FOUND: i32 = 61;
    for (code, form, wanted) in [
        (DUPLICATE_KEY, FastForm::LookUp, true),
        (DUPLICATE_KEY, FastForm::Insert, true),
        (SHARD_KEY_NOT_FOUND, FastForm::Insert, true),
        (SHARD_KEY_NOT_FOUND, FastForm::LookUp, false),
        (13, FastForm::Insert, false),
    ] {
        let answer = or_use_full_form(&acquire(form), Err(server_error(code)));
        let is_asked = matches!(&answer, Ok(Applied::Confirmed(reply)) if *reply == FULL_FORM);
        assert_eq!((is_asked, answer.is_err()), (wanted, !wanted), "{code} {form:?}");
    }
}

/// The answer to a call of a batch that no majority has yet, by what a read of the majority finds.
fn told(refused: &[usize], found: &[LeaseSnapshot]) -> AcquireReply {
    let refused: HashSet<usize> = refused.iter().copied().collect();
    let taken = FastAcquired { sent: SENT, at: TOKEN, refused, granted: 1 };
    let Claim::Writes(traces, tell) = claim(1, &acquire(FastForm::LookUp), &taken) else {
        panic!("it depends on a write");
    };
    assert!(matches!(&traces[..], [Trace::Made { sent: SENT, acquired_at: None, .. }]));
    let shared = |lease: &LeaseSnapshot| SharedSnapshot { lease: lease.clone(), holders: vec![] };
    let found: Vec<SharedSnapshot> = found.iter().map(shared).collect();
    tell(&found, LATER).expect("there is an answer")
}

#[test]
fn a_call_of_an_unconfirmed_batch_is_answered_by_what_a_majority_has() {
    let maybe = |maybe_granted| AcquireReply::UseSlowForm { maybe_granted };
    let is_granted = |reply| matches!(reply, AcquireReply::Granted(it) if it.token == Some(TOKEN));
    assert!(is_granted(told(&[], &[stands("own", 999)])));
    // It is there, but a late copy of the command made it after a failover: the token is older than the grant.
    assert_eq!(told(&[], &[stands("own", 1_000)]), maybe(true));
    let others = told(&[], &[stands("another", 1_000)]);
    assert!(matches!(others, AcquireReply::Refused(_)), "{others:?}");
    // It is the second call of its batch, and neither the first one's refusal is its own.
    assert_eq!([told(&[], &[]), told(&[0], &[])], [maybe(true), maybe(true)]);
    assert_eq!(told(&[1], &[]), maybe(false));
}
