//! Fifty leases are released, and the document of one of them is blocked.

use mongo_lease::mongodb::bson::doc;
use mongo_lease::{Lease, Released};

use super::{LONG, Setup, names, setup, start_releases};
use crate::common::assert_done;
use crate::patience::{joined, locks, soon, until, until_nothing_is_left};
use crate::permits::{granted, queued_by};

const LEASES: usize = 50;
/// Neither the first nor the last statement of a command.
const BLOCKED: usize = 20;

/// Returns when there are no documents but these.
async fn until_only(setup: &Setup, names: &[&str]) {
    let others = doc! { "name": { "$nin": names.to_vec() } };
    let left = async || locks(&setup.database).count_documents(others.clone()).await.unwrap();
    until("the others are free", async || (left().await == 0).then_some(())).await;
}

async fn fifty() -> (Setup, Vec<Lease>) {
    let setup = setup().await;
    let held = setup.hold(&names("lease", LEASES)).await;
    (setup, held)
}

#[tokio::test]
async fn leases_dropped_beside_a_blocked_one_are_free_soon() {
    let (setup, held) = fifty().await;
    let others = setup.another_manager().await;
    let waiter = queued_by(&others, |leases| leases.acquire("lease:30").wait(LONG)).await;
    let mut session = setup.hold_up(&held[BLOCKED]).await;
    drop(held);
    until_only(&setup, &["lease:20", "lease:30"]).await;
    assert!(granted(waiter).await.is_valid());
    session.abort_transaction().await.unwrap();
    until_only(&setup, &["lease:30"]).await;
}

#[tokio::test]
async fn a_shutdown_beside_a_blocked_lease_releases_the_rest() {
    let (setup, held) = fifty().await;
    let mut session = setup.hold_up(&held[BLOCKED]).await;
    let report = soon("the shutdown", setup.leases.shutdown()).await;
    assert_eq!((report.released, report.tasks_left), (LEASES - 1, 0), "{report:?}");
    assert_eq!(report.left_to_expire, ["lease:20"]);
    assert_eq!(locks(&setup.database).count_documents(doc! {}).await.unwrap(), 1);
    session.abort_transaction().await.unwrap();
}

/// A lease that was dropped before is given back in the background, and does not delay a shutdown either.
#[tokio::test]
async fn a_shutdown_ends_the_give_back_of_a_blocked_lease() {
    let (setup, mut held) = fifty().await;
    let mut session = setup.hold_up(&held[BLOCKED]).await;
    drop(held.remove(BLOCKED));
    drop(held);
    until_only(&setup, &["lease:20"]).await;
    let report = soon("the shutdown", setup.leases.shutdown()).await;
    assert_eq!(report.tasks_left, 0);
    // With it others may be named, which had not been confirmed by then.
    assert!(report.left_to_expire.contains(&"lease:20".to_owned()), "{report:?}");
    session.abort_transaction().await.unwrap();
}

/// The results for these leases, whose documents stay blocked until all others have been released.
async fn released_at_last(blocked: &[usize]) -> Vec<Released> {
    let (setup, held) = fifty().await;
    let mut sessions = Vec::new();
    for &number in blocked {
        sessions.push(setup.hold_up(&held[number]).await);
    }
    let (mut late, mut others) = (Vec::new(), Vec::new());
    for (number, release) in start_releases(held).into_iter().enumerate() {
        if blocked.contains(&number) { late.push(release) } else { others.push(release) }
    }
    for released in joined(others).await {
        assert_eq!(released.unwrap(), Released::Released);
    }
    assert!(late.iter().all(|release| !release.is_finished()), "a transaction was too short");
    for mut session in sessions {
        session.abort_transaction().await.unwrap();
    }
    let released = joined(late).await.into_iter().map(Result::unwrap).collect();
    until_nothing_is_left(&setup.database).await;
    released
}

#[tokio::test]
async fn releases_beside_that_of_a_blocked_lease_are_answered() {
    // Its earlier attempts were cut off, and it was ours all the time.
    assert_eq!(released_at_last(&[BLOCKED]).await, [Released::Released]);
}

#[tokio::test]
async fn each_of_several_blocked_leases_is_found() {
    for released in released_at_last(&[0, 7, 8, 31, 49]).await {
        // A command may be cut off just when its documents become free. Sent again, it may find nothing.
        assert_done(released, "a blocked lease");
    }
}
