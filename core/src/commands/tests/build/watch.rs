use crate::rules::ids::ManagerId;

use super::assert_snapshot;
use crate::commands::watch::pipeline;

/// The text of an admission has the parts of all who were admitted, separated by spaces.
#[test]
fn the_pipeline_of_the_change_stream_is_written_out() {
    let stages = pipeline(&ManagerId::new("$manager".to_owned()));
    assert_snapshot("watch", stages);
}
