//! The indexes: what the manager refuses, and what it creates. The migrations package's tests cover migrations.

mod ensuring;
mod look_alikes;
mod running;

use mongo_lease::mongodb::Database;
use mongo_lease::mongodb::bson::{Bson, Document, doc};
use mongo_lease::{Error, LeaseManager, Released};
use mongo_lease_testbed::{Server, TestDatabase};

use crate::common::granted;

/// The package with the binary that the message names.
const MIGRATIONS: &str = "mongo-lease-migrations";

pub(crate) async fn fresh() -> TestDatabase {
    Server::shared().database().await
}

pub(crate) async fn with_indexes(indexes: impl IntoIterator<Item = Document>) -> TestDatabase {
    let database = fresh().await;
    for index in indexes {
        create_index(&database, index).await;
    }
    database
}

/// Our index on the name, but for these options.
pub(crate) fn on_name(options: Document) -> Document {
    let mut index = doc! { "name": "name_1", "key": { "name": 1 }, "unique": true };
    index.extend(options);
    index
}

/// Our index on the expiry, but for these options.
pub(crate) fn on_expiry(options: Document) -> Document {
    let mut index =
        doc! { "name": "expiresAt_1", "key": { "expiresAt": 1 }, "expireAfterSeconds": 0 };
    index.extend(options);
    index
}

pub(crate) async fn run(database: &Database, command: Document) -> Document {
    database.run_command(command).await.expect("the command is accepted")
}

pub(crate) async fn create_index(database: &Database, index: Document) {
    run(database, doc! { "createIndexes": "locks", "indexes": [index] }).await;
}

pub(crate) async fn ensure(database: &Database) -> mongo_lease::Result<LeaseManager> {
    LeaseManager::builder(database).ensure_indexes(true).build().await
}

pub(crate) async fn build(database: &Database) -> mongo_lease::Result<LeaseManager> {
    LeaseManager::builder(database).build().await
}

/// Ensures the indexes. After that a manager is built without ensuring them, and grants leases.
pub(crate) async fn ensures_and_grants(database: &Database) {
    ensure(database).await.expect("the indexes are made");
    let leases = build(database).await.expect("the indexes are there");
    let lease = granted(&leases, "a").await;
    assert_eq!(lease.release().await.expect("a release"), Released::Released);
}

/// Asserts that nothing is granted, because the indexes are not what they must be.
pub(crate) async fn grants_nothing(leases: &LeaseManager, name: &str) {
    let error = leases.try_acquire(name).await.expect_err("nothing is granted");
    assert!(matches!(error, Error::NotMigrated { .. }), "{error:?}");
    assert!(error.to_string().contains("mongo-lease-migrate up"), "{error}");
}

/// The indexes; none where there is no collection.
pub(crate) async fn listed(database: &Database) -> Vec<Document> {
    let Ok(reply) = database.run_command(doc! { "listIndexes": "locks" }).await else {
        return Vec::new();
    };
    let batch = reply.get_document("cursor").and_then(|cursor| cursor.get_array("firstBatch"));
    batch.expect("a batch").iter().filter_map(Bson::as_document).cloned().collect()
}

pub(crate) async fn index(database: &Database, name: &str) -> Document {
    let mut found = listed(database).await.into_iter();
    found.find(|index| index.get_str("name").ok() == Some(name)).expect("such an index")
}

/// Asserts that `build` is refused; the message names this reason, and the command to run.
pub(crate) async fn refused(database: &Database, why: &str) {
    let error = build(database).await.expect_err("the manager is refused");
    assert!(matches!(error, Error::NotMigrated { .. }), "{error:?}");
    let message = error.to_string();
    assert!(message.contains(why), "{why}: {message}");
    let command = format!("`mongo-lease-migrate up --db {} --collection locks`", database.name());
    assert!(message.contains(&command), "{message}");
    let install = format!("of the package `{MIGRATIONS}`");
    assert!(message.contains(&install), "{message}");
}

#[test]
fn the_package_that_the_advice_installs_has_the_command() {
    let manifest = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("migrations/Cargo.toml");
    let manifest = std::fs::read_to_string(manifest).expect("the manifest");
    assert!(manifest.contains(&format!("name = \"{MIGRATIONS}\"")), "{manifest}");
    assert!(manifest.contains("[[bin]]\nname = \"mongo-lease-migrate\""), "{manifest}");
    assert!(!manifest.contains("publish = false"), "it is not to be published");
}

/// Asserts that both `build` and ensuring the indexes are refused for this reason, and change nothing.
pub(crate) async fn blocked(database: &Database, why: &str) {
    refused(database, why).await;
    stuck(database, why).await;
}

/// Ensuring the indexes is refused for this reason, and changes nothing.
pub(crate) async fn stuck(database: &Database, why: &str) {
    let before = listed(database).await;
    let error = ensure(database).await.expect_err("something stands in the way");
    assert!(matches!(error, Error::NotMigrated { .. }), "{error:?}");
    assert!(error.to_string().contains(why), "{why}: {error}");
    assert_eq!(listed(database).await, before, "{why}");
}
