//! `expiresAt` of every BSON type, as other programs may have written it.

use mongo_lease::mongodb::bson::{Bson, DateTime, doc};
use mongo_lease::{Error, LeaseState, Released};
use mongo_lease_testbed::TestDatabase;

use crate::bson_types::of_every_other_type;
use crate::common::{document, granted, known_release, setup};
use crate::patience::locks;

#[tokio::test]
async fn no_expiry_null_and_a_past_date_are_free() {
    let (database, leases) = setup().await;
    let yesterday = DateTime::now().timestamp_millis() - 86_400_000;
    let free = [
        ("missing", None),
        ("null", Some(Bson::Null)),
        ("yesterday", Some(DateTime::from_millis(yesterday).into())),
        ("1970", Some(DateTime::from_millis(0).into())),
        ("before 1970", Some(DateTime::from_millis(-1).into())),
        // The server's arithmetic must not overflow with it.
        ("first", Some(DateTime::MIN.into())),
    ];
    for (name, expires_at) in free {
        insert(&database, name, expires_at).await;
        assert_eq!(leases.get(name).await.unwrap(), None, "{name}");
        let lease = granted(&leases, name).await;
        let now = document(&database, name).await.unwrap();
        assert_eq!(now.get_str("value").ok(), Some(lease.value()), "{name}");
        assert!(matches!(now.get("expiresAt"), Some(Bson::DateTime(_))), "{name}: {now}");
        assert_eq!(lease.release().await.unwrap(), Released::Released, "{name}");
    }
}

#[tokio::test]
async fn every_other_type_is_held_and_reported_as_damaged() {
    let (database, leases) = setup().await;
    for (kind, value) in of_every_other_type() {
        insert(&database, kind, Some(value)).await;
        let before = document(&database, kind).await;
        let asked = leases.try_acquire(kind).await.map(drop);
        // The error comes at once, although the call would wait.
        let waited = leases.acquire(kind).await.map(drop);
        let released = leases.release(kind, "someone").await.map(drop);
        for answer in [asked, waited, released] {
            let Err(Error::Damaged { name, field, found, .. }) = answer else {
                panic!("{kind}: {answer:?}");
            };
            assert_eq!((name.as_str(), field, found.as_str()), (kind, "expiresAt", kind));
        }
        let other = known_release(&leases, kind, "somebody else").await;
        assert_eq!(other, Released::NotHeld, "{kind}");
        let seen = leases.get(kind).await.unwrap().expect("held");
        assert_eq!(seen.state, LeaseState::Damaged { found: kind.to_owned() });
        assert_eq!((seen.expires_at, seen.remaining), (None, None), "{kind}");
        assert_eq!(document(&database, kind).await, before, "{kind} was touched");
    }
}

async fn insert(database: &TestDatabase, name: &str, expires_at: Option<Bson>) {
    let mut document = doc! { "name": name, "value": "someone" };
    document.extend(expires_at.map(|expires_at| ("expiresAt".to_owned(), expires_at)));
    locks(database).insert_one(document).await.unwrap();
}
