//! The error texts that users read, and what errors say of a retry.

use std::time::Duration;

use mongo_lease_core::commands::snapshot;
use mongo_lease_core::info::{LeaseInfo, LeaseState};
use mongodb::bson::Document;
use mongodb::error::{CommandError, Error as DriverError, ErrorKind, WriteFailure};

use super::driver::{condense, describe};
use super::{Error, LostReason, NOT_SENT};

/// A text that could command a terminal.
const EVIL: &str = "evil\u{1b}[2J\u{202e}";

fn timeout(held: Option<LeaseInfo>, source: Option<Error>) -> Error {
    Error::WaitTimeout {
        name: "a".to_owned(),
        waited: Duration::from_nanos(2_503_864_819),
        waited_for_turn: false,
        held: held.map(Box::new),
        source: source.map(Box::new),
    }
}

fn busy(info: LeaseInfo) -> Error {
    Error::Busy(Box::new(info))
}

fn unknown(source: Option<DriverError>) -> Error {
    Error::Unknown { reason: "no word".to_owned(), source }
}

fn info(state: LeaseState, owner: Option<&str>) -> LeaseInfo {
    let mut info = snapshot::read(&Document::new()).info;
    info.name = "a".to_owned();
    info.value = Some("v".to_owned());
    info.owner = owner.map(str::to_owned);
    // The value at the last answer. The text must not state it as the current one.
    info.remaining = Some(Duration::from_millis(17_343));
    info.waiting = 3;
    info.state = state;
    (info.in_use, info.limit) = (Some(1), Some(1));
    info
}

fn in_shared_use(in_use: Option<u32>, limit: Option<u32>) -> LeaseInfo {
    let mut info = info(LeaseState::Held, None);
    (info.shared, info.in_use, info.limit) = (true, in_use, limit);
    info
}

/// The beginning of the text of a wait that ended.
const BEGIN: &str = "lease \"a\" was not granted within 2s 504ms; ";

#[test]
fn a_wait_timeout_names_the_last_known_holder() {
    const LAST: &str = "; the last error: the outcome is unknown: no word";
    let held_by = |owner| info(LeaseState::Held, owner);
    for (held, known) in [
        (held_by(Some("billing@web-1:7")), "billing@web-1:7 held it"),
        (held_by(Some(EVIL)), "evil\\u{1b}[2J\\u{202e} held it"),
        (held_by(None), "another program held it"),
        (info(LeaseState::Free, None), "it was free, with 3 in the queue,"),
        (in_shared_use(Some(5), Some(5)), "5 of 5 permits were in use"),
        (in_shared_use(None, None), "it was held by several"),
    ] {
        let text = format!("{BEGIN}{known} when the database last answered");
        assert_eq!(timeout(Some(held.clone()), None).to_string(), text);
        assert_eq!(timeout(Some(held), Some(unknown(None))).to_string(), format!("{text}{LAST}"));
    }
    let text = format!("{BEGIN}the database did not answer");
    assert_eq!(timeout(None, None).to_string(), text);
    assert_eq!(timeout(None, Some(unknown(None))).to_string(), format!("{text}{LAST}"));
}

/// The database had nothing to answer: the call was never sent.
#[test]
fn a_call_that_waited_in_its_process_says_so() {
    let not_sent = Error::from(crate::failure::NOT_SENT);
    assert_eq!(timeout(None, Some(not_sent)).to_string(), format!("{BEGIN}{NOT_SENT}"));
}

/// Owners come from any program that can write to the collection.
#[test]
fn foreign_texts_are_escaped() {
    let held = busy(info(LeaseState::Held, Some(EVIL)));
    let taken = LostReason::TakenOver { by: Some(EVIL.to_owned()) };
    for text in [held.to_string(), taken.to_string()] {
        assert!(text.contains("evil\\u{1b}[2J\\u{202e}"), "{text}");
        assert!(!text.contains(|it: char| it.is_control() || it == '\u{202e}'), "{text:?}");
    }
}

fn command_error(code: i32) -> DriverError {
    refused(code, "")
}

fn refused(code: i32, text: &str) -> DriverError {
    let error = serde_json::json!({ "code": code, "codeName": "", "errmsg": text });
    let error: CommandError = serde_json::from_value(error).expect("the driver's form");
    ErrorKind::Command(error).into()
}

fn write_error(code: i32) -> DriverError {
    let error = serde_json::json!({ "code": code, "errmsg": "" });
    let error = serde_json::from_value(error).expect("the driver's form");
    ErrorKind::Write(WriteFailure::WriteError(error)).into()
}

fn missing_privilege(source: DriverError) -> Error {
    Error::MissingPrivilege { privilege: "find", namespace: "app.locks".to_owned(), source }
}

