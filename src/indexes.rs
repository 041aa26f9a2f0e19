//! The indexes.
use mongodb::Database;

use crate::error::Result;
use crate::runner::{Limits, Runner};

pub(crate) async fn verify(_runner: &Runner, _collection: &str, _limits: Limits) -> Result<()> {
    Ok(())
}

pub(crate) async fn ensure(_database: &Database, _collection: &str) -> Result<()> {
    Ok(())
}
