//! How a real server carries a page out.

use crate::bson::doc;
use crate::rules::pattern::NamePattern;

use super::{SENT, database};
use crate::commands::Command;
use crate::commands::find::Page;

/// The index on `name` gives the order of a page, by owner too: no page is sorted in memory.
#[tokio::test]
async fn a_page_by_owner_goes_by_the_index_on_name() {
    let database = database().await;
    let index = doc! { "key": { "expiresAt": 1 }, "name": "expiresAt_1" };
    database.run_command(doc! { "createIndexes": "locks", "indexes": [index] }).await.unwrap();
    for owner in [None, Some("a@host:1".to_owned())] {
        let page = Page { pattern: NamePattern::All, owner, after: Some("a".into()), limit: 100 };
        let mut find = page.build("locks", SENT);
        // The plan does not depend on it, and an explanation has none.
        find.remove("readConcern");
        let reply = database.run_command(doc! { "explain": find }).await.unwrap();
        let planner = reply.get_document("queryPlanner").unwrap();
        let plan = planner.get_document("winningPlan").unwrap().to_string();
        assert!(plan.contains("IXSCAN") && plan.contains("name_1"), "{plan}");
        assert!(!plan.contains("\"SORT\"") && !plan.contains("COLLSCAN"), "{plan}");
    }
    database.drop_database().await.unwrap();
}
