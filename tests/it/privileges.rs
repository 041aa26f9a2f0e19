//! The least sufficient privileges, tried by users who have exactly these, and the effect of each missing one.

mod lacking;
mod looking;

use mongo_lease::mongodb::Database;
use mongo_lease::mongodb::bson::{Document, doc};
use mongo_lease::{LeaseManager, Released};
use mongo_lease_testbed::TestDatabase;

use crate::common::handed_on;
use crate::patience::locks;
use crate::users::{ALL, client_of, make_user, migrated, user_who_may};

const PAGE: &str = include_str!("../../docs/operators.md");

#[tokio::test]
async fn the_role_on_the_operators_page_suffices_as_printed() {
    // The document in the page's `db.runCommand(…)`, which is JSON.
    let (_, command) = PAGE.split_once("db.runCommand(").expect("a command");
    let (role, _) = command.split_once("\n})").expect("its end");
    let role: Document = serde_json::from_str(&format!("{role}\n}}")).expect("a document");
    let name = role.get_str("createRole").unwrap().to_owned();
    let privileges = role.get_array("privileges").unwrap();
    let on_locks = doc! { "db": "billing", "collection": "locks" };
    let sufficient = doc! { "resource": on_locks, "actions": ALL.to_vec() };
    assert_eq!(privileges, &[sufficient.into()], "those of the other tests");
    let root = client_of("root").await;
    // As a user who pastes it does: in the database that it names.
    let database = root.database("billing");
    assert!(PAGE.contains("use billing\n"), "it is not said where");
    database.run_command(role).await.expect("the role is made");
    let _made =
        LeaseManager::builder(&database).ensure_indexes(true).build().await.expect("the indexes");
    make_user("reader-of-the-page", doc! { "role": name, "db": "billing" }).await;
    let user = client_of("reader-of-the-page").await.database("billing");
    let leases = LeaseManager::builder(&user).build().await.expect("a manager");
    crate::clients::everything_works(&leases).await;

    let lease = leases.acquire("c").await.expect("a lease");
    let tx = lease.transaction().await.expect("a transaction");
    tx.commit().await.expect("a commit");

    let other = LeaseManager::builder(&user).build().await.expect("a manager");
    let lease = handed_on(lease, &other).await;
    assert_eq!(lease.release().await.expect("a release"), Released::Released);
    assert!(leases.shutdown().await.left_to_expire.is_empty());
    assert_eq!(locks(&database).count_documents(doc! {}).await.unwrap(), 0);
}

/// A migrated database, root's manager of its leases, and its user with all privileges except this one.
async fn all_but(missing: &str) -> (TestDatabase, LeaseManager, Database) {
    let database = migrated().await;
    let root = LeaseManager::builder(&database).build().await.expect("a manager");
    let user = user_who_may(&database, &crate::users::all_but(missing)).await;
    (database, root, user)
}
