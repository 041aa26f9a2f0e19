//! Missing privileges: each gives a clear error without an effect, or has a documented fallback.

use mongo_lease::mongodb::Database;
use mongo_lease::mongodb::bson::doc;
use mongo_lease::mongodb::error::ErrorKind;
use mongo_lease::{Attempt, Error, LeaseManager, Released};
use mongo_lease_testbed::{Server, TestDatabase};

use super::all_but;
use crate::common::handed_on;
use crate::patience::{Listener, locks, soon};

/// Asserts that it is the server's refusal of this command, on one line.
fn is_refusal_of(command: &str, error: &Error) {
    let Error::MongoDb(source) = error else { panic!("{error:?}") };
    let is_unauthorized =
        matches!(source.kind.as_ref(), ErrorKind::Command(refused) if refused.code == 13);
    assert!(is_unauthorized, "{error:?}");
    let message = error.to_string();
    assert!(message.contains("not authorized on mongo_lease_test_"), "{message}");
    // The server repeats the command, with the lease's value in it. The error does not show that.
    assert!(message.ends_with(&format!("to execute `{command}`")), "{message}");
}

/// Asserts that the error names the privilege that is missing, and on which collection.
fn names_privilege(missing: &str, database: &Database, error: &Error) {
    let is_named =
        matches!(error, Error::MissingPrivilege { privilege, .. } if *privilege == missing);
    assert!(is_named, "{error:?}");
    let named = format!("`{missing}` on {}.locks", database.name());
    assert!(error.to_string().contains(&named), "{error}");
}

async fn is_empty(database: &TestDatabase) -> bool {
    locks(database).count_documents(doc! {}).await.unwrap() == 0
}

async fn build(user: &Database) -> mongo_lease::Result<LeaseManager> {
    LeaseManager::builder(user).build().await
}

#[tokio::test]
async fn without_find_or_update_no_manager_is_built() {
    for missing in ["find", "update"] {
        let (database, _root, user) = all_but(missing).await;
        is_refusal_of("findAndModify", &build(&user).await.expect_err(missing));
        assert!(is_empty(&database).await, "{missing}");
    }
}

#[tokio::test]
async fn without_insert_nothing_is_granted_and_each_call_says_why() {
    let (database, root, user) = all_but("insert").await;
    let leases = build(&user).await.expect("a manager");
    is_refusal_of("findAndModify", &leases.try_acquire("a").await.expect_err("an answer"));
    is_refusal_of("findAndModify", &leases.acquire("a").await.expect_err("a lease"));
    assert!(is_empty(&database).await);
    // Also where there would be nothing to insert; and queries still work.
    let held = root.acquire("b").await.unwrap();
    is_refusal_of("findAndModify", &leases.acquire("b").await.expect_err("a lease"));
    assert!(leases.get("b").await.expect("a look").is_some());
    assert_eq!(held.release().await.unwrap(), Released::Released);
    assert!(leases.shutdown().await.left_to_expire.is_empty());
}

#[tokio::test]
async fn without_remove_a_release_says_so_and_the_lease_runs_out() {
    let (database, root, user) = all_but("remove").await;
    let leases = build(&user).await.expect("a manager");
    let ttl = std::time::Duration::from_secs(3);
    let lease = leases.acquire("a").ttl(ttl).await.expect("a lease");
    lease.renew().await.expect("a renewal");
    let value = lease.value().to_owned();
    is_refusal_of("delete", &lease.release().await.expect_err("a release"));
    let document = crate::common::document(&database, "a").await.expect("it is still held");
    assert_eq!(document.get_str("value").ok(), Some(value.as_str()));
    // It is not renewed any more: the next caller gets it at the end of its ttl.
    let next = soon("the ttl ends", root.acquire("a").into_future()).await.expect("a lease");

    // A hand-off removes nothing, and works: waiters are not blocked.
    let lease = handed_on(next, &leases).await;
    is_refusal_of("delete", &lease.release().await.expect_err("a release"));
}

#[tokio::test]
async fn without_list_indexes_a_manager_is_built_only_by_saying_so() {
    let (database, _root, user) = all_but("listIndexes").await;
    let refused = build(&user).await.expect_err("a manager");
    names_privilege("listIndexes", &database, &refused);
    assert!(refused.to_string().contains("`assume_indexes(true)`"), "{refused}");

    let leases = LeaseManager::builder(&user).assume_indexes(true).build().await;
    let leases = leases.expect("a manager");
    let lease = leases.acquire("a").await.expect("a lease");
    assert!(matches!(leases.try_acquire("a").await, Ok(Attempt::Busy(_))));
    assert_eq!(lease.release().await.expect("a release"), Released::Released);
}

#[tokio::test]
async fn without_create_index_no_index_is_made_and_the_error_says_so() {
    let (_server, _root, user) = Server::with_user(&["find", "listIndexes"]).await;
    let refused = LeaseManager::builder(&user).ensure_indexes(true).build().await;
    names_privilege("createIndex", &user, &refused.expect_err("a manager"));
}

#[tokio::test]
async fn without_change_stream_who_waits_polls_and_is_granted() {
    let (_database, root, user) = all_but("changeStream").await;
    let leases = build(&user).await.expect("a manager");
    let mut events = Listener::of(&leases);
    let lease = root.acquire("a").await.unwrap();
    let waiting = tokio::spawn(leases.acquire("a").wait_forever().into_future());
    let reason = events.polling().await;
    assert!(reason.ends_with("to execute `aggregate`"), "{reason}");
    lease.release().await.unwrap();
    let lease = soon("it is found by looking", waiting).await.unwrap().expect("a lease");
    assert_eq!(lease.release().await.expect("a release"), Released::Released);
}
