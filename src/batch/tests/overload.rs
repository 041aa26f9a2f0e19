//! More calls than commands: they gather in this process, and what is sent stays the same.

use std::time::Duration;

use mongo_lease_core::rules::{BOUND_MIN, Lane, Slots, UNDER_WAY_MAX};

use super::{Harness, LONG, SLOTS, answered};
use crate::clock::Clock;
use crate::failure::driver_failure;
use crate::failure::{Cause, Failure};

/// The slots of acquires in a harness.
fn acquire_slots() -> usize {
    let mut slots = Slots::new(SLOTS);
    (0..SLOTS).filter(|_| slots.occupy(Lane::Acquire)).count()
}

fn cut_off() -> Failure {
    let reply = serde_json::json!({ "code": 50, "codeName": "AsItIs", "errmsg": "wanted" });
    let command: mongodb::error::CommandError = serde_json::from_value(reply).unwrap();
    driver_failure(mongodb::error::ErrorKind::Command(command).into())
}

#[tokio::test]
async fn a_call_that_is_withdrawn_is_not_sent() {
    let mut harness = Harness::full().await;
    let gone = harness.start(18);
    let kept = harness.start(20);
    drop(gone);
    harness.one_comes_back();
    let batch = harness.batch_at_once().await;
    assert_eq!(batch.items, [20]);
    batch.come_back.send(Ok(())).unwrap();
    assert_eq!(answered(kept).await, Some(200));
    let mut told = Vec::new();
    for _ in 0..3 {
        told.push(harness.told().await);
    }
    told.sort_unstable();
    assert_eq!(told, [(2, Some(20)), (18, None), (20, Some(200))]);
    harness.assert_is_idle().await;
}

/// A process whose commands hang sends as many as it has slots. All later calls leave in one command.
#[tokio::test]
async fn calls_gather_until_a_slot_is_free() {
    let mut harness = Harness::full().await;
    while harness.fillers.len() < acquire_slots() {
        let caller = harness.start(2);
        harness.callers.push(caller);
        // It goes when the others take too long.
        let batch = harness.batch().await;
        harness.fillers.push(batch);
    }
    let calls: Vec<_> = (50..90).map(|item| harness.start(item)).collect();
    // Longer than calls wait for slow commands.
    Clock::default().sleep(super::PATIENCE * 2).await;
    harness.nothing_goes();
    harness.one_comes_back();
    let batch = harness.batch().await;
    assert_eq!(batch.items, (50..90).collect::<Vec<u32>>());
    batch.come_back.send(Ok(())).unwrap();
    for call in calls {
        let _ = answered(call).await;
    }
    harness.assert_is_idle().await;
}

#[tokio::test]
async fn few_calls_with_little_time_go_alone_at_once() {
    let mut harness = Harness::full().await;
    let over = Clock::default().now().after(BOUND_MIN / 2);
    let calls: Vec<_> = (0..20).map(|number| harness.start_until(6 + 2 * number, over)).collect();
    let mut alone = Vec::new();
    for _ in 0..UNDER_WAY_MAX {
        alone.push(harness.batch_at_once().await);
    }
    assert!(alone.iter().all(|batch| batch.items.len() == 1));
    harness.nothing_goes();
    for batch in alone {
        batch.come_back.send(Ok(())).unwrap();
    }
    harness.one_comes_back();
    // All others leave together, or their time is over.
    let mut commands = 0;
    for call in calls {
        let _ = super::soon(call).await;
        while let Ok(batch) = harness.batches.try_recv() {
            commands += 1;
            let _ = batch.come_back.send(Ok(()));
        }
    }
    assert!(commands <= 1, "{commands}");
    harness.assert_is_idle().await;
}

/// An answer that comes much later than the server was told to give up says that the server was slow: no document of
/// the command is to blame, and pieces would be more commands for it.
#[tokio::test]
async fn a_batch_that_a_slow_server_cut_off_is_sent_again_whole() {
    let mut harness = Harness::full().await;
    let items: Vec<u32> = (40..50).filter(|item| item % 7 != 0).collect();
    let calls: Vec<_> = items.iter().map(|item| harness.start(*item)).collect();
    harness.one_comes_back();
    let whole = harness.batch().await;
    Clock::default().sleep(BOUND_MIN * 3 + Duration::from_millis(50)).await;
    whole.come_back.send(Err(cut_off())).unwrap();
    let again = harness.batch().await;
    assert_eq!(again.items, items);
    again.come_back.send(Ok(())).unwrap();
    for call in calls {
        let _ = answered(call).await;
    }
    harness.assert_is_idle().await;
}

#[tokio::test]
async fn calls_that_wait_are_told_when_the_manager_closes() {
    let mut harness = Harness::full().await;
    while harness.fillers.len() < acquire_slots() {
        let caller = harness.start(2);
        harness.callers.push(caller);
        let batch = harness.batch().await;
        harness.fillers.push(batch);
    }
    let waiting = harness.start_until(8, Clock::default().now().after(LONG));
    harness.runner.close_acquires();
    // The task that waits for a slot starts when the others take too long.
    let failure = super::soon(waiting).await.unwrap_err();
    assert!(matches!(failure.cause, Cause::ShutDown) && !failure.outcome.maybe_applied);
}
