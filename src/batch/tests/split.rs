//! Batches that are cut off, repeated or not answered.

use futures_util::FutureExt;
use mongo_lease_core::rules::{BOUND_MIN, MAYBE_APPLIED};
use mongodb::error::{CommandError, ErrorKind};

use super::{Harness, LONG, SentBatch, answer_to, answered, unanswered};
use crate::clock::Clock;
use crate::failure::driver_failure;
use crate::failure::{Cause, Failure};

fn blocked() -> Failure {
    server_failure(50)
}

/// A failure that the server itself reports.
fn server_failure(code: i32) -> Failure {
    let reply = serde_json::json!({ "code": code, "codeName": "AsItIs", "errmsg": "wanted" });
    let command: CommandError = serde_json::from_value(reply).unwrap();
    driver_failure(ErrorKind::Command(command).into())
}

impl Harness {
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

#[tokio::test]
async fn a_batch_that_is_cut_off_is_sent_again_in_eighths() {
    let mut harness = Harness::full().await;
    // Twenty documents, two calls each.
    let items: Vec<u32> = (40..80).collect();
    let calls: Vec<_> = items.iter().map(|item| harness.start(*item)).collect();
    harness.one_comes_back();
    let whole = harness.batch().await;
    assert_eq!(whole.items, items);
    whole.come_back.send(Err(blocked())).unwrap();
    // Calls whose outcome is known are not sent again, and calls for one document stay together.
    let pieces = harness.pieces(7).await;
    let sent: Vec<_> = pieces.iter().flat_map(|piece| piece.items.clone()).collect();
    let unknown: Vec<_> = items.iter().copied().filter(|item| item % 7 != 0).collect();
    assert_eq!(sent, unknown);
    assert!(pieces.iter().all(|piece| piece.items.len() <= 6 && !piece.is_blocked));
    // All pieces but one succeed; that one is split until its document is found.
    let mut left = Vec::new();
    for piece in pieces {
        match piece.items.contains(&60) {
            true => left.push(piece),
            false => piece.come_back.send(Ok(())).unwrap(),
        }
    }
    left.pop().unwrap().come_back.send(Err(blocked())).unwrap();
    for piece in harness.pieces(3).await {
        let answer = if piece.items.contains(&60) { Err(blocked()) } else { Ok(()) };
        piece.come_back.send(answer).unwrap();
    }
    for (item, call) in std::iter::zip(items, calls) {
        let wanted = match item {
            60 | 61 => None,
            known if known % 7 == 0 => Some(known * 100),
            item => answer_to(item).ok(),
        };
        assert_eq!(answered(call).await, wanted, "{item}");
    }
    harness.assert_is_idle().await;
}

#[tokio::test]
async fn a_document_that_was_found_blocked_goes_alone() {
    let mut harness = Harness::full().await;
    let call = harness.start(60);
    harness.one_comes_back();
    let batch = harness.batch().await;
    // For as long as such a command may take.
    Clock::default().sleep(BOUND_MIN).await;
    batch.come_back.send(Err(blocked())).unwrap();
    assert_eq!(answered(call).await, None);
    for (item, is_alone) in [(61, true), (62, false)] {
        let mut blocked = Harness::start(&harness, item);
        let batch = match is_alone {
            true => harness.batch_at_once().await,
            false => {
                assert!((&mut blocked).now_or_never().is_none());
                harness.one_comes_back();
                harness.batch().await
            }
        };
        assert_eq!((batch.items, batch.is_blocked), (vec![item], is_alone));
        batch.come_back.send(Ok(())).unwrap();
        assert_eq!(answered(blocked).await, answer_to(item).ok());
    }
    harness.assert_is_idle().await;
}

/// A missing majority confirmation is not one document's fault.
#[tokio::test]
async fn a_batch_without_a_majority_is_repeated_whole() {
    let mut harness = Harness::full().await;
    let items = [10, 12, 14];
    let calls = items.map(|item| harness.start(item));
    harness.one_comes_back();
    for _ in 0..3 {
        let batch = harness.batch().await;
        assert_eq!(batch.items, items);
        let cause = Cause::WriteConcern("as the test wants it".to_owned());
        batch.come_back.send(Err(Failure { outcome: MAYBE_APPLIED, cause })).unwrap();
    }
    let batch = harness.batch().await;
    assert_eq!(batch.items, items);
    batch.come_back.send(Ok(())).unwrap();
    for (item, call) in std::iter::zip(items, calls) {
        assert_eq!(answered(call).await, Some(item * 10));
    }
    harness.assert_is_idle().await;
}

#[tokio::test]
async fn a_batch_that_was_not_answered_is_not_split() {
    let mut harness = Harness::full().await;
    let calls = [10, 12, 14].map(|item| harness.start(item));
    harness.one_comes_back();
    harness.batch().await.come_back.send(Err(unanswered())).unwrap();
    for call in calls {
        assert_eq!(answered(call).await, None);
    }
    harness.nothing_goes();
    harness.assert_is_idle().await;
}

#[tokio::test]
async fn who_is_to_go_alone_does_so_and_takes_nobodys_room() {
    let mut harness = Harness::full().await;
    let alone = |harness: &Harness, item| {
        let deadline = Clock::default().now().after(LONG);
        harness.batcher.start_alone(item, deadline.into(), harness.teller(item))
    };
    let waiting = harness.start(24);
    let first = alone(&harness, 26);
    let batch = harness.batch_at_once().await;
    assert_eq!(batch.items, [26]);
    batch.come_back.send(Ok(())).unwrap();
    assert_eq!(answered(first).await, Some(260));
    assert_eq!(harness.told().await, (26, Some(260)));
    // Its answer lets no call go.
    tokio::task::yield_now().await;
    harness.nothing_goes();
    harness.one_comes_back();
    let batch = harness.batch_at_once().await;
    assert_eq!(batch.items, [24]);
    batch.come_back.send(Ok(())).unwrap();
    assert_eq!(answered(waiting).await, Some(240));
    harness.assert_is_idle().await;
}
