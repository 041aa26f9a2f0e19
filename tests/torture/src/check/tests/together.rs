//! Calls that travel in batches.

use super::{Story, held};
use crate::check::Invariant;

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