/// Each variant, with what becomes of a retry.
fn every_error() -> Vec<(Error, bool)> {
    let name = || "a".to_owned();
    let reason = String::new;
    let login = || command_error(18);
    let down = || DriverError::from(std::io::Error::other("the connection broke"));
    vec![
        (busy(info(LeaseState::Held, None)), true),
        (timeout(None, None), true),
        (timeout(None, Some(unknown(None))), true),
        (timeout(None, Some(Error::MongoDb(login()))), false),
        (Error::QueueFull { name: name(), waiting: 3 }, true),
        (Error::Lost { name: name(), reason: LostReason::Removed }, false),
        (Error::NotMigrated { problem: reason(), database: name(), collection: name() }, false),
        (missing_privilege(command_error(13)), false),
        (Error::Damaged { name: name(), field: "expiresAt", found: "int".to_owned() }, false),
        (Error::InvalidOption { option: "ttl", reason: reason() }, false),
        (Error::InvalidName { reason: reason() }, false),
        (Error::Unsupported { missing: reason() }, false),
        (Error::ShutDown, false),
        (Error::Stopped, false),
        (Error::CommitUnknown { name: name(), source: None }, false),
        (Error::CommitUnknown { name: name(), source: Some(down()) }, false),
        (Error::TransactionTooLong { name: name(), ttl: Duration::from_secs(5) }, false),
        (unknown(None), true),
        (unknown(Some(down())), true),
        (Error::MongoDb(down()), true),
        (Error::MongoDb(login()), false),
        // Not the primary, a write conflict, a failed validation.
        (Error::MongoDb(command_error(10_107)), true),
        (Error::MongoDb(command_error(112)), true),
        (Error::MongoDb(write_error(121)), false),
        (Error::MongoDb(write_error(24)), true),
        // Too large, and what nobody has named: the disk is full, the majority is not there yet.
        (Error::MongoDb(command_error(10_334)), false),
        (Error::MongoDb(command_error(14_031)), true),
        (Error::MongoDb(write_error(134)), true),
    ]
}

#[test]
fn each_error_says_whether_a_retry_may_help() {
    for (error, is_transient) in every_error() {
        assert_eq!(error.is_transient(), is_transient, "{error:?}");
    }
    let (_, variants) = include_str!("mod.rs").split_once("pub enum Error {\n").expect("the enum");
    let (variants, _) = variants.split_once("\n}\n").expect("its end");
    let lines = variants.lines().filter_map(|line| line.strip_prefix("    "));
    let variants: Vec<&str> = lines
        .filter(|line| line.starts_with(char::is_uppercase))
        .filter_map(|line| line.split(['(', ',', ' ']).next())
        .collect();
    assert!(variants.len() > 12, "{variants:?}");
    for variant in variants {
        let is_it = |error: &Error| error.kind().replace('_', "") == variant.to_lowercase();
        assert!(every_error().iter().any(|(error, _)| is_it(error)), "{variant} is not tested");
    }
}

#[test]
fn only_a_live_holder_says_when_to_come_back() {
    let (second, day) = (Duration::from_secs(1), Duration::from_secs(86_400));
    let damaged = LeaseState::Damaged { found: "int".to_owned() };
    for (state, remaining, wanted) in [
        (LeaseState::Held, Some(second), Some(second)),
        (LeaseState::Held, Some(Duration::MAX), Some(day)),
        (LeaseState::Held, None, None),
        (LeaseState::Free, Some(second), None),
        (damaged, Some(second), None),
    ] {
        let mut info = info(state, None);
        info.remaining = remaining;
        assert_eq!(busy(info.clone()).retry_after(), wanted, "{info:?}");
    }
    for (error, _) in every_error() {
        assert_eq!(error.retry_after().is_some(), matches!(error, Error::Busy(_)), "{error:?}");
    }
    // An answer from the wait's beginning is out of date at its end.
    let late = timeout(Some(info(LeaseState::Held, None)), None);
    assert_eq!(late.retry_after(), None);
}

