//! A failed attempt tells what became of its write, and whether another one may succeed.

use mongo_lease_core::commands::{DecodeError, StatementError, Unconfirmed};
use mongo_lease_core::rules::{Advice, MAYBE_APPLIED, NOT_APPLIED, Outcome, REFUSED};
use mongodb::bson::Timestamp;
use mongodb::error::{CommandError, Error as DriverError, ErrorKind, WriteFailure};

use super::{
    Cause, Failure, NOT_SENT, UNANSWERED, decode_failure, driver_failure, driver_outcome,
    not_confirmed,
};

/// Codes of the server, and one that nobody knows.
const MAX_TIME_MS_EXPIRED: i32 = 50;
const READ_CONCERN_MAJORITY_NOT_ENABLED: i32 = 148;
const DUPLICATE_KEY: i32 = 11_000;
const FOREIGN: i32 = 98_765;

fn refused(code: i32) -> DriverError {
    let error = serde_json::json!({ "code": code, "codeName": "", "errmsg": "" });
    let error: CommandError = serde_json::from_value(error).expect("the driver's form");
    ErrorKind::Command(error).into()
}

/// The failure of a command that the server refused.
fn command(code: i32) -> Failure {
    driver_failure(refused(code))
}

/// The failure of a command of which one statement was refused.
fn statement(code: i32) -> Failure {
    let source = StatementError { code, message: "no".to_owned() };
    decode_failure(DecodeError::Write { source, outcome: REFUSED })
}

fn unconfirmed() -> Failure {
    let at = Timestamp { time: 1, increment: 1 };
    not_confirmed(Unconfirmed { at, message: "late".to_owned() })
}

fn unsupported() -> Failure {
    decode_failure(DecodeError::Unsupported("change streams".to_owned()))
}

#[test]
fn the_code_of_a_command_is_known_or_not() {
    assert_eq!(command(13).server_code(), Some(13));
    assert_eq!(statement(DUPLICATE_KEY).server_code(), None);
    assert_eq!(UNANSWERED.server_code(), None);
    for failure in [command(FOREIGN), statement(FOREIGN)] {
        assert_eq!(failure.unknown_code(), Some(FOREIGN), "{failure:?}");
    }
    for failure in [command(13), statement(DUPLICATE_KEY), unconfirmed(), UNANSWERED] {
        assert_eq!(failure.unknown_code(), None, "{failure:?}");
    }
}

#[test]
fn a_command_that_the_server_gave_up_is_cut_off() {
    let blocked = command(MAX_TIME_MS_EXPIRED);
    assert!(blocked.is_blocked() && blocked.is_cut_off());
    assert!(!unconfirmed().is_blocked() && unconfirmed().is_cut_off());
    for failure in [command(13), statement(MAX_TIME_MS_EXPIRED), UNANSWERED, NOT_SENT] {
        assert!(!failure.is_blocked() && !failure.is_cut_off(), "{failure:?}");
    }
}

#[test]
fn three_failures_end_all_reads() {
    let shut_down = Failure { outcome: REFUSED, cause: Cause::ShutDown };
    let without = command(READ_CONCERN_MAJORITY_NOT_ENABLED);
    assert!(without.is_no_majority_read());
    for failure in [without, unsupported(), shut_down] {
        assert!(failure.ends_all_reads(), "{failure:?}");
    }
    for failure in [command(FOREIGN), unconfirmed(), UNANSWERED] {
        assert!(!failure.ends_all_reads() && !failure.is_no_majority_read(), "{failure:?}");
    }
}

#[test]
fn an_earlier_attempt_makes_a_failure_maybe_applied() {
    for (failure, earlier, maybe_applied) in [
        (NOT_SENT, false, false),
        (NOT_SENT, true, true),
        (UNANSWERED, false, true),
        (UNANSWERED, true, true),
    ] {
        assert_eq!(failure.or_maybe(earlier).outcome.maybe_applied, maybe_applied, "{earlier}");
    }
}

/// Other kinds come from the driver alone: `absent` and `privileges` in `tests/it` have them.
#[test]
fn a_drivers_error_says_what_became_of_the_write() {
    let broken = DriverError::from(std::io::Error::other("the connection broke"));
    for (error, wanted) in [
        (refused(13), REFUSED),
        (refused(FOREIGN), MAYBE_APPLIED),
        (broken, MAYBE_APPLIED),
        (DriverError::custom("a text"), MAYBE_APPLIED),
        (ErrorKind::SessionsNotSupported.into(), REFUSED),
        (ErrorKind::Shutdown.into(), REFUSED),
    ] {
        assert_eq!(driver_outcome(&error), wanted, "{error:?}");
        assert!(!driver_failure(error).is_out_of_reach());
    }
}

#[test]
fn a_label_says_that_nothing_was_written() {
    for (labels, wanted) in [
        (&[] as &[&str], MAYBE_APPLIED),
        (&["SystemOverloadedError"], MAYBE_APPLIED),
        (&["RetryableError"], MAYBE_APPLIED),
        (&["SystemOverloadedError", "RetryableError"], NOT_APPLIED),
        (&["NoWritesPerformed"], NOT_APPLIED),
    ] {
        // Of the errors that can be made here, this one has labels.
        let error = serde_json::json!({ "code": 91, "errorLabels": labels });
        let error = serde_json::from_value(error).expect("the driver's form");
        let error = ErrorKind::Write(WriteFailure::WriteConcernError(error)).into();
        assert_eq!(driver_outcome(&error), wanted, "{labels:?}");
    }
}

#[test]
fn a_reply_that_is_no_answer_keeps_what_is_known() {
    let Failure { outcome, cause } = statement(DUPLICATE_KEY);
    assert_eq!(outcome, REFUSED);
    assert!(matches!(cause, Cause::Write(error) if error.to_string().contains("11000")));
    let stop = Outcome { maybe_applied: true, advice: Advice::Stop };
    assert_eq!(unsupported().outcome, stop);
    let odd = decode_failure(DecodeError::Reply("odd".to_owned()));
    assert_eq!(odd.outcome, MAYBE_APPLIED);
    assert!(matches!(odd.cause, Cause::Reply(text) if text == "odd"));
}
