//! Calls that travel in batches.

use super::{Story, check_only, granted, held, held_until, wall};
use crate::changes::{Change, Grant, State};
use crate::check::{Facts, Invariant};
use crate::history::What;
use crate::permits::Permits;
use crate::time::MILLI;

#[test]
fn a_batched_token_has_a_time_at_which_its_holder_held() {
    let with_token = |token| {
        let mut story = Story::new();
        story.0.terms.calls_travel_together = true;
        story.invoke(100, "a/1").write(110, Some(held("a/1", 110))).told(120, "a/1", token, 2_000);
        story.release(200, "a/1");
        story.found()
    };
    assert_eq!(with_token(110), []);
    assert_eq!(with_token(150), [], "of a later write of the same command");
    assert_eq!(with_token(109), [Invariant::TokenTimes], "before it was granted");
    assert_eq!(with_token(300), [Invariant::TokenTimes], "behind its end");
}

/// A call for several leases has one id in all of their documents.
#[test]
fn a_hold_has_the_grant_of_its_own_lease() {
    let mut story = Story::new();
    story.invoke(100, "a/1").write(110, Some(held("a/1", 110)));
    let other = granted("a/1", [115, 2_115], Permits::EXCLUSIVE);
    let other = Grant { id: "a/1.2".to_owned(), ..other };
    let after = State { expires_at: wall(2_115), grants: vec![other], ..State::default() };
    let (wall, name) = (wall(115), "m".to_owned());
    story.0.changes.push(Change {
        token: 115,
        wall,
        name,
        before: None,
        after: Some(after.into()),
    });
    story.told(120, "a/1", 150, 2_000);
    assert_eq!(Facts::of(&story.0).holds[0].grant, "a/1.1");
}

/// Calls that travel in one batch have one token.
#[test]
fn the_grants_of_one_token_are_told_apart_by_their_leases() {
    let mut story = Story::new();
    story.invoke(100, "a/1").write(110, Some(held("a/2", 110)));
    let held = State { expires_at: wall(2_115), ..held("b/1", 110) };
    let (wall, name) = (wall(110), "m".to_owned());
    story.0.changes.push(Change { token: 110, wall, name, before: None, after: Some(held.into()) });
    // A call for several leases is known by the first of its ids.
    let value = super::value("a/2");
    let (call, name, valid_until) = ("a/1".to_owned(), "n".to_owned(), 2_000_000_000);
    story.note(120, "a", What::Granted { call, name, token: 110, value, valid_until });
    assert_eq!(Facts::of(&story.0).holds[0].grant, "a/2.1");
}

/// The document was deleted between the two, and so its number began again.
#[test]
fn the_end_of_a_grant_is_not_that_of_the_same_calls_next_one() {
    let mut story = Story::new();
    story.invoke(100, "a/1").write(110, Some(held("a/1", 110))).write(2_200, None);
    story.write(2_300, Some(held("a/1", 2_300))).told(2_310, "a/1", 2_300, 4_200);
    story.write(4_290, None);
    assert_eq!(check_only(&story.0, &[Invariant::Removal]), []);
    story.0.changes.last_mut().expect("the second end").wall = wall(3_000);
    let found = check_only(&story.0, &[Invariant::Removal]);
    assert_eq!(found.iter().map(|it| it.invariant).collect::<Vec<_>>(), [Invariant::Removal]);
}

/// A request that arrived twice asked again, and the holder's clock is not the server's. The token of a batch is that
/// of its last write, and tells nevertheless that a later grant is none of its own.
#[test]
fn a_holder_does_not_believe_in_the_same_calls_next_grant() {
    let beliefs = |token| {
        let mut story = Story::new();
        story.invoke(100, "a/1").write(110, Some(held("a/1", 110))).told(120, "a/1", token, 2_100);
        story.write(125, None).write(130, Some(held_until("a/1", [130, 1_000])));
        story.0.terms.clock_error = 50 * MILLI;
        story.found_of(&[Invariant::Belief])
    };
    assert_eq!(beliefs(110), []);
    assert_eq!(beliefs(112), [], "in a batch");
    assert_eq!(beliefs(90), [Invariant::Belief], "a token from before its grants tells nothing");
}

/// A request that arrives again grants a second time. The fence goes by the order of the grants that holders heard of.
#[test]
fn a_write_under_the_same_calls_next_grant_is_after_those_of_grants_between() {
    let mut story = Story::new();
    story.invoke(100, "a/1").write(110, Some(held("a/1", 110))).write(120, None);
    story.grant(200, "b/1").judge(230, "b/1", 210, true).release(240, "b/1");
    story.write(300, Some(held("a/1", 300))).told(310, "a/1", 300, 2_200);
    story.judge(320, "a/1", 300, true);
    assert_eq!(check_only(&story.0, &[Invariant::Fence]), []);
    // Its holder heard of the first one.
    let mut earlier = Story::new();
    earlier.invoke(100, "a/1").write(110, Some(held("a/1", 110))).told(115, "a/1", 110, 2_000);
    earlier.write(120, None).grant(200, "b/1").judge(230, "b/1", 210, true).release(240, "b/1");
    earlier.write(300, Some(held("a/1", 300))).judge(320, "a/1", 300, true);
    let found = check_only(&earlier.0, &[Invariant::Fence]);
    assert_eq!(found.iter().map(|it| it.invariant).collect::<Vec<_>>(), [Invariant::Fence]);
}
