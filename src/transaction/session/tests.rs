//! The meaning of the driver's error of a commit.

use mongo_lease_core::rules::CommitAnswer;
use mongodb::error::{CommandError, Error as DriverError, ErrorKind, WriteFailure};

use super::answer_of;

/// The server knows no more of it after the longest time of a commit: the driver's rules say not to repeat that.
#[test]
fn a_commit_of_unknown_outcome_is_repeated_unless_its_time_was_over() {
    const MAX_TIME_MS_EXPIRED: i32 = 50;
    const UNSATISFIABLE_WRITE_CONCERN: i32 = 100;
    for (code, may_repeat) in [(MAX_TIME_MS_EXPIRED, false), (UNSATISFIABLE_WRITE_CONCERN, true)] {
        let labels = ["UnknownTransactionCommitResult"];
        let error = serde_json::json!({ "code": code, "errorLabels": labels });
        let error = serde_json::from_value(error).expect("the driver's form");
        let error = ErrorKind::Write(WriteFailure::WriteConcernError(error)).into();
        assert_eq!(answer_of(&error), CommitAnswer::Unknown { may_repeat }, "{code}");
    }
    let error = serde_json::json!({ "code": 13, "codeName": "Unauthorized", "errmsg": "" });
    let refused: CommandError = serde_json::from_value(error).expect("the driver's form");
    let refused = DriverError::from(ErrorKind::Command(refused));
    assert_eq!(answer_of(&refused), CommitAnswer::Refused);
}
