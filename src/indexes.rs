//! The indexes.
use mongodb::Database;
use mongodb::bson::doc;

use crate::error::Result;
use crate::runner::{Limits, Runner};

pub(crate) async fn verify(_runner: &Runner, _collection: &str, _limits: Limits) -> Result<()> {
    Ok(())
}

pub(crate) async fn ensure(database: &Database, collection: &str) -> Result<()> {
    database
        .run_command(doc! {"createIndexes": collection, "indexes": [
        {"key": {"name": 1}, "name": "name_1", "unique": true},
        {"key": {"expiresAt": 1}, "name": "expiresAt_1", "expireAfterSeconds": 0}]})
        .await?;
    Ok(())
}
