//! Lease documents as replies show them, including other programs' and hostile ones.

use crate::bson::{Bson, DateTime, Document, doc, oid::ObjectId};

use crate::commands::snapshot::read;
use crate::info::LeaseState;

fn usual() -> Document {
    doc! {
        "name": "a",
        "value": "v",
        "now": DateTime::from_millis(1_700_000_000_500),
        "expiresAt": DateTime::from_millis(1_700_000_031_000),
        "waiting": 2,
        "grant": {
            "value": "v",
            "id": "call.1",
            "sentMicros": 77_i64,
            "owner": "test@host:1",
            "acquiredAt": DateTime::from_millis(1_700_000_000_000),
            "ttlMs": 30_000_i64,
            "metadata": { "x": 1 },
        },
    }
}

/// Values of a type that is not expected.
fn odd() -> Vec<Bson> {
    vec![
        Bson::Null,
        Bson::Undefined,
        Bson::MinKey,
        Bson::MaxKey,
        Bson::Boolean(true),
        Bson::Int32(-1),
        Bson::Double(f64::NAN),
        Bson::Array(vec![usual().into()]),
        Bson::Document(doc! {}),
        Bson::Symbol("v".to_owned()),
        Bson::ObjectId(ObjectId::from_bytes([0; 12])),
    ]
}

#[test]
fn a_document_of_ours_tells_everything() {
    let seen = read(&usual());
    assert_eq!((seen.info.name.as_str(), seen.info.value.as_deref()), ("a", Some("v")));
    assert_eq!(seen.info.state, LeaseState::Held);
    assert_eq!(seen.info.owner.as_deref(), Some("test@host:1"));
    assert_eq!(seen.info.acquired_at.unwrap().timestamp_millis(), 1_700_000_000_000);
    assert_eq!(seen.info.expires_at.unwrap().timestamp_millis(), 1_700_000_031_000);
    assert_eq!(seen.info.remaining.unwrap().as_millis(), 30_500);
    assert_eq!(seen.info.waiting, 2);
    assert_eq!(seen.info.metadata, doc! { "x": 1 });
    assert_eq!(seen.grant_id, Some("call.1".into()));
    assert_eq!((seen.ttl_ms, seen.sent), (Some(30_000), Some(77)));
}

#[test]
fn the_state_is_by_the_type_of_the_expiry_and_what_is_left() {
    const NOW: i64 = 1_700_000_000_500;
    let read_with = |expires_at: Option<Bson>| {
        let mut document = usual();
        document.remove("expiresAt");
        document.extend(expires_at.map(|it| ("expiresAt".to_owned(), it)));
        read(&document).info
    };
    for (at, left) in [
        (NOW + 1, Some(1)),
        (i64::MAX, Some(u128::try_from(i64::MAX - NOW).unwrap())),
        (NOW, None),
        (NOW - 1, None),
        (i64::MIN, None),
    ] {
        let info = read_with(Some(DateTime::from_millis(at).into()));
        let state = if left.is_some() { LeaseState::Held } else { LeaseState::Free };
        let wanted = (state, Some(left.unwrap_or(0)));
        assert_eq!((info.state, info.remaining.map(|left| left.as_millis())), wanted, "{at}");
    }
    for free in [None, Some(Bson::Null)] {
        let info = read_with(free);
        assert_eq!((info.state, info.expires_at, info.remaining), (LeaseState::Free, None, None));
    }
    let types = "undefined minKey maxKey bool int double array object symbol objectId";
    let types: Vec<_> = types.split(' ').collect();
    let odd_ones: Vec<_> = odd().into_iter().filter(|odd| *odd != Bson::Null).collect();
    assert_eq!(odd_ones.len(), types.len());
    for (odd, name) in odd_ones.into_iter().zip(types) {
        let info = read_with(Some(odd.clone()));
        let wanted = (LeaseState::Damaged { found: name.to_owned() }, None, None);
        assert_eq!((info.state, info.expires_at, info.remaining), wanted, "{odd}");
    }
    // So long after a time before 1970 that the difference overflows.
    let mut document = usual();
    document.insert("now", DateTime::from_millis(-1));
    document.insert("expiresAt", DateTime::from_millis(i64::MAX));
    let left = read(&document).info.remaining.map(|left| left.as_millis());
    assert_eq!(left, Some(u128::try_from(i64::MAX).unwrap()));
    // Without the server's time nothing is known.
    for odd in odd() {
        let mut document = usual();
        document.insert("now", odd);
        assert!(matches!(read(&document).info.state, LeaseState::Damaged { .. }));
    }
    let empty = read(&doc! {}).info;
    assert_eq!((empty.name.as_str(), empty.value), ("", None));
    assert!(matches!(empty.state, LeaseState::Damaged { .. }));
}
