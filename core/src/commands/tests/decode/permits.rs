//! The rest of an admission and of its refusal: a share, and the permits in use.

use std::sync::Arc;
use std::time::Duration;

use crate::bson::{Bson, DateTime, Document, doc};
use crate::rules::permits::Permits;

use super::super::{SENT, SERVER_NOW, found, held, requests, slow, with};
use crate::commands::Command;
use crate::commands::acquire::{AcquireReply, GrantedShare, Refused};
use crate::commands::fast_acquire::FastAdmit;

/// The answers of the slow form and of the fast one to a call that does not wait, where a lease that several hold has
/// this in `shared`.
fn answers(shown: impl Into<Bson>) -> [AcquireReply; 2] {
    let [once, ..] = requests(Permits::SHARED);
    let document = with(held("mongo-lease/shared", "$call.2"), "shared", shown);
    let reply = found(with(document, "hasQueue", false));
    let fast = FastAdmit { request: Arc::new(once.clone()), attempt_no: 3 };
    [slow(once).decode(&reply, SENT), fast.decode(&reply, SENT)].map(Result::unwrap)
}

/// The document may expire later, with another holder, and an earlier call with the same value may have other permits.
#[test]
fn a_grant_has_the_expiry_and_the_permits_of_its_own_record() {
    let shares = |own: Document| {
        answers(doc! { "own": own, "firstMs": 5_i64 }).map(|answer| {
            let AcquireReply::Granted(granted) = answer else { panic!("{answer:?}") };
            granted.share.unwrap()
        })
    };
    let at = DateTime::from_millis(1_700_000_009_000);
    let expires_at = chrono::DateTime::from_timestamp_millis(1_700_000_009_000);
    let record = doc! { "id": "$call.3", "expiresAt": at, "permits": 3_i64, "limit": 4_i64 };
    let share = GrantedShare { permits: Permits::new(3, 4).unwrap(), expires_at };
    assert_eq!(shares(record), [share.clone(), share]);
    // Not in order: then those that the call asks for.
    let odd = doc! { "id": "$call.3", "permits": 9_i64, "limit": 4_i64 };
    let share = GrantedShare { permits: Permits::SHARED, expires_at: None };
    assert_eq!(shares(odd), [share.clone(), share]);
}

#[test]
fn a_refused_admission_knows_the_permits_and_the_first_expiry() {
    let refusals = |shown: Bson| {
        answers(shown).map(|answer| {
            let AcquireReply::Refused(Refused { info, .. }) = answer else { panic!("{answer:?}") };
            ((info.in_use, info.limit), info.remaining)
        })
    };
    for (in_use, limit, wanted) in [
        (5_i64.into(), 5_i64, (Some(5), Some(5))),
        // Numbers that no call can ask for.
        (Bson::Int64(i64::MAX), -1, (None, None)),
        (Bson::Int64(i64::MIN), i64::MAX, (None, None)),
        // One of them alone says nothing.
        (Bson::Null, 5, (None, None)),
        ("5".into(), 5, (None, None)),
    ] {
        let shown = doc! { "inUse": &in_use, "limit": limit, "firstMs": 1_500_i64 };
        let remaining = Some(Duration::from_millis(1_500));
        assert_eq!(refusals(shown.into()), [(wanted, remaining); 2], "{in_use} {limit}");
    }
    // Until the first of them expires, and not the last. No time is negative, and where none is known the latest is.
    let first = |left: Bson| doc! { "firstMs": left }.into();
    for (shown, left) in [
        (first(Bson::Int64(-1)), 0),
        (first(Bson::Null), 31_000),
        (first(Bson::Int32(7)), 31_000),
        (first(Bson::Double(7.0)), 31_000),
        (first(SERVER_NOW.into()), 31_000),
        (doc! {}.into(), 31_000),
        (Bson::Null, 31_000),
        ("x".into(), 31_000),
    ] {
        let wanted = ((None, None), Some(Duration::from_millis(left)));
        assert_eq!(refusals(shown.clone()), [wanted; 2], "{shown}");
    }
}
