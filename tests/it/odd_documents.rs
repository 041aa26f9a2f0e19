//! Documents with other fields of any type: none of them is ours, and they break nothing.

use futures_util::TryStreamExt;
use mongo_lease::mongodb::bson::{Bson, DateTime, Document, doc};
use mongo_lease::{Attempt, Error, Released};
use mongo_lease_testbed::TestDatabase;

use crate::bson_types::of_every_other_type;
use crate::common::{document, setup};

#[tokio::test]
async fn a_value_a_grant_and_a_queue_of_any_type_are_never_ours() {
    let (database, leases) = setup().await;
    for (kind, odd) in all_types() {
        for field in ["value", "grant", "queue"] {
            let name = format!("{field}:{kind}");
            let mut held = doc! { "name": &name, "value": "v", "expiresAt": in_seconds(60) };
            held.insert(field, odd.clone());
            insert(&database, held).await;
            let Attempt::Busy(info) = leases.try_acquire(&name).await.unwrap() else {
                panic!("{name} was granted");
            };
            assert_eq!((info.name.as_str(), &info.owner), (name.as_str(), &None));
            assert!(info.metadata.is_empty() && info.acquired_at.is_none(), "{name}");
            let is_text = field != "value" || kind == "string";
            assert_eq!(info.value.is_some(), is_text, "{name}");
            assert_eq!(leases.release(&name, "w").await.unwrap(), Released::NotHeld);
            assert!(document(&database, &name).await.is_some(), "{name}");
        }
    }
    let all: Vec<_> = leases.list().stream().unwrap().try_collect().await.unwrap();
    assert_eq!(all.len(), 3 * all_types().len());
}

#[tokio::test]
async fn they_are_taken_over_when_they_have_expired() {
    let (database, leases) = setup().await;
    for (kind, odd) in all_types() {
        for field in ["value", "grant", "queue"] {
            let name = format!("{field}:{kind}");
            let mut expired = doc! { "name": &name, "value": "v", "expiresAt": in_seconds(-60) };
            expired.insert(field, odd.clone());
            insert(&database, expired).await;
            let lease = leases.try_acquire(&name).await.unwrap().granted();
            let lease = lease.unwrap_or_else(|| panic!("{name} is not free"));
            lease.renew().await.unwrap();
            let info = leases.get(&name).await.unwrap().unwrap();
            assert!(info.owner.is_some_and(|owner| owner.starts_with("test@")), "{name}");
            assert_eq!(lease.release().await.unwrap(), Released::Released, "{name}");
            assert_eq!(document(&database, &name).await, None, "{name}");
        }
    }
}

#[tokio::test]
async fn grant_fields_of_any_type_reveal_nothing_and_break_nothing() {
    let (database, leases) = setup().await;
    for (kind, odd) in all_types() {
        let mut grant = doc! { "value": "v" };
        for field in [
            "id",
            "sentMicros",
            "owner",
            "acquiredAt",
            "ttlMs",
            "maxClockSkewMs",
            "metadata",
            "writes",
        ] {
            grant.insert(field, odd.clone());
        }
        let held = doc! {
            "name": kind, "value": "v", "expiresAt": in_seconds(60), "grant": grant,
        };
        insert(&database, held).await;
        let Attempt::Busy(info) = leases.try_acquire(kind).await.unwrap() else {
            panic!("{kind} was granted");
        };
        assert_eq!(info.owner.is_some(), kind == "string", "{info:?}");
        assert_eq!(leases.release(kind, "v").await.unwrap(), Released::Released, "{kind}");
    }
}

/// The server treats a symbol as equal to the same text, and a list as equal to each of its elements.
#[tokio::test]
async fn a_name_that_is_equal_to_ours_and_no_text_holds_it_too() {
    let (database, leases) = setup().await;
    let symbol = of_every_other_type().into_iter().find(|(kind, _)| *kind == "symbol").unwrap().1;
    for (name, odd) in [("a", symbol), ("b", vec!["b", "c"].into())] {
        let until = [in_seconds(60).into(), Bson::from("no date")];
        for until in until {
            let theirs = doc! { "name": &odd, "value": "v", "expiresAt": &until };
            insert(&database, theirs).await;
            let named = match leases.try_acquire(name).await {
                Ok(Attempt::Busy(info)) => info.name,
                Err(Error::Damaged { name, .. }) => name,
                other => panic!("{other:?}"),
            };
            assert_eq!(named, name);
            match leases.release(name, "v").await {
                Ok(released) => {
                    assert_eq!(
                        (released, until.as_datetime().is_some()),
                        (Released::Released, true)
                    );
                }
                Err(Error::Damaged { name: damaged, .. }) => {
                    assert_eq!((damaged.as_str(), until.as_str()), (name, Some("no date")));
                    let locks = database.collection::<Document>("locks");
                    locks.delete_one(doc! { "name": &odd }).await.unwrap();
                }
                Err(error) => panic!("{error}"),
            }
        }
    }
}

/// A former holder's grant stays in the document when another program takes the lease over.
#[tokio::test]
async fn a_grant_that_another_program_left_behind_speaks_of_nobody() {
    let (database, leases) = setup().await;
    let lease = leases.acquire("a").metadata(doc! { "mine": 1 }).await.unwrap();
    let locks = database.collection::<Document>("locks");
    let taken = doc! { "$set": { "value": "theirs", "expiresAt": in_seconds(60) } };
    locks.update_one(doc! { "name": "a" }, taken).await.unwrap();
    let info = leases.get("a").await.unwrap().unwrap();
    assert_eq!((info.owner, info.acquired_at, info.metadata), (None, None, doc! {}));
    assert_eq!(info.value.as_deref(), Some("theirs"));
    assert_eq!(lease.release().await.unwrap(), Released::NotHeld);
    assert!(document(&database, "a").await.is_some());
}

fn all_types() -> Vec<(&'static str, Bson)> {
    let mut all = of_every_other_type();
    all.push(("null", Bson::Null));
    all.push(("date", DateTime::now().into()));
    all
}

fn in_seconds(seconds: i64) -> DateTime {
    DateTime::from_millis(DateTime::now().timestamp_millis() + seconds * 1_000)
}

async fn insert(database: &TestDatabase, document: Document) {
    database.collection::<Document>("locks").insert_one(document).await.unwrap();
}
