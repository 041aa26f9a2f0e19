//! When a command about one document has found that blocked.

use std::time::Duration;

use mongo_lease_core::rules::BOUND_MIN;

use super::{cut_off, runner, unanswered};
use crate::batch::single::note_cut_off;
use crate::hints::Hints;

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
