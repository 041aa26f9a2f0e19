//! Connects: from the command line to a manager, or to a database that answers.

use std::time::Duration;

use mongo_lease::{LeaseManager, LeaseManagerBuilder};
use mongo_lease_migrations::connect::{self, Connected};
use mongodb::Database;

use crate::arguments::Options;
use crate::failure::Failure;

/// The time limit of the shutdown once the result is printed.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(2);

/// Builds a manager of the leases in the database.
pub(crate) async fn manager(options: &Options) -> Result<LeaseManager, Failure> {
    let database = connect(options).await?.database;
    let built = builder(&database, options).build().await;
    built.map_err(|error| Failure::of(&error, options))
}

/// Builds a manager whose leases show this label of their holder.
#[cfg(unix)]
pub(crate) async fn manager_of(owner: &str, options: &Options) -> Result<LeaseManager, Failure> {
    let database = connect(options).await?.database;
    let built = builder(&database, options).owner(owner).build().await;
    built.map_err(|error| Failure::of(&error, options))
}

/// Builds a manager that only reads: it needs no privilege but `find`.
pub(crate) async fn looker(options: &Options) -> Result<LeaseManager, Failure> {
    let database = connect(options).await?.database;
    let built = builder(&database, options).read_only(true).build().await;
    built.map_err(|error| Failure::of(&error, options))
}

/// The options of both kinds of manager.
pub(crate) fn builder(database: &Database, options: &Options) -> LeaseManagerBuilder {
    LeaseManager::builder(database)
        .collection(&options.connection.collection)
        .assume_indexes(options.assume_indexes)
        .build_timeout(options.connection.timeout)
        .release_timeout(options.connection.timeout)
        .shutdown_timeout(SHUTDOWN_TIMEOUT)
}

/// A database that has answered.
pub(crate) async fn connect(options: &Options) -> Result<Connected, Failure> {
    connect::connect(&options.connection.target("mongo-lease")).await.map_err(Failure::from)
}
