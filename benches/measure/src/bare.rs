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
    LeaseManager::builder(database).collection("bare").ensure_indexes().await?;
    let majority = WriteConcern::builder().w(Acknowledgment::Majority).journal(true).build();
    let options = CollectionOptions::builder().write_concern(majority).build();
    Ok(database.collection_with_options("bare", options))
}
