//! Collections with documents of another format.

use std::time::Duration;

use mongo_lease::mongodb::bson::{DateTime, doc};
use mongo_lease::{Attempt, Error};
use mongo_lease_testbed::{FailCommand, Server};

use crate::common::{builder, migrated};
use crate::lent::lent_database;
use crate::patience::{bounded, locks, until};

#[tokio::test]
async fn documents_of_another_format_are_refused_at_build() {
    let old = doc! { "value": "v", "allowanceMs": 1_000_i64 };
    for (list, mut document) in [
        ("grant", doc! { "grant": old.clone() }),
        ("queue", doc! { "queue": [{ "value": "w" }, old.clone()] }),
        ("holders", doc! { "holders": [old] }),
    ] {
        let database = migrated(Server::shared()).await;
        document.extend(doc! { "name": "a", "value": "v", "expiresAt": DateTime::MAX });
        locks(&database).insert_one(document).await.unwrap();
        for builder in [
            builder(&database),
            builder(&database).read_only(true),
            builder(&database).assume_indexes(true),
        ] {
            // A search that takes long on a busy machine does not prevent a build.
            let refused = async || builder.clone().build().await.err();
            let error = until("no manager is built", refused).await;
            let Error::NotMigrated { problem, .. } = &error else { panic!("{error:?}") };
            let wanted = format!("documents in an unsupported format (field `{list}.allowanceMs`)");
            assert!(problem.contains(&wanted), "{problem}");
            assert!(problem.contains("delete these documents"), "{problem}");
        }
        locks(&database).delete_one(doc! { "name": "a" }).await.unwrap();
        builder(&database).build().await.expect("the documents are gone");
    }
}

#[tokio::test]
async fn documents_of_this_format_and_of_the_recipe_are_not() {
    let database = migrated(Server::shared()).await;
    let plain = doc! { "name": "plain", "value": "v", "expiresAt": DateTime::MAX };
    locks(&database).insert_one(plain).await.unwrap();
    let leases = builder(&database).build().await.unwrap();
    // The user's own words are not fields of the format.
    let metadata = doc! { "allowanceMs": 1, "grant": { "allowanceMs": 1 } };
    let _held = leases.acquire("a").metadata(metadata).await.unwrap();
    let _several = leases.semaphore("b", 2).acquire().await.unwrap();
    let again = builder(&database).build().await.expect("no document is of another format");
    assert!(matches!(again.try_acquire("plain").await.unwrap(), Attempt::Busy(_)));
}

/// The search reads the whole collection, so it may take long. The manager is built after a second of it.
#[tokio::test]
async fn a_search_that_is_not_answered_does_not_prevent_a_build() {
    let (server, database) = lent_database().await;
    let old = doc! { "name": "a", "grant": { "allowanceMs": 1_000_i64 } };
    locks(&database).insert_one(old).await.unwrap();
    let slow =
        FailCommand::on(&["find"]).block_for(Duration::from_secs(3)).enable(server.uri()).await;
    bounded(builder(&database).build()).await.expect("the search has no answer");
    slow.disable().await;
    until("now it has one", async || builder(&database).build().await.err()).await;
}
