use crate::rules::ids::ManagerId;

use super::assert_snapshot;
use crate::commands::watch::pipeline;

/// The text of an admission has the parts of all who were admitted, separated by spaces.
#[test]
fn the_pipeline_of_the_change_stream_is_written_out() {
    let stages = pipeline(&ManagerId::new("$manager".to_owned()));
    assert_snapshot("watch", stages);
}

/// The range contains no other manager's calls, although one id may begin with another's.
#[test]
fn the_range_of_a_manager_has_its_own_calls_in_it_alone() {
    let stages = pipeline(&ManagerId::new("abc".to_owned()));
    let updates = stages[0].get_document("$match").unwrap().get_array("$or").unwrap();
    let range = updates[0].as_document().unwrap();
    let range = range.get_document("updateDescription.updatedFields.promoted").unwrap();
    let (from, to) = (range.get_str("$gte").unwrap(), range.get_str("$lt").unwrap());
    let is_in_it = |text: &str| from <= text && text < to;
    for ours in ["abc-1.1@5", "abc-ffff.10@!5", "abc-.", "abc-~~"] {
        assert!(is_in_it(ours), "{ours}");
    }
    for another in ["", "abc", "abcd-1.1@5", "ab-1.1@5", "abd-1.1@5", "abc.1@5", "ABC-1.1@5"] {
        assert!(!is_in_it(another), "{another}");
    }
}
