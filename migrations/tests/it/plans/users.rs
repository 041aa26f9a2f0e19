//! Users with few privileges, and clients with restricted options.

use mongo_lease_migrations::indexes::Error;
use mongo_lease_testbed::{Server, TestDatabase};
use mongodb::bson::doc;
use mongodb::options::{Credential, ServerApi, ServerApiVersion};
use mongodb::{Client, Database};

use super::{apply, build, create_index, refused, run};

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
async fn missing_privileges_to_change_are_named() {
    let (_server, root, user) = server_with_user(&["find", "listIndexes"]).await;
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
