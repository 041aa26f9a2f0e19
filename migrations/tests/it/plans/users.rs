//! Users with few privileges, and clients with restricted options.

use mongo_lease_migrations::indexes::Error;
use mongo_lease_testbed::{Server, TestDatabase};
use mongodb::bson::doc;
use mongodb::options::{ServerApi, ServerApiVersion};

use super::{apply, build, create_index, refused};

#[tokio::test]
async fn the_strict_stable_api_is_enough() {
    let api = ServerApi::builder().version(ServerApiVersion::V1).strict(true).build();
    let client = Server::shared().client_with(|options| options.server_api = Some(api)).await;
    let database = TestDatabase::of(&client);
    refused(&database, "does not exist").await;
    create_index(&database, "name_1", doc! { "name": 1 }, doc! {}).await;
    create_index(&database, "e", doc! { "expiresAt": 1 }, doc! { "expireAfterSeconds": 9 }).await;
    apply(&database).await.unwrap();
    build(&database).await.unwrap();
}

#[tokio::test]
async fn missing_privileges_to_change_are_named() {
    let (_server, root, user) = Server::with_user(&["find", "listIndexes"]).await;
    let error = apply(&user).await.expect_err("the user may not make an index");
    assert!(
        matches!(&error, Error::MissingPrivilege { privilege: "createIndex", .. }),
        "{error:?}"
    );
    create_index(&root, "name_1", doc! { "name": 1 }, doc! {}).await;
    let error = apply(&user).await.expect_err("the user may not change an index");
    assert!(matches!(&error, Error::MissingPrivilege { privilege: "collMod", .. }), "{error:?}");
    assert!(error.to_string().contains("`collMod` on app.locks"), "{error}");
}
