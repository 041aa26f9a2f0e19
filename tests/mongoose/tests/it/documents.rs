//! How each program handles fields that only the other knows.

use mongo_lease::Released;
use mongo_lease::mongodb::bson::{Document, doc};
use mongo_lease_testbed::TestDatabase;

use crate::common::{builder, document, migrated};
use crate::neighbour::{Character, Neighbour, ONCE};
use crate::patience::until_in_line;

/// Ends a lease as its expiry does, without the TTL monitor, which would remove the document.
async fn free(database: &TestDatabase, name: &str) {
    let locks = database.collection::<Document>("locks");
    let update = doc! { "$set": { "expiresAt": null } };
    assert_eq!(locks.update_one(doc! { "name": name }, update).await.unwrap().modified_count, 1);
}

fn has_all(document: &Document, fields: &[&str]) -> bool {
    fields.iter().all(|field| document.contains_key(field))
}

#[tokio::test]
async fn documents_with_mongooses_own_fields_are_handled_like_ours() {
    let database = migrated().await;
    let leases = builder(&database).build().await.unwrap();
    let character = Character { schema: "with more fields", ..Character::default() };
    let mongoose = Neighbour::start_as(&database, character).await;
    let own = ["__v", "createdAt", "updatedAt", "host"];

    let theirs = mongoose.lock("a", ONCE).await.expect("it is free");
    assert!(has_all(&document(&database, "a").await.unwrap(), &own));
    assert!(leases.try_acquire("a").await.unwrap().granted().is_none());
    let seen = leases.get("a").await.unwrap().unwrap();
    assert_eq!((seen.value.as_ref(), seen.owner.as_ref()), (Some(&theirs), None));
    // As an operator does.
    assert_eq!(leases.release("a", theirs).await.unwrap(), Released::Released);

    mongoose.lock("a", ONCE).await.expect("it is free");
    free(&database, "a").await;
    let lease = leases.acquire("a").await.unwrap();
    assert!(has_all(&document(&database, "a").await.unwrap(), &own), "it was taken over");
    assert_eq!(mongoose.lock("a", ONCE).await, None);
    let seen = leases.get("a").await.unwrap().unwrap();
    assert_eq!(seen.value.as_deref(), Some(lease.value()));
    assert!(seen.owner.is_some());
    assert_eq!(lease.release().await.unwrap(), Released::Released);
    assert_eq!(document(&database, "a").await, None);
}

/// The strictest schema: with it, a field that it does not name is an error when Mongoose writes.
#[tokio::test]
async fn fields_of_ours_do_not_disturb_mongoose() {
    let database = migrated().await;
    let holder = builder(&database).build().await.unwrap();
    let waiter = builder(&database).build().await.unwrap();
    let character = Character { schema: "strict", ..Character::default() };
    let mongoose = Neighbour::start_as(&database, character).await;

    // Our document, with a holder and a waiter.
    let lease = holder.acquire("a").await.unwrap();
    let waits = tokio::spawn({
        let waiter = waiter.clone();
        async move { waiter.acquire("a").wait_forever().await }
    });
    until_in_line(&holder, "a", 1).await;
    assert!(has_all(&document(&database, "a").await.unwrap(), &["grant", "queue"]));
    let fields = mongoose.fields("a").await;
    for field in ["name", "value", "expiresAt"] {
        assert!(fields.iter().any(|found| found == field), "{field} is missing: {fields:?}");
    }
    assert_eq!(mongoose.lock("a", ONCE).await, None);

    // Our crashed holder's document: Mongoose takes it over, with our other fields still in it.
    waits.abort();
    until_in_line(&holder, "a", 0).await;
    drop(lease.detach().await.unwrap());
    free(&database, "a").await;
    let theirs = mongoose.lock("a", ONCE).await.expect("it is free");
    assert!(document(&database, "a").await.unwrap().contains_key("grant"));
    let seen = holder.get("a").await.unwrap().unwrap();
    assert_eq!(
        (seen.value.as_ref(), seen.owner),
        (Some(&theirs), None),
        "the grant is of the past"
    );
    assert!(mongoose.release("a", &theirs).await);
    assert_eq!(document(&database, "a").await, None);
}
