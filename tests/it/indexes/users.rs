//! Users with few privileges, and clients with restricted options.

use mongo_lease::mongodb::bson::doc;
use mongo_lease::mongodb::options::{Credential, ServerApi, ServerApiVersion};
use mongo_lease::mongodb::{Client, Database};
use mongo_lease::{Attempt, Error, LeaseManager};
use mongo_lease_testbed::{Server, TestDatabase};

use super::{build, create_index, ensure, refused, run};

#[tokio::test]
async fn the_strict_stable_api_is_enough() {
    let api = ServerApi::builder().version(ServerApiVersion::V1).strict(true).build();
    let client = Server::shared().client_with(|options| options.server_api = Some(api)).await;
    let database = TestDatabase::of(&client);
    refused(&database, "does not exist").await;
    create_index(&database, "n", doc! { "name": 1 }, doc! { "unique": true }).await;
    ensure(&database).await.unwrap().build().await.unwrap();
}

/// A standalone server with users: root, and one with these actions on the collection `app.locks`.
async fn server_with_user(actions: &[&str]) -> (Server, Database, Database) {
    let server = Server::builder().standalone().argument("--auth").start();
    let admin = doc! { "createUser": "root", "pwd": "root-word", "roles": ["root"] };
    server.admin(admin).await;
    let root = database_as(&server, "root", "root-word").await;
    let resource = doc! { "db": "app", "collection": "locks" };
    let on_collection = doc! { "resource": resource, "actions": actions };
    let on_database = doc! {
        "resource": { "db": "app", "collection": "" },
        "actions": ["listCollections"],
    };
    let role = doc! {
        "createRole": "narrow",
        "privileges": [on_collection, on_database],
        "roles": [],
    };
    let authority = root.client().database("admin");
    run(&authority, role).await;
    let user = doc! { "createUser": "user", "pwd": "user-word", "roles": ["narrow"] };
    run(&authority, user).await;
    let user = database_as(&server, "user", "user-word").await;
    (server, root, user)
}

async fn database_as(server: &Server, user: &str, password: &str) -> Database {
    let credential = Credential::builder()
        .username(user.to_owned())
        .password(password.to_owned())
        .source("admin".to_owned())
        .build();
    let client: Client = server.client_with(|options| options.credential = Some(credential)).await;
    client.database("app")
}

#[tokio::test]
async fn missing_privileges_are_named() {
    let (_server, root, user) = server_with_user(&["find", "insert", "update", "remove"]).await;
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
    let (_server, _root, user) = server_with_user(&["find", "listIndexes"]).await;
    let error = ensure(&user).await.expect_err("the user may not make an index");
    assert!(
        matches!(&error, Error::MissingPrivilege { privilege: "createIndex", .. }),
        "{error:?}"
    );
    assert!(error.to_string().contains("`createIndex` on app.locks"), "{error}");
}
