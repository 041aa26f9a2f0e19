//! Documents with other fields of any type: none of them is ours, and they break nothing.

use mongo_lease::mongodb::bson::{Bson, DateTime, doc};
use mongo_lease::{Error, Released};

use crate::bson_types::of_every_other_type;
use crate::common::{
    assert_done, assert_not_done, document, granted, known_release, refused, setup,
};
use crate::inspect::names_of;
use crate::patience::locks;

#[tokio::test]
async fn a_value_a_grant_and_a_queue_of_any_type_are_never_ours() {
    let (database, leases) = setup().await;
    let kinds = all_types().into_iter();
    let all = kinds.flat_map(|odd| ["value", "grant", "queue"].map(|field| (field, odd.clone())));
    let all: Vec<_> =
        all.map(|(field, (kind, odd))| (format!("{field}:{kind}"), field, odd)).collect();
    for (name, field, odd) in all.clone() {
        let is_text = field != "value" || odd.as_str().is_some();
        let mut held = doc! { "name": &name, "value": "v", "expiresAt": in_seconds(600) };
        held.insert(field, odd);
        locks(&database).insert_one(held).await.unwrap();
        let info = refused(&leases, &name).await;
        assert_eq!((&info.name, &info.owner, info.acquired_at), (&name, &None, None));
        assert_eq!((&info.metadata, info.value.is_some()), (&doc! {}, is_text), "{name}");
        assert_eq!(known_release(&leases, &name, "w").await, Released::NotHeld);
        assert!(document(&database, &name).await.is_some(), "{name}");
    }
    assert_eq!(names_of(leases.list()).await.len(), all.len());
    // Nor do the fields of a grant break anything, also where it is that of the value.
    let fields = "id sentMicros owner acquiredAt ttlMs maxClockSkewMs metadata writes";
    for (kind, odd) in all_types() {
        let mut grant = doc! { "value": "v" };
        grant.extend(fields.split(' ').map(|field| (field.to_owned(), odd.clone())));
        let until = in_seconds(600);
        let held = doc! { "name": kind, "value": "v", "expiresAt": until, "grant": grant };
        locks(&database).insert_one(held).await.unwrap();
        let info = refused(&leases, kind).await;
        assert_eq!(info.owner.is_some(), kind == "string", "{info:?}");
        assert_done(leases.release(kind, "v").await.unwrap(), kind);
    }

    // When they have expired they are taken over.
    let expired = doc! { "$set": { "expiresAt": in_seconds(-60) } };
    for (name, ..) in &all {
        locks(&database).update_one(doc! { "name": name }, expired.clone()).await.unwrap();
        let lease = granted(&leases, name).await;
        lease.renew().await.unwrap();
        let info = leases.get(name).await.unwrap().unwrap();
        assert!(info.owner.is_some_and(|owner| owner.starts_with("test@")), "{name}");
        assert_eq!(lease.release().await.unwrap(), Released::Released, "{name}");
        assert_eq!(document(&database, name).await, None, "{name}");
    }
}

/// The server treats a symbol as equal to the same text, and a list as equal to each of its elements.
#[tokio::test]
async fn a_name_that_is_equal_to_ours_and_no_text_holds_it_too() {
    let (database, leases) = setup().await;
    let symbol = of_every_other_type().into_iter().find(|(kind, _)| *kind == "symbol").unwrap().1;
    for (name, odd) in [("a", symbol), ("b", vec!["b", "c"].into())] {
        let theirs = doc! { "name": &odd, "value": "v", "expiresAt": in_seconds(60) };
        locks(&database).insert_one(theirs.clone()).await.unwrap();
        assert_eq!(refused(&leases, name).await.name, name);
        assert_done(leases.release(name, "v").await.unwrap(), name);

        let mut damaged = theirs;
        damaged.insert("expiresAt", "no date");
        locks(&database).insert_one(damaged).await.unwrap();
        let asked = leases.try_acquire(name).await.map(drop);
        let released = leases.release(name, "v").await.map(drop);
        for answer in [asked, released] {
            let Err(Error::Damaged { name: named, .. }) = answer else { panic!("{answer:?}") };
            assert_eq!(named, name);
        }
        locks(&database).delete_one(doc! { "name": &odd }).await.unwrap();
    }
}

/// A former holder's grant stays in the document when another program takes the lease over.
#[tokio::test]
async fn a_grant_that_another_program_left_behind_speaks_of_nobody() {
    let (database, leases) = setup().await;
    let lease = leases.acquire("a").metadata(doc! { "mine": 1 }).await.unwrap();
    let owner = leases.get("a").await.unwrap().unwrap().owner.unwrap();
    let taken = doc! { "$set": { "value": "theirs", "expiresAt": in_seconds(60) } };
    locks(&database).update_one(doc! { "name": "a" }, taken).await.unwrap();
    let info = leases.get("a").await.unwrap().unwrap();
    assert_eq!((info.owner, info.acquired_at, info.metadata), (None, None, doc! {}));
    assert_eq!(info.value.as_deref(), Some("theirs"));
    assert_eq!(names_of(leases.list().held_by(owner)).await, Vec::<String>::new());
    // It is known to be lost then.
    lease.renew().await.unwrap_err();
    assert_not_done(lease.release().await.unwrap());
    assert!(document(&database, "a").await.is_some());
}

fn all_types() -> Vec<(&'static str, Bson)> {
    let more = [("null", Bson::Null), ("date", DateTime::now().into())];
    of_every_other_type().into_iter().chain(more).collect()
}

fn in_seconds(seconds: i64) -> DateTime {
    DateTime::from_millis(DateTime::now().timestamp_millis() + seconds * 1_000)
}
