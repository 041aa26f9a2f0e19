//! Users with few privileges, and clients with restricted options.

use mongo_lease::mongodb::bson::doc;
use mongo_lease::mongodb::options::{ServerApi, ServerApiVersion};
use mongo_lease::{Attempt, Error, LeaseManager};
use mongo_lease_testbed::{Server, TestDatabase};

use super::{build, create_index, ensure, refused};

#[tokio::test]
async fn the_strict_stable_api_is_enough() {
    let api = ServerApi::builder().version(ServerApiVersion::V1).strict(true).build();
    let client = Server::shared().client_with(|options| options.server_api = Some(api)).await;
    let database = TestDatabase::of(&client);
    refused(&database, "does not exist").await;
    create_index(&database, "n", doc! { "name": 1 }, doc! { "unique": true }).await;
    ensure(&database).await.unwrap();
}

#[tokio::test]
async fn missing_privileges_are_named() {
    let (_server, root, user) = Server::with_user(&["find", "insert", "update", "remove"]).await;
    let error = build(&user).await.expect_err("the user may not list the indexes");
    assert!(
        matches!(&error, Error::MissingPrivilege { privilege: "listIndexes", .. }),
        "{error:?}"
    );
    let message = error.to_string();
    assert!(message.contains("`listIndexes` on app.locks"), "{message}");
    assert!(message.contains("`assume_indexes(true)`"), "{message}");

    let _ensured = ensure(&root).await.unwrap();
    let leases = LeaseManager::builder(&user).assume_indexes(true).build().await.unwrap();
    assert!(matches!(leases.try_acquire("a").await.unwrap(), Attempt::Granted(_)));
}

#[tokio::test]
async fn missing_privileges_to_create_are_named() {
    let (_server, _root, user) = Server::with_user(&["find", "listIndexes"]).await;
    let error = ensure(&user).await.expect_err("the user may not make an index");
    assert!(
        matches!(&error, Error::MissingPrivilege { privilege: "createIndex", .. }),
        "{error:?}"
    );
    assert!(error.to_string().contains("`createIndex` on app.locks"), "{error}");
}
