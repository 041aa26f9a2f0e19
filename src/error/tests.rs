//! The error texts that users read.

use std::time::Duration;

use mongodb::bson::Document;

use super::{Error, LostReason};
use crate::info::{LeaseInfo, LeaseState};

fn timeout(held: Option<LeaseInfo>, source: Option<Error>) -> String {
    let error = Error::WaitTimeout {
        name: "a".to_owned(),
        waited: Duration::from_nanos(2_503_864_819),
        held: held.map(Box::new),
        source: source.map(Box::new),
    };
    error.to_string()
}

fn info(state: LeaseState, owner: Option<&str>) -> LeaseInfo {
    LeaseInfo {
        name: "a".to_owned(),
        value: Some("v".to_owned()),
        owner: owner.map(str::to_owned),
        acquired_at: None,
        expires_at: None,
        // The value at the last answer. The text must not state it as the current one.
        remaining: Some(Duration::from_millis(17_343)),
        metadata: Document::new(),
        waiting: 3,
        state,
        held_here: false,
    }
}

#[test]
fn a_wait_timeout_names_the_last_known_holder() {
    const BEGIN: &str = "lease \"a\" was not granted within 2s 504ms; ";
    let unknown = Error::Unknown { reason: "no word".to_owned(), source: None };
    for (held, source, expected) in [
        (
            Some(info(LeaseState::Held, Some("billing@web-1:7"))),
            None,
            "billing@web-1:7 held it when the database last answered",
        ),
        (
            Some(info(LeaseState::Held, None)),
            Some(unknown.clone()),
            "another program held it when the database last answered; \
             the last error: the outcome is unknown: no word",
        ),
        (
            Some(info(LeaseState::Free, None)),
            None,
            "it was free, with 3 in the queue, when the database last answered",
        ),
        (None, None, "the database did not answer"),
        (
            None,
            Some(unknown),
            "the database did not answer; the last error: the outcome is unknown: no word",
        ),
    ] {
        assert_eq!(timeout(held, source), format!("{BEGIN}{expected}"));
    }
}

#[test]
fn a_loss_is_told_in_milliseconds() {
    let since = Duration::from_nanos(20_000_000_001);
    let reason = LostReason::OutOfReach { since };
    assert_eq!(reason.to_string(), "the database has confirmed no renewal for 20s 1ms");
}
