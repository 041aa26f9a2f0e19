//! Fifty leases are released, and the document of one of them is blocked.

use std::time::{Duration, Instant};

use mongo_lease::mongodb::bson::doc;
use mongo_lease::{Event, Lease, Released};

use super::{By, Setup, names, setup, waiting};
use crate::patience::{Listener, bounded, locks, soon, until};

const LEASES: usize = 50;
/// Neither the first nor the last statement of a command.
const BLOCKED: usize = 20;

/// Returns when no document except that of the blocked lease, and those of `others`, names a holder.
async fn until_only_one_is_held(setup: &Setup, others: &[&str]) {
    let rest = || {
        let names: Vec<_> = others.iter().copied().chain(["lease:20"]).collect();
        doc! { "name": { "$nin": names } }
    };
    let gone =
        async || (locks(&setup.database).count_documents(rest()).await.unwrap() == 0).then_some(());
    until("the others are free", gone).await;
}

async fn fifty() -> (Setup, Vec<Lease>) {
    let setup = setup().await;
    let held = setup.hold(&names("lease", LEASES)).await;
    (setup, held)
}

async fn dropped_leases_are_free_or_handed_on(by: By) {
    let (setup, held) = fifty().await;
    let others = setup.another_manager().await;
    let mut events = Listener::of(&others);
    let waiter = waiting(&others, "lease:30", Duration::from_secs(300));
    events.find(|event| matches!(event, Event::Queued { .. }).then_some(())).await;
    let mut session = setup.hold_up(&held[BLOCKED], by).await;

    let started = Instant::now();
    drop(held);
    until_only_one_is_held(&setup, &["lease:30"]).await;
    let promoted = bounded(waiter).await.unwrap().unwrap();
    eprintln!("{by:?}: 49 dropped leases free or handed on after {:?}", started.elapsed());
    assert!(promoted.is_valid());

    session.abort_transaction().await.unwrap();
    until_only_one_is_held(&setup, &["lease:30"]).await;
    let all = doc! { "name": { "$ne": "lease:30" } };
    let gone = async || {
        (locks(&setup.database).count_documents(all.clone()).await.unwrap() == 0).then_some(())
    };
    until("the blocked lease is free too", gone).await;
}

#[tokio::test]
async fn leases_dropped_beside_a_guarded_one_are_free_soon() {
    dropped_leases_are_free_or_handed_on(By::Guard).await;
}

#[tokio::test]
async fn leases_dropped_beside_a_blocked_one_are_free_soon() {
    dropped_leases_are_free_or_handed_on(By::Stranger).await;
}

async fn a_shutdown_releases_the_others(by: By) {
    let (setup, held) = fifty().await;
    let mut session = setup.hold_up(&held[BLOCKED], by).await;

    let started = Instant::now();
    let report = soon("the shutdown", setup.leases.shutdown()).await;
    let took = started.elapsed();
    eprintln!("{by:?}: a shutdown took {took:?}: {report:?}");
    assert_eq!(report.released, LEASES - 1);
    assert_eq!(report.left_to_expire, ["lease:20"]);
    assert_eq!(report.tasks_left, 0);
    // The bound is 10 s.
    assert!(took < Duration::from_secs(8), "{took:?}");
    assert_eq!(locks(&setup.database).count_documents(doc! {}).await.unwrap(), 1);
    session.abort_transaction().await.unwrap();
}

#[tokio::test]
async fn a_shutdown_beside_a_guarded_lease_releases_the_rest() {
    a_shutdown_releases_the_others(By::Guard).await;
}

#[tokio::test]
async fn a_shutdown_beside_a_blocked_lease_releases_the_rest() {
    a_shutdown_releases_the_others(By::Stranger).await;
}

/// A lease that was dropped before is given back in the background, and does not delay a shutdown either.
#[tokio::test]
async fn a_shutdown_ends_the_give_back_of_a_blocked_lease() {
    let (setup, mut held) = fifty().await;
    let mut session = setup.hold_up(&held[BLOCKED], By::Stranger).await;
    drop(held.remove(BLOCKED));
    drop(held);
    until_only_one_is_held(&setup, &[]).await;
    let report = soon("the shutdown", setup.leases.shutdown()).await;
    assert_eq!((report.released, report.tasks_left), (0, 0));
    session.abort_transaction().await.unwrap();
}

async fn concurrent_releases_are_answered(by: By) {
    let (setup, held) = fifty().await;
    let mut session = setup.hold_up(&held[BLOCKED], by).await;

    let started = Instant::now();
    let mut releasing: Vec<_> =
        held.into_iter().map(|lease| tokio::spawn(lease.release())).collect();
    let blocked = releasing.remove(BLOCKED);
    for release in releasing {
        assert_eq!(bounded(release).await.unwrap().unwrap(), Released::Released);
    }
    eprintln!("{by:?}: 49 releases were answered after {:?}", started.elapsed());
    assert!(!blocked.is_finished(), "the transaction was too short");

    session.abort_transaction().await.unwrap();
    // Its earlier attempts were cut off, and it was ours all the time.
    assert_eq!(bounded(blocked).await.unwrap().unwrap(), Released::Released);
    assert_eq!(locks(&setup.database).count_documents(doc! {}).await.unwrap(), 0);
}

#[tokio::test]
async fn releases_beside_that_of_a_guarded_lease_are_answered() {
    concurrent_releases_are_answered(By::Guard).await;
}

#[tokio::test]
async fn releases_beside_that_of_a_blocked_lease_are_answered() {
    concurrent_releases_are_answered(By::Stranger).await;
}
