//! The holders of a lease that several hold, as users see them. `fuzz` has the corrupt lists.

use crate::bson::{Bson, DateTime, Document, doc};
use crate::rules::ids::ManagerId;

use crate::commands::snapshot::{read, read_with_holders};
use crate::info::{LeaseInfo, LeaseState};

const NOW: i64 = 1_700_000_000_000;

fn at(seconds: i64) -> Bson {
    DateTime::from_millis(NOW + seconds * 1_000).into()
}

fn holder(value: &str, seconds: i64, permits: i64, limit: i64) -> Document {
    doc! {
        "value": value, "id": format!("{value}.1"), "sentMicros": 5_i64,
        "owner": format!("{value}@host:1"), "acquiredAt": at(-1), "expiresAt": at(seconds),
        "ttlMs": 30_000_i64, "maxClockSkewMs": 1_000_i64, "metadata": { "of": value },
        "permits": permits, "limit": limit, "writes": 1_i64,
    }
}

/// A lease that several hold with these holders, which expires in a minute.
fn lease(holders: impl Into<Bson>) -> Document {
    doc! {
        "name": "tenant:7", "value": "mongo-lease/shared", "now": at(0), "expiresAt": at(60),
        "waiting": 0, "holders": holders.into(),
    }
}

fn shown(document: &Document) -> LeaseInfo {
    read_with_holders(document).info
}

fn two() -> Vec<Document> {
    vec![holder("a", 60, 2, 5), holder("b", 17, 1, 3)]
}

#[test]
fn holders_are_shown_with_their_permits() {
    let info = shown(&lease(two()));
    assert!(info.shared && info.state == LeaseState::Held);
    // The strictest of the holders binds.
    assert_eq!((info.in_use, info.limit), (Some(3), Some(3)));
    let [a, b] = &info.holders[..] else { panic!("{info:?}") };
    assert_eq!((a.value.as_str(), a.owner.as_deref()), ("a", Some("a@host:1")));
    assert_eq!((a.permits, a.limit, b.permits, b.limit), (2, 5, 1, 3));
    assert_eq!(b.remaining.as_secs(), 17);
    assert_eq!(b.acquired_at.unwrap().timestamp_millis(), NOW - 1_000);
    assert_eq!(b.expires_at.unwrap().timestamp_millis(), NOW + 17_000);
    assert_eq!(b.metadata, doc! { "of": "b" });
    // No single holder has the lease.
    assert_eq!((info.owner, info.acquired_at, info.metadata), (None, None, doc! {}));
    assert_eq!(info.remaining.unwrap().as_secs(), 60);
}

#[test]
fn the_process_of_a_holder_recognizes_the_lease() {
    let made_here = vec![holder("a", 60, 1, 5), holder("m-c", 60, 1, 5)];
    for (holders, process, recognized) in [
        (two(), "other:1", [false, false]),
        (two(), "b@host:1", [false, true]),
        (made_here, "other:1", [false, true]),
    ] {
        let mut info = shown(&lease(holders));
        info.recognize(&ManagerId::new("m".to_owned()), process);
        // The value in the document is nobody's.
        assert_eq!((info.value, info.held_here), (None, recognized[1]), "{process}");
        let held_here: Vec<_> = info.holders.iter().map(|holder| holder.held_here).collect();
        assert_eq!(held_here, recognized, "{process}");
    }
}

#[test]
fn a_lease_in_shared_use_tells_its_permits_in_words() {
    let mut info = shown(&lease(two()));
    let text = "lease \"tenant:7\" has 3 of 3 permits in use; the first expires in 17.0 s";
    assert_eq!(info.to_string(), text);
    // In a refusal there is the time of the first alone.
    info.holders.clear();
    for (millis, time) in [(17_343, "17.4 s"), (0, "0.0 s"), (59_901, "1m"), (90_000, "1m 30s")] {
        info.remaining = Some(std::time::Duration::from_millis(millis));
        assert!(info.to_string().ends_with(&format!("; the first expires in {time}")), "{info}");
    }
    let unknown = read(&lease(two())).info;
    assert_eq!(unknown.to_string(), "lease \"tenant:7\" is held by several for 1m more");
}
