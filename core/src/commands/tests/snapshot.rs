//! Lease documents as replies show them, including other programs' and hostile ones.

use crate::bson::{Bson, DateTime, doc, oid::ObjectId};

use super::{SERVER_NOW, held, with};
use crate::commands::snapshot::read;
use crate::info::LeaseState;

#[test]
fn a_document_of_ours_tells_everything() {
    let seen = read(&held("v", "call.1"));
    assert_eq!((seen.info.name.as_str(), seen.info.value.as_deref()), ("$name", Some("v")));
    assert_eq!(seen.info.state, LeaseState::Held);
    assert_eq!(seen.info.owner.as_deref(), Some("test@host:1"));
    assert_eq!(seen.info.acquired_at.unwrap().timestamp_millis(), 1_700_000_000_000);
    assert_eq!(seen.info.expires_at.unwrap().timestamp_millis(), 1_700_000_031_000);
    assert_eq!(seen.info.remaining.unwrap().as_secs(), 31);
    assert_eq!(seen.info.waiting, 2);
    assert_eq!(seen.info.metadata, doc! { "x": 1 });
    assert_eq!(seen.info.grant_id, Some("call.1".into()));
    assert_eq!((seen.ttl_ms, seen.sent), (Some(30_000), Some(5)));
}

#[test]
fn the_state_is_by_the_type_of_the_expiry_and_what_is_left() {
    const NOW: i64 = SERVER_NOW.timestamp_millis();
    let date = |millis| Bson::from(DateTime::from_millis(millis));
    let of = |now: Bson, expires_at: Option<Bson>| {
        let mut document = with(held("v", "call.1"), "now", now);
        document.remove("expiresAt");
        document.extend(expires_at.map(|it| ("expiresAt".to_owned(), it)));
        let info = read(&document).info;
        (info.state, info.remaining.map(|left| left.as_millis()))
    };
    for (now, at, left) in [
        (NOW, NOW + 1, 1),
        (NOW, i64::MAX, i64::MAX - NOW),
        // So long after a time before 1970 that the difference overflows.
        (-1, i64::MAX, i64::MAX),
        (NOW, NOW, 0),
        (NOW, i64::MIN, 0),
    ] {
        let state = if left > 0 { LeaseState::Held } else { LeaseState::Free };
        let left = u128::try_from(left).unwrap();
        assert_eq!(of(date(now), Some(date(at))), (state, Some(left)), "{at}");
    }
    for free in [None, Some(Bson::Null)] {
        assert_eq!(of(date(NOW), free), (LeaseState::Free, None));
    }
    let damaged = |found: &str| LeaseState::Damaged { found: found.to_owned() };
    for (odd, name) in [
        (Bson::Undefined, "undefined"),
        (Bson::MinKey, "minKey"),
        (Bson::MaxKey, "maxKey"),
        (true.into(), "bool"),
        (Bson::Int32(-1), "int"),
        (f64::NAN.into(), "double"),
        (vec![date(NOW)].into(), "array"),
        (doc! {}.into(), "object"),
        (Bson::Symbol("v".to_owned()), "symbol"),
        (ObjectId::from_bytes([0; 12]).into(), "objectId"),
    ] {
        assert_eq!(of(date(NOW), Some(odd.clone())), (damaged(name), None));
        // Without the server's time nothing is known.
        assert_eq!(of(odd, Some(date(NOW))), (damaged("unknown"), None));
    }
    let empty = read(&doc! {}).info;
    assert_eq!((empty.name.as_str(), empty.value, empty.state), ("", None, damaged("unknown")));
}