#[test]
fn a_loss_is_told_and_serialized_with_its_details() {
    let since = Duration::from_nanos(20_000_000_001);
    let told = LostReason::OutOfReach { since, last_error: None };
    assert_eq!(told.to_string(), "the database has confirmed no renewal for 20s 1ms");
    let told = LostReason::OutOfReach { since, last_error: Some("not authorized".to_owned()) };
    assert!(told.to_string().ends_with("20s 1ms; the last error: not authorized"), "{told}");
    let told = LostReason::NotRenewed { stood_still: Some(since) };
    let text = "it was not renewed in time: this process stood still for 20s 1ms";
    assert_eq!(told.to_string(), text);
    let by = Some("web-2".to_owned());
    for (reason, json) in [
        (LostReason::NotRenewed { stood_still: None }, r#"{"reason":"not_renewed"}"#),
        (told, r#"{"reason":"not_renewed","stood_still_ms":20000}"#),
        (LostReason::TakenOver { by }, r#"{"reason":"taken_over","by":"web-2"}"#),
        (LostReason::TakenOver { by: None }, r#"{"reason":"taken_over","by":null}"#),
    ] {
        assert_eq!(serde_json::to_string(&reason).expect("JSON"), json);
    }
}

/// It was `MongoDb("Custom user error")`, and transient.
#[test]
fn an_error_comes_out_of_the_drivers_as_it_went_in() {
    for (error, is_transient) in every_error() {
        let (kind, text) = (error.kind(), error.to_string());
        let inside = matches!(error, Error::Unknown { source: Some(_), .. });
        let out = Error::from(DriverError::from(error));
        // The driver's own error says what it says, with its labels.
        let wanted = if inside { ("mongodb", out.to_string()) } else { (kind, text) };
        assert_eq!((out.kind(), out.to_string()), wanted);
        assert_eq!(out.is_transient(), is_transient, "{out:?}");
    }
    let foreign = Error::from(DriverError::custom("another program's"));
    assert_eq!(foreign.kind(), "mongodb");
}

#[test]
fn an_unknown_outcome_is_told_with_its_cause() {
    let cause = || Some(DriverError::custom("the text of a driver"));
    let unconfirmed = |source| Error::CommitUnknown { name: "a".to_owned(), source };
    for (without, with) in
        [(unknown(None), unknown(cause())), (unconfirmed(None), unconfirmed(cause()))]
    {
        assert_eq!(with.to_string(), format!("{without}: Custom user error"));
    }
}

/// `fn main() -> Result<()>` prints an error so.
#[test]
fn debug_is_the_message_with_the_sources_that_it_lacks() {
    let refused = || DriverError::custom("no such thing");
    for (error, _) in every_error() {
        let shown = format!("{error:?} {error:#?}");
        assert!(shown.starts_with(&error.to_string()), "{shown}");
        assert!(!shown.contains(" { ") && !shown.contains("labels"), "{shown}");
    }
    let error = missing_privilege(refused());
    let (shown, message) = (format!("{error:?}"), error.to_string());
    assert!(shown.starts_with(&message) && shown.ends_with(": Custom user error"), "{shown}");
    let error = Error::MongoDb(refused());
    assert_eq!(format!("{error:?}"), error.to_string());
}

/// The log has it.
#[cfg(feature = "tracing")]
#[test]
fn the_servers_code_is_that_of_the_driver() {
    let failed = serde_json::json!({ "code": 64, "codeName": "", "errmsg": "" });
    let failed = serde_json::from_value(failed).expect("the driver's form");
    let concern = || ErrorKind::Write(WriteFailure::WriteConcernError(failed)).into();
    let end = |source| Error::CommitUnknown { name: "a".to_owned(), source };
    for (error, code) in [
        (Error::MongoDb(command_error(13)), Some(13)),
        (Error::MongoDb(write_error(121)), Some(121)),
        (unknown(Some(concern())), Some(64)),
        (end(Some(command_error(50))), Some(50)),
        (missing_privilege(command_error(13)), Some(13)),
        (timeout(None, Some(Error::MongoDb(command_error(18)))), Some(18)),
        (Error::MongoDb(std::io::Error::other("the connection broke").into()), None),
        (timeout(None, None), None),
        (unknown(None), None),
        (end(None), None),
        (Error::ShutDown, None),
    ] {
        assert_eq!(error.server_code(), code, "{error}");
    }
}

#[test]
fn a_failure_is_unknown_where_the_write_may_have_been_applied() {
    for (code, wanted) in [(13, "mongodb"), (98_765, "unknown")] {
        let failure = crate::failure::driver_failure(command_error(code));
        assert_eq!(Error::from(failure).kind(), wanted, "{code}");
    }
}

#[test]
fn the_text_of_a_missing_privilege_says_what_helps() {
    let of = |privilege: &'static str| {
        let namespace = "app.locks".to_owned();
        let source = command_error(13);
        Error::MissingPrivilege { privilege, namespace, source }.to_string()
    };
    let lacking = "the user lacks the privilege `find` on app.locks";
    assert!(of("find").starts_with(lacking) && !of("find").contains("assume_indexes"));
    assert!(of("listIndexes").contains("or build with `assume_indexes(true)`"));
}

#[test]
fn a_refusal_names_the_command_and_shows_nothing_of_it() {
    let text = "not authorized on app to execute command { update: \"locks\", secret: 1 }";
    let shown = condense(&refused(13, text));
    assert!(shown.ends_with("not authorized on app to execute `update`"), "{shown}");
    // The text of another refusal is told as it is.
    assert!(condense(&refused(2, text)).ends_with(text));
    assert!(condense(&refused(13, "not authorized")).ends_with("not authorized"));
    assert_eq!(condense(&write_error(121)), " (code 121)");
}

#[test]
fn a_refused_login_is_told_from_another_failure() {
    for (code, kind) in [(18, "the database refuses the login: "), (13, "the database failed: ")] {
        let shown = describe(&command_error(code));
        assert!(shown.starts_with(kind), "{shown}");
    }
}
