//! The floor on mongod: the bare driver.

use mongo_lease::LeaseManager;
use mongo_lease::mongodb::bson::Document;
use mongo_lease::mongodb::options::{Acknowledgment, CollectionOptions, WriteConcern};
use mongo_lease::mongodb::{Collection, Database};

use crate::Outcome;

/// A collection for bare writes: with the same two indexes and the same write concern as leases have.
///
/// # Errors
///
/// When the indexes cannot be made.
pub async fn bare_collection(database: &Database) -> Outcome<Collection<Document>> {
    indexed_collection(database, "bare").await
}

/// A collection of this name, with the two indexes of leases, and their write concern.
///
/// # Errors
///
/// When the indexes cannot be made.
pub async fn indexed_collection(database: &Database, name: &str) -> Outcome<Collection<Document>> {
    LeaseManager::builder(database).collection(name).ensure_indexes(true).build().await?;
    Ok(journalled_collection(database, name))
}

/// A collection whose writes are acknowledged as those of leases are: by a majority, and journalled.
#[must_use]
pub fn journalled_collection(database: &Database, name: &str) -> Collection<Document> {
    let majority = WriteConcern::builder().w(Acknowledgment::Majority).journal(true).build();
    let options = CollectionOptions::builder().write_concern(majority).build();
    database.collection_with_options(name, options)
}
