//! Which leases a delete of many has released, by the count and a read after it, and when a majority is waited for.

use std::time::Duration;

use mongo_lease_core::commands::{Ended, Form, GrantMatch, LeaseSnapshot, ReleaseTarget, snapshot};
use mongo_lease_core::rules::{Advice, Applied, FastForm, Lane};
use mongodb::bson::{DateTime, doc};

use super::{EndItem, EndReply, ReleaseBatch, ReleaseStep, Tombstones, which_ended};
use crate::batch::acquires::tests::acquire;
use crate::batch::op::{Attempted, BatchOp};
use crate::failure::Failure;
use crate::memory::MemoryStore;
use crate::runner::{AttemptLimits, AttemptTime, Backend, PriorEffect, Runner};

fn target(name: &str) -> ReleaseTarget {
    let grant = GrantMatch::Grant("own.1".into());
    ReleaseTarget { name: name.to_owned(), value: "own".to_owned(), grant, form: Form::Plain }
}

/// The document as the read finds it.
fn stands(name: &str, value: &str, grant_id: &str) -> LeaseSnapshot {
    snapshot::read(&doc! {
        "name": name,
        "value": value,
        "now": DateTime::from_millis(1_700_000_000_000),
        "expiresAt": DateTime::from_millis(1_700_000_031_000),
        "grant": { "value": value, "id": grant_id },
    })
}

/// The reply to a command that released so many.
fn counted(count: i64) -> Ended {
    Ended { count, at: None }
}

/// The answer to each item: released, not released, or unknown.
fn told(targets: &[ReleaseTarget], count: i64, found: &[LeaseSnapshot]) -> Vec<Option<bool>> {
    let items: Vec<_> = targets.iter().map(|it| EndItem::new(it.clone(), None)).collect();
    let answers = which_ended(&items, counted(count), found);
    let short = |answer: Result<EndReply, Failure>| match answer {
        Ok(ended) => Some(ended == EndReply::Ended),
        Err(failure) => {
            // It is sent again, and the next answer is not taken as the full outcome.
            assert!(failure.outcome.maybe_applied && failure.outcome.advice == Advice::Retry);
            None
        }
    };
    answers.into_iter().map(short).collect()
}

#[test]
fn a_release_result_follows_from_the_count_and_what_remains() {
    let own = |name: &str| stands(name, "own", "own.1");
    let another = |name: &str| stands(name, "another", "other.1");
    let later = |name: &str| stands(name, "own", "own.2");
    let (yes, no, unknown) = (Some(true), Some(false), None);
    for (what, count, found, wanted) in [
        ("all", 3, vec![], [yes, yes, yes]),
        ("somebody waits for one", 2, vec![own("b")], [yes, no, yes]),
        ("somebody waits for each", 0, vec![own("c"), own("a"), own("b")], [no, no, no]),
        ("one was not there before", 2, vec![], [unknown; 3]),
        ("one stands, and one was not there", 1, vec![own("b")], [unknown, no, unknown]),
        // It was released, and then another holder came.
        ("another's lease", 3, vec![another("a")], [yes, yes, yes]),
        ("another grant of the same value", 3, vec![later("c")], [yes, yes, yes]),
        ("others' names", 3, vec![own("x"), own("")], [yes, yes, yes]),
        // No server answers this.
        ("more than there are", 4, vec![], [unknown; 3]),
        ("less than none", -1, vec![], [unknown; 3]),
        ("too many for what stands", 3, vec![own("a")], [no, unknown, unknown]),
    ] {
        let targets = ["a", "b", "c"].map(target);
        assert_eq!(told(&targets, count, &found), wanted, "{what}");
    }
}

/// Two calls for one lease: one of them has released it, and nobody knows which.
#[test]
fn of_two_for_one_lease_neither_is_told_that_it_was_the_one() {
    let plain = ReleaseTarget { grant: GrantMatch::Any, ..target("a") };
    let both = [plain.clone(), plain];
    assert_eq!(told(&both, 1, &[]), [None, None]);
    assert_eq!(told(&both, 0, &[stands("a", "own", "x.7")]), [Some(false), Some(false)]);
}

/// After a command that was cut off, leases that are still there are known. The others were released by it, or were
/// gone before.
#[test]
fn behind_a_cut_off_command_what_has_gone_is_told_apart() {
    for earlier in [PriorEffect::CutOff, PriorEffect::Unanswered] {
        let item = |name| EndItem { earlier, ..EndItem::new(target(name), None) };
        let items = ["a", "b", "c"].map(item);
        let found = [stands("b", "own", "own.1")];
        let answers = |count| -> Vec<EndReply> {
            let answers = which_ended(&items, counted(count), &found);
            answers.into_iter().map(Result::unwrap).collect()
        };
        let (gone, stands) = (EndReply::Gone(earlier), EndReply::NotEnded(earlier));
        assert_eq!(answers(1), [gone, stands, gone]);
        // The count equals the number of items: nothing was released before.
        assert_eq!(answers(2), [EndReply::Ended, stands, EndReply::Ended]);
    }
}

#[test]
fn a_release_is_about_its_lease_and_has_written_what_it_ended() {
    assert_eq!(ReleaseBatch::name(&EndItem::new(target("a"), None)), "a");
    let (none, gone) = (PriorEffect::NotApplied, EndReply::Gone(PriorEffect::CutOff));
    for (reply, wanted) in
        [(EndReply::Ended, true), (EndReply::NotEnded(none), false), (gone, false)]
    {
        assert_eq!(ReleaseBatch::has_written(&reply), wanted, "{reply:?}");
    }
}

/// A release that has found nothing is told so without a majority, unless a former attempt of it may wait for one.
#[tokio::test(start_paused = true)]
async fn a_majority_is_waited_for_where_an_earlier_command_may_have_ended_the_lease() {
    const SECOND: Duration = Duration::from_secs(1);
    let store = MemoryStore::new();
    let runner = Runner::new(Backend::Memory(store.clone()), "locks", 9).expect("it runs");
    let batch = ReleaseBatch { step: ReleaseStep::Free, tombstones: Tombstones::new(false) };
    let deadline = runner.clock().now().after(30 * SECOND);
    let slot = runner.slot(Lane::Release, false, deadline).await.expect("it is free");
    let limits = || AttemptLimits::from(AttemptTime::from(deadline));
    // The newest write, which no majority has.
    store.set_majority_delay(60 * SECOND);
    let granted = slot.apply(&acquire(FastForm::LookUp), limits()).await;
    assert!(matches!(granted, Ok(Applied::Unconfirmed(..))));
    let first = || EndItem::new(target("another"), None);
    let earlier = PriorEffect::CutOff;
    for (item, waits) in [
        (first(), false),
        (first().repeated(true), true),
        (EndItem { earlier, ..first() }, true),
        (EndItem { earlier, ..first().repeated(true) }, true),
    ] {
        let what = format!("{item:?}");
        let attempted = batch.attempt(&slot, &[item], limits()).await.expect("it is answered");
        assert_eq!(matches!(attempted, Attempted::Unconfirmed(..)), waits, "{what}");
    }
}
