//! A lease as it is shown to users.

use std::collections::BTreeMap;

use mongo_lease_core::bson::{DateTime, doc};
use mongo_lease_core::commands::snapshot::{projection_with_holders, read_with_holders};
use mongo_lease_core::format::SHARED_VALUE;
use mongo_lease_core::info::{LeaseHolder, LeaseInfo, LeaseState};

const MINUTE: i64 = 60_000;

/// The lease `a` with this value and this state, which expires in a minute.
fn lease(value: &str, state: LeaseState) -> LeaseInfo {
    let value = Some(value.to_owned());
    LeaseInfo::without_grant("a".to_owned(), value, state, Some(MINUTE), Some(0))
}

/// The same with holders of so many permits under a limit, each with its remaining milliseconds.
fn shared(holders: &[(u32, u32, i64)]) -> LeaseInfo {
    let mut info = lease(SHARED_VALUE, LeaseState::Held);
    let holder = |&(permits, limit, until): &(u32, u32, i64)| {
        LeaseHolder::without_grant("own".to_owned(), permits, limit, until, 0)
    };
    info.set_holders(holders.iter().map(holder).collect());
    info
}

fn damaged() -> LeaseState {
    LeaseState::Damaged { found: "string".to_owned() }
}

#[test]
fn a_lease_is_shown_by_its_state() {
    let with = |value, state, change: fn(&mut LeaseInfo)| {
        let mut info = lease(value, state);
        change(&mut info);
        info
    };
    let free = |change| with("own", LeaseState::Free, change);
    let held = |change| with("own", LeaseState::Held, change);
    for (info, wanted) in [
        (free(|_| ()), "is free"),
        (free(|info| info.waiting = 1), "is free, with 1 in the queue"),
        (lease("own", damaged()), "is damaged: its expiresAt is of type string"),
        (
            held(|info| info.owner = Some("web@host:1".to_owned())),
            "is held by web@host:1 for 1m more",
        ),
        (held(|_| ()), "is held by another program for 1m more"),
        (held(|info| info.remaining = None), "is held by another program"),
        (
            lease("released:x.0", LeaseState::Held),
            "is released, but its name stays reserved for 1m more",
        ),
        (
            shared(&[(2, 5, 30_000), (1, 4, 20_000)]),
            "has 3 of 4 permits in use; the first expires in 20.0 s",
        ),
        (shared(&[]), "is held by several for 1m more"),
    ] {
        assert_eq!(info.to_string(), format!("lease \"a\" {wanted}"));
    }
}

#[test]
fn permits_are_counted_where_the_holders_are_known() {
    let exclusive = lease("own", LeaseState::Held);
    let several = lease(SHARED_VALUE, LeaseState::Held);
    let counted = |info: &LeaseInfo| (info.is_held(), info.shared, info.in_use, info.limit);
    assert_eq!(counted(&exclusive), (true, false, Some(1), Some(1)));
    assert_eq!(counted(&several), (true, true, None, None));
    assert_eq!(counted(&lease("own", LeaseState::Free)), (false, false, Some(0), None));
    assert_eq!(counted(&lease("own", damaged())), (true, false, None, None));
    assert_eq!(counted(&shared(&[(2, 5, 1), (1, 4, 1)])), (true, true, Some(3), Some(4)));
    // Only a smaller limit of several holders means that two programs disagree.
    let info = shared(&[(1, 4, 1)]);
    assert_eq!([3, 4, 5].map(|limit| info.limit_below(limit)), [None, None, Some(4)]);
    assert_eq!(exclusive.limit_below(5), None);
}

#[test]
fn a_value_that_a_release_has_left_is_no_holders() {
    for (value, wanted) in [("released:", true), ("released:x.1", true), ("own", false)] {
        assert_eq!(LeaseInfo::is_tombstone_value(value), wanted, "{value}");
    }
}

/// A holder counts until the moment of its expiry, with all that it has attached.
#[test]
fn a_holder_is_read_with_its_owner_its_date_and_its_metadata() {
    let at = DateTime::from_millis;
    let holder = |id: &str, until| {
        doc! {
            "value": "own",
            "id": id,
            "owner": "web@host:1",
            "permits": 1_i64,
            "limit": 4_i64,
            "ttlMs": 1_i64,
            "maxClockSkewMs": 1_i64,
            "acquiredAt": at(7),
            "metadata": { "why": "test" },
            "expiresAt": at(until),
        }
    };
    let document = doc! {
        "name": "a",
        "value": SHARED_VALUE,
        "expiresAt": at(2_000),
        "now": at(1_000),
        "holders": [holder("over.1", 1_000), holder("call.1", 1_001)],
    };
    let info = read_with_holders(&document).info;
    let [seen] = &info.holders[..] else { panic!("{info:?}") };
    assert_eq!(seen.owner.as_deref(), Some("web@host:1"));
    assert_eq!(seen.acquired_at.map(|it| it.timestamp_millis()), Some(7));
    assert_eq!(seen.metadata, doc! { "why": "test" });
    let refused = seen.metadata::<BTreeMap<String, i64>>().unwrap_err().to_string();
    assert!(refused.starts_with("the metadata are of another type: "), "{refused}");
    let fields = projection_with_holders();
    assert!(fields.contains_key("holders") && fields.contains_key("now"), "{fields}");
}
