//! Plans for the contents of real databases: their report, their effect, and the same verdict by a manager.

mod holders;
mod look_alikes;
mod mending;
mod running;
mod users;

use mongo_lease::{Error as LeaseError, LeaseManager};
use mongo_lease_migrations::indexes::{self, Error, IndexPlan, ObstacleKind};
use mongo_lease_testbed::Server;
use mongodb::Database;
use mongodb::bson::{Bson, Document, doc};

use super::{MAKES_UNIQUE, create_index, fresh, insert, listed};

pub(crate) async fn run(database: &Database, command: Document) -> Document {
    database.run_command(command).await.expect("the command is accepted")
}

pub(crate) async fn plan(database: &Database) -> IndexPlan {
    indexes::plan(database, "locks").await.expect("a plan")
}

pub(crate) async fn apply(database: &Database) -> indexes::Result<()> {
    plan(database).await.apply(|_| ()).await
}

pub(crate) async fn build(database: &Database) -> mongo_lease::Result<LeaseManager> {
    LeaseManager::builder(database).build().await
}

pub(crate) async fn index(database: &Database, name: &str) -> Document {
    let found = listed(database).await;
    found
        .into_iter()
        .find(|index| index.get("name").and_then(Bson::as_str) == Some(name))
        .expect("such an index")
}

/// Asserts that `build` is refused; the error names this reason, the plan's problem, and the command to run.
pub(crate) async fn refused(database: &Database, why: &str) {
    let error = build(database).await.expect_err("the manager is refused");
    let message = error.to_string();
    assert!(message.contains(why), "{message}");
    let command = format!("`mongo-lease-migrate up --db {} --collection locks`", database.name());
    assert!(message.contains(&command), "{message}");
    let LeaseError::NotMigrated { problem, .. } = error else { panic!("{error:?}") };
    // Only a plan finds duplicates, names documents of another format, and knows what the server can change; and a
    // manager reports a missing collection itself.
    let of_plan =
        [ObstacleKind::Duplicates, ObstacleKind::CannotConvert, ObstacleKind::OtherFormat];
    if !plan(database).await.obstacles().iter().any(|it| of_plan.contains(&it.kind()))
        && !problem.contains("does not exist")
    {
        assert_eq!(plan(database).await.problem(), Some(problem));
    }
}

/// Asserts that there is one obstacle and no step, and that applying the plan changes nothing.
pub(crate) async fn blocked(database: &Database, kind: ObstacleKind, why: &str) {
    let plan = plan(database).await;
    let [obstacle] = plan.obstacles() else { panic!("not one obstacle: {plan}") };
    assert_eq!(obstacle.kind(), kind, "{plan}");
    assert!(obstacle.problem().contains(why), "{plan}");
    assert!(!obstacle.advice().is_empty());
    assert!(plan.to_string().contains(why), "{plan}");
    let before = listed_if_any(database).await;
    let error = plan.apply(|_| ()).await.expect_err("the obstacle stands in the way");
    assert!(matches!(error, Error::Blocked { .. }), "{error:?}");
    assert_eq!(listed_if_any(database).await, before);
}

/// Whether the server is too old to make an index unique. If so, asserts that the plan says so and changes nothing.
pub(crate) async fn is_refused_as_too_old(database: &Database) -> bool {
    let version = Server::shared().version().await;
    if version >= MAKES_UNIQUE {
        return false;
    }
    eprintln!("MongoDB {version} makes no index unique: only the refusal is asserted");
    let why = "is not unique, and a server before MongoDB 6.0 cannot change that";
    blocked(database, ObstacleKind::CannotConvert, why).await;
    true
}

pub(crate) async fn listed_if_any(database: &Database) -> Option<Bson> {
    let reply = database.run_command(doc! { "listIndexes": "locks" }).await.ok()?;
    reply.get_document("cursor").ok()?.get("firstBatch").cloned()
}
