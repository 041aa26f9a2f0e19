//! The library on a server whose users log in (SCRAM) over TLS.

// A test names what it expects; everything else is a failure, also variants that are added later.
#![allow(clippy::wildcard_enum_match_arm)]

mod life;
mod refused;

use std::sync::OnceLock;
use std::time::Duration;

use mongo_lease::LeaseManager;
use mongo_lease::mongodb::bson::doc;
use mongo_lease::mongodb::{Client, Database};
use mongo_lease_security::ROOT_PASSWORD;
use mongo_lease_testbed::{Server, TestDatabase};

/// The password of all users except root.
const PASSWORD: &str = "worker-battery-staple";

/// Longer than anything here takes, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// The result of the future, which must come in time.
async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    match tokio::time::timeout(PATIENCE, future).await {
        Ok(output) => output,
        Err(_) => panic!("after {PATIENCE:?} this has not happened: {what}"),
    }
}

/// The server that all tests here share.
fn server() -> &'static Server {
    static SHARED: OnceLock<Server> = OnceLock::new();
    SHARED.get_or_init(mongo_lease_security::start)
}

/// A database with the indexes, as root sees it, and a user of the same name with a manager's privileges.
async fn set_up() -> TestDatabase {
    let root = connect(&server().uri_as("root", ROOT_PASSWORD)).await;
    let database = TestDatabase::of(&root);
    let _made =
        LeaseManager::builder(&database).ensure_indexes(true).build().await.expect("the indexes");
    let resource = doc! { "db": database.name(), "collection": "locks" };
    let actions = ["find", "insert", "update", "remove", "listIndexes", "changeStream"];
    let privilege = doc! { "resource": resource, "actions": actions.to_vec() };
    let role = doc! { "createRole": database.name(), "privileges": [privilege], "roles": [] };
    server().admin(role).await;
    let roles = [database.name()];
    let user = doc! { "createUser": database.name(), "pwd": PASSWORD, "roles": roles.to_vec() };
    server().admin(user).await;
    database
}

async fn connect(uri: &str) -> Client {
    Client::with_uri_str(uri).await.expect("an address")
}

/// The database as its user sees it, over a client of its own.
async fn log_in(database: &TestDatabase) -> Database {
    let client = connect(&server().uri_as(database.name(), PASSWORD)).await;
    database.through(&client)
}
