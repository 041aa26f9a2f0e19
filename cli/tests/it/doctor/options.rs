//! No option of the connection string changes the findings of `doctor`.

use mongo_lease_testbed::Server;

use crate::tool::{fresh, migrate, run, tool_at};

/// No member has the tag: a read that went by it would find none.
#[tokio::test]
async fn no_read_preference_of_a_connection_string_changes_what_is_read() {
    let database = fresh().await;
    migrate(&database).await;
    for options in ["readPreference=secondary&readPreferenceTags=dc:nowhere", "w=0"] {
        let uri = format!("{}&{options}&serverSelectionTimeoutMS=2000", Server::shared().uri());
        let ran = run(tool_at(&uri, database.name(), &["doctor"])).await;
        assert_eq!(ran.exit, 0, "{options}: {ran:?}");
        assert!(!ran.data.contains("cannot be checked"), "{options}: {ran:?}");
    }
}
