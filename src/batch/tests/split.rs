//! Batches that are cut off, repeated or not answered.

use std::iter;
use std::time::Duration;

use mongo_lease_core::rules::{BOUND_MIN, MAYBE_APPLIED};

use super::{Harness, LONG, SentBatch, answer_to, answered, assert_answered, cut_off, unanswered};
use crate::failure::{Cause, Failure};

impl Harness {
    /// The next batch, which has these items.
    async fn whole(&mut self, items: &[u32]) -> SentBatch {
        let batch = self.batch().await;
        assert_eq!(batch.items, items);
        batch
    }

    /// The next batches, as many as are sent at once, ordered by their first items.
    async fn pieces(&mut self, how_many: usize) -> Vec<SentBatch> {
        let mut pieces = Vec::new();
        for _ in 0..how_many {
            pieces.push(self.batch().await);
        }
        tokio::task::yield_now().await;
        self.nothing_goes();
        pieces.sort_by_key(|piece| piece.items[0]);
        pieces
    }
}

#[tokio::test(start_paused = true)]
async fn a_batch_that_is_cut_off_is_sent_again_in_eighths() {
    let mut harness = Harness::full().await;
    // Twenty documents, two calls each.
    let items: Vec<u32> = (40..80).collect();
    let calls: Vec<_> = items.iter().map(|item| harness.start(*item)).collect();
    harness.one_comes_back();
    harness.whole(&items).await.fails(cut_off());
    // Calls whose outcome is known are not sent again, and calls for one document stay together.
    let pieces = harness.pieces(7).await;
    let sent: Vec<_> = pieces.iter().flat_map(|piece| piece.items.clone()).collect();
    let unknown: Vec<_> = items.iter().copied().filter(|item| item % 7 != 0).collect();
    assert_eq!(sent, unknown);
    assert!(pieces.iter().all(|piece| piece.items.len() <= 6 && !piece.is_blocked));
    // All pieces but one succeed; that one is split until its document is found.
    let come_back = |pieces: Vec<SentBatch>| {
        let (hit, spared): (Vec<_>, Vec<_>) =
            pieces.into_iter().partition(|piece| piece.items.contains(&60));
        spared.into_iter().for_each(SentBatch::succeeds);
        hit.into_iter().for_each(|piece| piece.fails(cut_off()));
    };
    come_back(pieces);
    come_back(harness.pieces(3).await);
    for (item, call) in iter::zip(items, calls) {
        let wanted = match item {
            60 | 61 => None,
            known if known % 7 == 0 => Some(known * 100),
            item => answer_to(item).ok(),
        };
        assert_eq!(answered(call).await, wanted, "{item}");
    }
    harness.assert_is_idle().await;
}

#[tokio::test(start_paused = true)]
async fn a_document_that_was_found_blocked_goes_alone() {
    let mut harness = Harness::full().await;
    let call = harness.start(60);
    harness.one_comes_back();
    let batch = harness.batch().await;
    // For as long as such a command may take.
    harness.runner.clock().sleep(BOUND_MIN).await;
    batch.fails(cut_off());
    assert_eq!(answered(call).await, None);
    let same = harness.start(61);
    let batch = harness.batch_at_once().await;
    assert_eq!((&batch.items[..], batch.is_blocked), (&[61][..], true));
    batch.succeeds();
    let other = harness.start(62);
    harness.one_comes_back();
    let batch = harness.batch().await;
    assert_eq!((&batch.items[..], batch.is_blocked), (&[62][..], false));
    batch.succeeds();
    assert_answered(&[61, 62], [same, other]).await;
    harness.assert_is_idle().await;
}

/// A missing majority confirmation is not one document's fault. Each caller finds out by itself.
#[tokio::test(start_paused = true)]
async fn a_batch_without_a_majority_is_not_sent_again() {
    let mut harness = Harness::full().await;
    let items = [10, 12, 14];
    let calls = items.map(|item| harness.start(item));
    harness.one_comes_back();
    let cause = Cause::WriteConcern("as the test wants it".to_owned());
    harness.whole(&items).await.fails(Failure { outcome: MAYBE_APPLIED, cause });
    for call in calls {
        assert_eq!(call.await.unwrap_err().outcome, MAYBE_APPLIED);
    }
    harness.assert_is_idle().await;
}

/// An answer that comes much later than the server was told to give up says that the server was slow: no document of
/// the command is to blame, and pieces would be more commands for it.
#[tokio::test(start_paused = true)]
async fn a_batch_that_a_slow_server_cut_off_is_sent_again_whole() {
    let mut harness = Harness::full().await;
    let items = [40, 41, 43, 44];
    let calls = items.map(|item| harness.start(item));
    harness.one_comes_back();
    let whole = harness.whole(&items).await;
    harness.runner.clock().sleep(BOUND_MIN * 3 + Duration::from_millis(50)).await;
    whole.fails(cut_off());
    harness.whole(&items).await.succeeds();
    assert_answered(&items, calls).await;
    harness.assert_is_idle().await;
}

#[tokio::test(start_paused = true)]
async fn a_batch_that_was_not_answered_is_not_split() {
    let mut harness = Harness::full().await;
    let items = [10, 12, 14];
    let calls = items.map(|item| harness.start(item));
    harness.one_comes_back();
    harness.whole(&items).await.fails(unanswered());
    for call in calls {
        assert_eq!(answered(call).await, None);
    }
    harness.nothing_goes();
    harness.assert_is_idle().await;
}

#[tokio::test(start_paused = true)]
async fn who_is_to_go_alone_does_so_and_takes_nobodys_room() {
    let mut harness = Harness::full().await;
    let waiting = harness.start(24);
    let deadline = harness.now().after(LONG);
    let first = harness.batcher.start_alone(26, deadline.into(), harness.teller(26));
    harness.carries_out(&[26]).await;
    assert_eq!(answered(first).await, Some(260));
    assert_eq!(harness.told(1).await, [(26, Some(260))]);
    // Its answer lets no call go.
    tokio::task::yield_now().await;
    harness.nothing_goes();
    harness.one_comes_back();
    harness.carries_out(&[24]).await;
    assert_eq!(answered(waiting).await, Some(240));
    harness.assert_is_idle().await;
}
