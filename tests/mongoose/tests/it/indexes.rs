//! The indexes that Mongoose makes, and those that it finds.

use mongo_lease::Error;
use mongo_lease::mongodb::bson::{Document, doc};
use mongo_lease_testbed::{Server, TestDatabase};
use serde_json::json;

use crate::common::{builder, migrated};
use crate::neighbour::{Character, Neighbour};

/// All of the indexes, as the server lists them.
async fn listed(database: &TestDatabase) -> Vec<Document> {
    let reply = database.run_command(doc! { "listIndexes": "locks" }).await.unwrap();
    let batch = reply.get_document("cursor").unwrap().get_array("firstBatch").unwrap();
    let mut indexes: Vec<_> =
        batch.iter().map(|index| index.as_document().unwrap().clone()).collect();
    indexes.sort_by_key(|index| index.get_str("name").unwrap().to_owned());
    indexes
}

#[tokio::test]
async fn mongoose_makes_the_indexes_that_the_migration_makes() {
    let ours = listed(&migrated().await).await;
    for schema in ["the recipe", "with more fields", "strict", "expires 0"] {
        let database = Server::shared().database().await;
        let character = Character { schema, ..Character::default() };
        let _neighbour = Neighbour::start_as(&database, character).await;

        builder(&database).build().await.unwrap_or_else(|error| panic!("{schema}: {error}"));
        assert_eq!(listed(&database).await, ours, "{schema}");
    }
}

#[tokio::test]
async fn mongoose_accepts_a_migrated_collection_and_changes_nothing() {
    for schema in ["the recipe", "with more fields", "strict", "expires 0"] {
        let database = migrated().await;
        let before = listed(&database).await;
        let character = Character { schema, ..Character::default() };
        let neighbour = Neighbour::start_as(&database, character).await;

        let found = neighbour.indexes().await;
        assert_eq!(found, json!({ "toCreate": [], "toDrop": [], "dropped": [] }), "{schema}");
        assert_eq!(listed(&database).await, before, "{schema}");
        builder(&database).build().await.unwrap();
    }
}

#[tokio::test]
async fn a_manager_refuses_what_other_schemas_make() {
    let characters = [
        (Character { schema: "without unique", ..Character::default() }, "unique"),
        (Character { schema: "kept for a minute", ..Character::default() }, "60"),
        (Character { makes_indexes: false, ..Character::default() }, "missing"),
    ];
    for (character, complaint) in characters {
        let database = Server::shared().database().await;
        let _neighbour = Neighbour::start_as(&database, character).await;

        let Err(error) = builder(&database).build().await else {
            panic!("{character:?}: accepted");
        };
        assert!(matches!(error, Error::NotMigrated { .. }), "{character:?}: {error}");
        assert!(error.to_string().contains(complaint), "{character:?}: {error}");
    }
}
