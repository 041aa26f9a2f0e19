//! Waiters whose entries have gone.

use std::time::Duration;

use mongo_lease::mongodb::bson::doc;

use super::damaged::entry_with;
use super::{Held, granted, until_line_is};
use crate::common::document;
use crate::patience::locks;

/// The queue is removed or damaged, or has gone with its document: the waiters join again.
#[tokio::test]
async fn those_whose_entry_has_gone_come_again() {
    let held = Held::new(Duration::from_millis(900)).await;
    let waiting = held.wait(|acquire| acquire).await;
    let Held { database, lease, .. } = held;
    let all = doc! { "name": "a" };
    for damage in [
        doc! { "$unset": { "queue": "" } },
        doc! { "$set": { "queue": "$queue" } },
        doc! { "$set": { "queue": [entry_with("sentMicros", None)] } },
    ] {
        locks(&database).update_one(all.clone(), damage).await.unwrap();
        until_line_is(&database, "a", &["test"]).await;
    }
    // By a foreign release: nobody is promoted, and no event reaches the waiters.
    assert_eq!(locks(&database).delete_one(all).await.unwrap().deleted_count, 1);
    let next = granted(waiting).await;
    assert!(lease.renew().await.is_err());
    let found = document(&database, "a").await.unwrap();
    assert_eq!(found.get_str("value").unwrap(), next.value());
}
