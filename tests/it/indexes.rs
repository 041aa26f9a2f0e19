//! The indexes: what the manager refuses, and what it creates. The migrations package's tests cover migrations.

mod ensuring;
mod look_alikes;
mod running;
mod users;

use mongo_lease::mongodb::Database;
use mongo_lease::mongodb::bson::{Bson, Document, doc};
use mongo_lease::{Error, LeaseManager};
use mongo_lease_testbed::{Server, TestDatabase};

/// The package with the binary that the message names.
const MIGRATIONS: &str = "mongo-lease-migrations";

pub(crate) async fn fresh() -> TestDatabase {
    Server::shared().database().await
}

pub(crate) async fn run(database: &Database, command: Document) -> Document {
    database.run_command(command).await.expect("the command is accepted")
}

pub(crate) async fn create_index(
    database: &Database,
    name: &str,
    key: Document,
    options: Document,
) {
    let mut index = doc! { "name": name, "key": key };
    index.extend(options);
    run(database, doc! { "createIndexes": "locks", "indexes": [index] }).await;
}

pub(crate) async fn insert(database: &Database, documents: Vec<Document>) {
    database.collection("locks").insert_many(documents).await.expect("the documents are new");
}

pub(crate) async fn ensure(database: &Database) -> mongo_lease::Result<LeaseManager> {
    LeaseManager::builder(database).ensure_indexes(true).build().await
}

pub(crate) async fn build(database: &Database) -> mongo_lease::Result<LeaseManager> {
    LeaseManager::builder(database).build().await
}

pub(crate) async fn listed(database: &Database) -> Vec<Document> {
    let reply = run(database, doc! { "listIndexes": "locks" }).await;
    let batch = reply.get_document("cursor").and_then(|cursor| cursor.get_array("firstBatch"));
    batch.expect("a batch").iter().filter_map(Bson::as_document).cloned().collect()
}

pub(crate) async fn index(database: &Database, name: &str) -> Document {
    let found = listed(database).await;
    found
        .into_iter()
        .find(|index| index.get("name").and_then(Bson::as_str) == Some(name))
        .expect("such an index")
}

/// Asserts that `build` is refused; the message names this reason, and the command to run.
pub(crate) async fn refused(database: &Database, why: &str) {
    let error = build(database).await.expect_err("the manager is refused");
    assert!(matches!(error, Error::NotMigrated { .. }), "{error:?}");
    let message = error.to_string();
    assert!(message.contains(why), "{message}");
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
    let before = listed_if_any(database).await;
    let error = ensure(database).await.expect_err("something stands in the way");
    assert!(matches!(error, Error::NotMigrated { .. }), "{error:?}");
    assert!(error.to_string().contains(why), "{error}");
    assert_eq!(listed_if_any(database).await, before);
}

pub(crate) async fn listed_if_any(database: &Database) -> Option<Bson> {
    let reply = database.run_command(doc! { "listIndexes": "locks" }).await.ok()?;
    reply.get_document("cursor").ok()?.get("firstBatch").cloned()
}
