//! When a command about one document has found that blocked, or not blocked any more.

use std::time::Duration;

use mongo_lease_core::commands::Ping;
use mongo_lease_core::rules::BOUND_MIN;

use super::{LONG, cut_off, runner, unanswered};
use crate::batch::single::{SingleSender, note_cut_off};
use crate::hints::Hints;
use crate::runner::AttemptTime;

#[tokio::test(start_paused = true)]
async fn a_document_is_blocked_that_has_cut_a_command_off_which_had_its_time() {
    let runner = runner();
    let had_time = BOUND_MIN * 3 / 4;
    for (what, failure, after, wanted) in [
        ("cut off after its time", cut_off(), had_time, true),
        ("cut off early", cut_off(), had_time - Duration::from_millis(1), false),
        ("not answered", unanswered(), had_time, false),
    ] {
        let blocked = Hints::new(false, runner.clock()).blocked;
        note_cut_off(&blocked, "a", &failure, after);
        assert_eq!((blocked.has("a"), blocked.has("b")), (wanted, false), "{what}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_document_that_was_written_is_not_blocked_any_more() {
    for has_written in [|_: &()| true, |_: &()| false] {
        let runner = runner();
        let blocked = Hints::new(false, runner.clock()).blocked;
        let sender = SingleSender::new(runner.clone(), None, blocked.clone());
        blocked.found("a");
        let time = AttemptTime::from(runner.clock().now().after(LONG));
        sender.start("a", Ping, time, has_written, |_| ()).await.unwrap();
        assert_eq!(blocked.has("a"), !has_written(&()));
    }
}
