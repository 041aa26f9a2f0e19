//! Read-only managers need only the privilege to read, and cannot write.

use mongo_lease::{Error, LeaseManager};
use mongo_lease_testbed::Server;

use crate::common::setup;
use crate::inspect::names_of;
use crate::users::{migrated, user_who_may};

#[tokio::test]
async fn who_only_looks_needs_to_read_and_no_more() {
    let database = migrated().await;
    let leases = LeaseManager::builder(&database).build().await.expect("a manager");
    let lease = leases.acquire("a").await.expect("a lease");

    let builder = LeaseManager::builder(&user_who_may(&database, &["find"]).await);
    let refused = builder.clone().assume_indexes(true).build().await;
    let message = refused.expect_err("built for writing").to_string();
    assert!(message.contains("not authorized"), "{message}");
    let looking = builder.read_only(true).build().await.expect("a manager that looks");
    let seen = looking.get("a").await.expect("a look").expect("it is held");
    assert_eq!(seen.value.as_deref(), Some(lease.value()));
    assert_eq!(names_of(looking.list()).await, ["a"]);
    looking.ping().await.expect("a sign of life");
    assert_eq!(looking.shutdown().await.tasks_left, 0);
}

#[tokio::test]
async fn a_read_only_manager_refuses_every_write_before_sending_it() {
    let (database, leases) = setup().await;
    let lease = leases.acquire("a").await.expect("a lease");
    let value = lease.value().to_owned();
    let key = lease.detach().await.unwrap();

    // Its user may write, but the manager does not.
    let looking = LeaseManager::builder(&database).read_only(true).build().await.expect("a look");
    for (call, error) in [
        ("acquire", looking.acquire("b").await.err()),
        ("try_acquire", looking.try_acquire("b").await.err()),
        ("resume", looking.resume(key).await.err()),
        ("release", looking.release("a", &value).await.err()),
    ] {
        let is_named = matches!(error, Some(Error::InvalidOption { option: "read_only", .. }));
        assert!(is_named, "{call}: {error:?}");
    }
    assert!(leases.get("a").await.expect("a look").is_some(), "it was released all the same");
    assert!(leases.get("b").await.expect("a look").is_none(), "it was granted all the same");

    // The missing setup is reported to a user who may list the indexes.
    let bare = Server::shared().database().await;
    let error = LeaseManager::builder(&bare).read_only(true).build().await.err();
    assert!(matches!(error, Some(Error::NotMigrated { .. })), "{error:?}");
}
