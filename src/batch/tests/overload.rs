//! More calls than commands: they gather in this process, and what is sent stays the same.

use mongo_lease_core::rules::{BOUND_MIN, Lane, Slots, UNDER_WAY_MAX};

use super::{Harness, LONG, SLOTS, SentBatch, assert_answered};
use crate::batch::SWEEP_MIN;
use crate::failure::Cause;

/// The slots of acquires in a harness.
fn acquire_slots() -> usize {
    let mut slots = Slots::new(SLOTS);
    (0..SLOTS).filter(|_| slots.occupy(Lane::Acquire)).count()
}

/// A process whose commands hang sends as many as it has slots. All later calls leave in one command.
#[tokio::test(start_paused = true)]
async fn calls_gather_until_a_slot_is_free() {
    let mut harness = Harness::full().await;
    harness.fill(acquire_slots()).await;
    let tasks = harness.runner.tasks();
    let items: Vec<u32> = (50..90).collect();
    let calls: Vec<_> = items.iter().map(|item| harness.start(*item)).collect();
    // Longer than calls wait for slow commands.
    harness.runner.clock().sleep(super::PATIENCE * 2).await;
    // One waits for the slot, for all of them.
    assert_eq!(harness.runner.tasks(), tasks + 1);
    harness.nothing_goes();
    harness.one_comes_back();
    let batch = harness.batch().await;
    assert_eq!(batch.items, items);
    batch.succeeds();
    assert_answered(&items, calls).await;
    harness.assert_is_idle().await;
}

/// A call waits for the commands under way no longer than a batch may take. One with less time than that goes alone.
#[tokio::test(start_paused = true)]
async fn few_calls_with_little_time_go_alone_at_once() {
    let mut harness = Harness::full().await;
    let over = harness.now().after(BOUND_MIN / 2);
    let calls: Vec<_> = (0..20).map(|number| harness.start_until(6 + 2 * number, over)).collect();
    let mut alone = Vec::new();
    for _ in 0..UNDER_WAY_MAX {
        alone.push(harness.batch_at_once().await);
    }
    assert!(alone.iter().all(|batch| batch.items.len() == 1 && batch.deadline == over));
    harness.nothing_goes();
    alone.into_iter().for_each(SentBatch::succeeds);
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

/// While no slot gets free, calls that have gone leave again. The more calls wait, the more seldom all are looked at.
#[tokio::test(start_paused = true)]
async fn calls_that_are_withdrawn_do_not_pile_up() {
    let mut harness = Harness::full().await;
    harness.fill(acquire_slots()).await;
    let most_beside = |harness: &Harness, live: usize| {
        let come_and_go = |_| {
            drop(harness.start(24));
            harness.batcher.shared.state.lock().waiting.len()
        };
        (0..4 * (SWEEP_MIN + live)).map(come_and_go).max()
    };
    assert_eq!(most_beside(&harness, 0), Some(SWEEP_MIN));
    let live: Vec<_> = (0..4 * SWEEP_MIN).map(|_| harness.start(26)).collect();
    assert_eq!(most_beside(&harness, live.len()), Some(2 * live.len()));
}

#[tokio::test(start_paused = true)]
async fn calls_that_wait_are_told_when_the_manager_closes() {
    let mut harness = Harness::full().await;
    harness.fill(acquire_slots()).await;
    let waiting = harness.start_until(8, harness.now().after(LONG));
    harness.runner.close_acquires();
    // The task that waits for a slot starts when the others take too long.
    let failure = super::soon(waiting).await.unwrap_err();
    assert!(matches!(failure.cause, Cause::ShutDown) && !failure.outcome.maybe_applied);
}
