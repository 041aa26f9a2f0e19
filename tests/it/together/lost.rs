//! Batches without an answer: each call finds its own result, and nothing is forgotten.

use std::time::Duration;

use mongo_lease::{Lease, Released};
use mongo_lease_testbed::{FailCommand, Loss, Proxy};

use super::{CALLS, GrantRecord, assert_in_order, granted, grants_in_oplog, names, start_calls};
use crate::blocked::start_releases;
use crate::common::{assert_done, builder, document, patient};
use crate::lent::{Proxied, lent_database, lent_set, proxied};
use crate::loss::attentive_database;
use crate::patience::{joined, soon, until_nothing_is_left};

type Lose = fn(&Proxy) -> Loss;

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
        let Proxied { _server, database, proxy, slow: leases, .. } =
            proxied(|builder| builder).await;
        let loss = lose(&proxy);
        let held = granted(start_calls(&leases, names("lease", CALLS))).await;
        soon(what, loss.lost()).await;
        let grants = grants_in_oplog(&database).await;
        for lease in &held {
            let found = document(&database, lease.name()).await.unwrap();
            assert_eq!(found.get_str("value").ok(), Some(lease.value()), "{what}");
            let grants = &grants[lease.name()];
            assert_eq!(grants.len(), 1, "{what}: {lease:?}: {grants:?}");
        }
        for released in joined(start_releases(held)).await {
            assert_done(released.unwrap(), what);
        }
        until_nothing_is_left(&database).await;
        assert_eq!(leases.shutdown().await.tasks_left, 0, "{what}");
        until_nothing_is_left(&database).await;
    }
}

#[tokio::test]
async fn releases_whose_common_reply_is_lost_are_done() {
    let Proxied { _server, database, proxy, slow: leases, .. } = proxied(|builder| builder).await;
    let held = granted(start_calls(&leases, names("lease", CALLS))).await;
    let replies = proxy.hold_replies_to("delete");
    let releasing = start_releases(held);
    // Four go alone, and the next command has several.
    replies.held(5).await;
    proxy.cut();
    replies.release();
    let released: Vec<_> = joined(releasing).await.into_iter().map(Result::unwrap).collect();
    // On a busy machine some are sent behind the cut.
    let is_known = |it: &Released| matches!(it, Released::Unknown | Released::Released);
    assert!(released.iter().all(is_known), "{released:?}");
    assert!(released.iter().filter(|it| **it == Released::Unknown).count() >= 5, "{released:?}");
    until_nothing_is_left(&database).await;
}

/// A batch that no majority confirmed in time is not sent again. Reads confirm the releases together: no release reads
/// by itself.
#[tokio::test]
async fn releases_without_a_majority_are_known() {
    let (server, database) = lent_database().await;
    let leases = patient(builder(&database)).build().await.unwrap();
    let held = granted(start_calls(&leases, names("lease", CALLS))).await;
    // Four go alone, and the others in batches.
    let unconfirmed = FailCommand::on(&["delete"]).times(6).write_concern_error(50);
    let guard = unconfirmed.enable(server.uri()).await;
    for released in joined(start_releases(held)).await {
        assert_eq!(released.unwrap(), Released::Released);
    }
    assert!(guard.disable().await > 0, "each was confirmed in time");
}

#[tokio::test]
async fn a_batch_during_a_step_down_is_granted_by_the_next_primary() {
    let set = lent_set().await;
    let database = attentive_database(&set).await;
    let leases = builder(&database).build().await.unwrap();
    let primary = set.primary().await;
    // In the midst of it: the command has arrived, and waits.
    let slow = FailCommand::on(&["update"]).block_for(Duration::from_millis(700));
    let slow = slow.enable(set.node(primary).uri()).await;
    let calls = start_calls(&leases, names("lease", CALLS));
    slow.wait_times_entered(1).await;
    set.step_down().await;
    let held = granted(calls).await;
    assert!(slow.disable().await > 0);
    assert!(held.iter().all(Lease::is_valid));
    let told: Vec<_> = held.iter().map(GrantRecord::of).collect();
    assert_in_order(&database, &told).await;
    for lease in held {
        assert_done(lease.release().await.unwrap(), "behind the step-down");
    }
    until_nothing_is_left(&database).await;
    assert_eq!(leases.shutdown().await.tasks_left, 0);
}
