//! Users with few privileges, and clients with restricted options.

use mongo_lease_migrations::indexes::{Error, ObstacleKind};
use mongo_lease_testbed::{FailCommand, Server, TestDatabase, Version};
use mongodb::bson::doc;
use mongodb::options::{ServerApi, ServerApiVersion};

use super::{apply, blocked, build, create_index, is_refused_as_too_old, plan, refused};

#[tokio::test]
async fn the_strict_stable_api_is_enough() {
    let api = ServerApi::builder().version(ServerApiVersion::V1).strict(true).build();
    let client = Server::shared().client_with(|options| options.server_api = Some(api)).await;
    let database = TestDatabase::of(&client);
    refused(&database, "does not exist").await;
    create_index(&database, "n", doc! { "name": 1 }, doc! { "unique": true }).await;
    create_index(&database, "e", doc! { "expiresAt": 1 }, doc! { "expireAfterSeconds": 9 }).await;
    apply(&database).await.unwrap();
    build(&database).await.unwrap();
}

/// MongoDB 6.0 converts; 7.0 does not, and an older server converts for nobody.
#[tokio::test]
async fn a_conversion_by_a_strict_client_depends_on_the_server() {
    let api = ServerApi::builder().version(ServerApiVersion::V1).strict(true).build();
    let client = Server::shared().client_with(|options| options.server_api = Some(api)).await;
    let database = TestDatabase::of(&client);
    create_index(&database, "name_1", doc! { "name": 1 }, doc! {}).await;
    create_index(&database, "e", doc! { "expiresAt": 1 }, doc! { "expireAfterSeconds": 9 }).await;
    let version = Server::shared().version().await;
    if is_refused_as_too_old(&database).await {
        return;
    }
    if version >= Version::new(7, 0) {
        eprintln!("MongoDB {version} converts for no strict client: only the refusal is asserted");
        blocked(&database, ObstacleKind::CannotConvert, STRICT).await;
        let without = database.through(&Server::shared().client().await);
        apply(&without).await.unwrap();
    } else {
        apply(&database).await.unwrap();
    }
    build(&database).await.unwrap();
}

const STRICT: &str = "this server changes that for no client of the strict Stable API";

/// On any server, by its fail point: the refusal comes before anything is changed.
#[tokio::test]
async fn a_conversion_that_the_strict_api_refuses_is_an_obstacle() {
    let server = Server::start();
    let database = server.database().await;
    create_index(&database, "name_1", doc! { "name": 1 }, doc! {}).await;
    if is_refused_as_too_old(&database).await {
        return;
    }
    let strict = FailCommand::on(&["collMod"]).error_code(323).enable(server.uri()).await;
    blocked(&database, ObstacleKind::CannotConvert, STRICT).await;
    let plan = plan(&database).await;
    assert!(plan.obstacles()[0].advice().contains("without `apiStrict`"), "{plan}");
    assert!(strict.disable().await > 0);
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
    create_index(&root, "name_1", doc! { "name": 1 }, doc! { "unique": true }).await;
    create_index(&root, "e", doc! { "expiresAt": 1 }, doc! { "expireAfterSeconds": 9 }).await;
    let error = apply(&user).await.expect_err("the user may not change an index");
    assert!(matches!(&error, Error::MissingPrivilege { privilege: "collMod", .. }), "{error:?}");
    assert!(error.to_string().contains("`collMod` on app.locks"), "{error}");
}
