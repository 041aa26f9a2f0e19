//! Batches without an answer: each call finds its own result, and nothing is forgotten.

use mongo_lease::{LeaseManager, Released};
use mongo_lease_testbed::{Loss, Proxy};

use super::{granted, grants_in_oplog, names, start_calls};
use crate::blocked::start_releases;
use crate::common::{assert_done, document};
use crate::lent::{behind_a_proxy, lent_database};
use crate::patience::{joined, soon, until_nothing_is_left};

const CALLS: usize = 60;

type Lose = fn(&Proxy) -> Loss;

/// Sixty calls at once; one message of their batches is lost: all are granted, each once, and all can be released.
#[tokio::test]
async fn a_lost_batch_reply_keeps_what_was_granted() {
    let losses: [(&str, Lose); 3] = [
        ("the reply to a batch", |proxy| proxy.lose_next_reply("update")),
        ("a batch", |proxy| proxy.lose_next_request("update")),
        ("the reply to the lookup behind a batch", |proxy| proxy.lose_next_reply("find")),
    ];
    for (what, lose) in losses {
        // Shown where the test fails.
        eprintln!("lost: {what}");
        let (server, database) = lent_database().await;
        let (proxy, through) = behind_a_proxy(&server, &database).await;
        let leases = LeaseManager::builder(&through).build().await.unwrap();
        let loss = lose(&proxy);
        let held = granted(start_calls(&leases, names("lease", CALLS))).await;
        soon(what, loss.lost()).await;
        let grants = grants_in_oplog(&database).await;
        for lease in held {
            let found = document(&database, lease.name()).await.unwrap();
            assert_eq!(found.get_str("value").ok(), Some(lease.value()), "{what}");
            let grants = &grants[lease.name()];
            assert_eq!(grants.len(), 1, "{what}: {lease:?}: {grants:?}");
            assert_done(lease.release().await.unwrap(), what);
        }
        until_nothing_is_left(&database).await;
        assert_eq!(leases.shutdown().await.tasks_left, 0, "{what}");
        until_nothing_is_left(&database).await;
    }
}

/// The reply to a batch of releases is lost: nobody knows which have ended, and all have.
#[tokio::test]
async fn releases_whose_common_reply_is_lost_are_done() {
    let (server, database) = lent_database().await;
    let (proxy, through) = behind_a_proxy(&server, &database).await;
    let leases = LeaseManager::builder(&through).build().await.unwrap();
    let held = granted(start_calls(&leases, names("lease", CALLS))).await;
    let replies = proxy.hold_replies_to("delete");
    let releasing = start_releases(held);
    // Then all have been carried out, and none has been answered.
    until_nothing_is_left(&database).await;
    proxy.cut();
    replies.release();
    for released in joined(releasing).await {
        assert_eq!(released.unwrap(), Released::Unknown);
    }
    until_nothing_is_left(&database).await;
}
