//! The meaning of a failed command: whether it may be done, and whether another one may succeed.

use std::error::Error as _;

use mongodb::error::{CommandError, Error as DriverError, ErrorKind};

use super::super::error::{API_STRICT, CANNOT_CONVERT, Error, Failure, UNAUTHORIZED};

fn refused(code: i32, message: &str) -> DriverError {
    let error = serde_json::json!({ "code": code, "codeName": "", "errmsg": message });
    let error: CommandError = serde_json::from_value(error).expect("the driver's form");
    ErrorKind::Command(error).into()
}

/// Whether the same command may succeed, whether another read may explain it, and whether it may be done.
fn meaning(failure: Failure) -> (bool, bool, bool) {
    let (passes, explained) = (failure.is_passing(), failure.may_look_again());
    (passes, explained, matches!(Error::from(failure), Error::Unknown { .. }))
}

#[test]
fn a_code_says_whether_it_may_be_done_and_what_may_help() {
    for (code, wanted) in [
        // A shutdown, a step-down, a time limit.
        (91, (true, true, true)),
        (11_602, (true, true, true)),
        (50, (true, true, true)),
        // A conflict, no primary, a duplicate key.
        (112, (true, true, false)),
        (10_107, (true, true, false)),
        (11_000, (true, true, false)),
        // Another process did it, or undid it.
        (27, (false, true, false)),
        (85, (false, true, false)),
        (CANNOT_CONVERT, (false, true, false)),
        // A bad value, a missing privilege, the Stable API.
        (2, (false, false, false)),
        (UNAUTHORIZED, (false, false, false)),
        (API_STRICT, (false, false, false)),
    ] {
        let failure = Failure::Driver(refused(code, ""));
        assert_eq!(failure.server_code(), Some(code));
        assert_eq!(meaning(failure), wanted, "{code}");
    }
}

#[test]
fn what_is_no_refusal_may_be_done_unless_it_was_never_sent() {
    let broken = || DriverError::from(std::io::Error::other("broken"));
    let unsent = ErrorKind::SessionsNotSupported;
    for (failure, wanted) in [
        (Failure::Driver(broken()), (true, true, true)),
        (Failure::Driver(unsent.into()), (false, false, false)),
        (Failure::Deadline, (true, true, true)),
        (Failure::Reply, (true, true, true)),
        (Failure::WriteConcern("timed out".to_owned()), (true, true, true)),
    ] {
        let text = format!("{failure:?}");
        assert_eq!(failure.server_code(), None, "{text}");
        assert_eq!(meaning(failure), wanted, "{text}");
    }
}

#[test]
fn an_error_says_what_is_missing_or_unknown_and_why() {
    let explained = |error| Failure::Driver(error).explain("createIndex", "app.locks");
    let unknown = "the outcome is unknown: the ";
    let broken = DriverError::from(std::io::Error::other("broken"));
    for (error, wanted, has_source) in [
        (
            explained(refused(UNAUTHORIZED, "")),
            "the user lacks the privilege `createIndex` on app.locks".to_owned(),
            true,
        ),
        // Atlas has a code of its own.
        (
            explained(refused(8_000, "user is not allowed to do action")),
            "the user lacks the privilege `createIndex` on app.locks".to_owned(),
            true,
        ),
        (
            explained(broken),
            format!("{unknown}database did not confirm the command: I/O error: broken"),
            true,
        ),
        (
            Failure::WriteConcern("timed out".to_owned()).into(),
            format!("{unknown}write is not acknowledged by a majority: timed out"),
            false,
        ),
        (Failure::Deadline.into(), format!("{unknown}database did not answer in time"), false),
        (Failure::Reply.into(), format!("{unknown}reply to a listing contains no batch"), false),
        (Error::Blocked { problem: "two of them".to_owned() }, "two of them".to_owned(), false),
    ] {
        assert_eq!((error.to_string(), error.source().is_some()), (wanted, has_source));
    }
    let other = explained(refused(8_000, "busy"));
    assert!(matches!(other, Error::MongoDb(_)), "{other}");
}
