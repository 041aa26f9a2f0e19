//! Users who have to log in, each with privileges of its own.

use std::sync::OnceLock;

use mongo_lease::LeaseManager;
use mongo_lease::mongodb::bson::{Document, doc};
use mongo_lease::mongodb::{Client, Database};
use mongo_lease_testbed::{Server, TestDatabase};

/// The password of root, and of all users.
pub(crate) const PASSWORD: &str = "hunter2-correct-horse";

/// The sufficient privileges, on the collection of the leases.
pub(crate) const ALL: [&str; 6] =
    ["find", "insert", "update", "remove", "listIndexes", "changeStream"];

/// The replica set of one that all tests with users share.
pub(crate) fn server() -> &'static Server {
    static SHARED: OnceLock<Server> = OnceLock::new();
    // A log-in takes a third of a second of an unoptimized client for the usual 15,000 rounds. Fewer are not allowed.
    let own = || Server::builder().parameter("scramSHA256IterationCount", 5_000);
    SHARED.get_or_init(|| own().root_password(PASSWORD).start())
}

/// A database with the indexes, as root sees it.
pub(crate) async fn migrated() -> TestDatabase {
    let database = TestDatabase::of(&client_of("root").await);
    let _made =
        LeaseManager::builder(&database).ensure_indexes(true).build().await.expect("the indexes");
    database
}

pub(crate) fn all_but(missing: &str) -> Vec<&'static str> {
    ALL.into_iter().filter(|action| *action != missing).collect()
}

/// The database as a new user sees it, with these privileges on its leases and no others.
pub(crate) async fn user_who_may(database: &TestDatabase, actions: &[&str]) -> Database {
    let name = database.name();
    let on_locks = doc! { "db": name, "collection": "locks" };
    let privilege = doc! { "resource": on_locks, "actions": actions.to_vec() };
    let role = doc! { "createRole": name, "privileges": [privilege], "roles": [] };
    server().admin(role).await;
    make_user(name, doc! { "role": name, "db": "admin" }).await;
    database.through(&client_of(name).await)
}

pub(crate) async fn make_user(name: &str, role: Document) {
    server().admin(doc! { "createUser": name, "pwd": PASSWORD, "roles": [role] }).await;
}

pub(crate) async fn client_of(user: &str) -> Client {
    Client::with_uri_str(server().uri_as(user, PASSWORD)).await.expect("an address")
}
