//! Replies: their statements, their majority, and the grant that they are about.

use crate::bson::{Document, doc};
use crate::commands::renew::{GrantKey, Resume, StandaloneToken};
use crate::commands::reply::{self, Ended, no_write_error, refused_statements};
use crate::commands::{Command, DecodeError, snapshot, write_concern_error};
use crate::rules::outcome::{MAYBE_APPLIED, NOT_APPLIED, REFUSED};

use super::super::{SENT, TOKEN, held, request, with};

const INVALID: i32 = 121;
/// Another try of the statement may succeed.
const WRITE_CONFLICT: i32 = 112;

/// A reply with errors of statements, each with the position of its statement.
fn errors(errors: &[(i32, i32)]) -> Document {
    let error = |(place, code): &(i32, i32)| doc! { "index": place, "code": code, "errmsg": "no" };
    doc! { "n": 1, "writeErrors": errors.iter().map(error).collect::<Vec<_>>() }
}

#[test]
fn statements_that_are_refused_for_good_are_told_by_their_positions() {
    let places = |of: &[(i32, i32)]| match refused_statements(&errors(of), 3) {
        Ok(refused) => Ok(refused.map(|(places, _)| places)),
        Err(DecodeError::Write { outcome, .. }) => Err(outcome),
        Err(error) => panic!("{error}"),
    };
    assert_eq!(places(&[]), Ok(None));
    assert_eq!(places(&[(2, INVALID)]), Ok(Some(vec![2])));
    assert_eq!(places(&[(0, INVALID), (2, INVALID)]), Ok(Some(vec![0, 2])));
    // There are three statements, and one that may be tried again is not refused for good.
    for others in [&[(3, INVALID)][..], &[(4, INVALID)], &[(1, WRITE_CONFLICT)]] {
        assert_eq!(places(others), Err(MAYBE_APPLIED), "{others:?}");
    }
}

#[test]
fn the_error_of_the_only_statement_says_that_it_is_not_applied() {
    let outcome = |statements| match no_write_error(&errors(&[(0, INVALID)]), statements) {
        Err(DecodeError::Write { outcome, .. }) => outcome,
        other => panic!("{other:?}"),
    };
    assert_eq!((outcome(1), outcome(2)), (REFUSED, MAYBE_APPLIED));
    assert!(no_write_error(&doc! { "n": 1 }, 1).is_ok());
}

#[test]
fn a_missing_majority_has_the_servers_words() {
    let told = |error: Document, n: i32| {
        let (text, outcome) =
            write_concern_error(&doc! { "n": n, "writeConcernError": error }).unwrap();
        (
            text.trim_start_matches("the write is not acknowledged by a majority: ").to_owned(),
            outcome,
        )
    };
    let timed_out = |message: &str| doc! { "errmsg": message, "codeName": "WriteConcernTimeout" };
    assert_eq!(told(timed_out("late"), 1), ("late".to_owned(), MAYBE_APPLIED));
    assert_eq!(told(timed_out(""), 0), ("WriteConcernTimeout".to_owned(), NOT_APPLIED));
    assert_eq!(told(doc! {}, 2), ("no reason given".to_owned(), MAYBE_APPLIED));
}

#[test]
fn two_releases_add_up() {
    let (one, later) = (Ended { count: 2, at: None }, Ended { count: 3, at: Some(TOKEN) });
    let both = Ended { count: 5, at: Some(TOKEN) };
    assert_eq!([one.and(later), later.and(one)], [both, both]);
}

/// A resume is answered by the document that it has written.
#[test]
fn a_resume_believes_in_its_own_grant_alone() {
    let timing = request().timing;
    let (key, fresh_id) = (GrantKey::new("$name", "own", &"old.1".into()), "new.1".into());
    let resume = Resume { key, fresh_id, ttl: None, timing };
    let grant = |value: &str, id: &str, ttl_ms: Option<i64>| {
        let grant = doc! { "value": value, "id": id, "ttlMs": ttl_ms };
        with(held(value, id), "grant", grant)
    };
    for (value, id, ttl_ms, wanted) in [
        ("own", "new.1", Some(5), Some(5)),
        ("another", "new.1", Some(5), None),
        ("own", "old.1", Some(5), None),
        ("own", "new.1", None, None),
    ] {
        let resumed = resume.decode(&doc! { "value": grant(value, id, ttl_ms) }, SENT);
        let ttl = resumed.ok().flatten().and_then(|(_, seen)| seen.ttl_ms);
        assert_eq!(ttl, wanted, "{value} {id} {ttl_ms:?}");
    }
    assert!(matches!(resume.decode(&doc! { "value": null }, SENT), Ok(None)));
}

#[test]
fn a_token_without_an_oplog_is_the_date_that_the_server_has_written() {
    let command = StandaloneToken { key: GrantKey::new("$name", "own", &"own.1".into()) };
    let told = |document| command.decode(&doc! { "value": document }, SENT);
    let written = doc! { "grant": { "standaloneToken": TOKEN } };
    assert_eq!(told(Some(written)), Ok(Some(TOKEN)));
    assert_eq!(told(None), Ok(None), "the lease is lost");
    assert!(told(Some(doc! { "grant": {} })).is_err());
}

/// Another program has changed the value: the grant describes a former holder.
#[test]
fn a_grant_of_another_value_is_no_part_of_what_is_seen() {
    let seen = |value: &str| snapshot::read(&with(held("own", "own.1"), "value", value)).info;
    assert!(seen("own").grant_id.is_some() && seen("another").grant_id.is_none());
    let without = snapshot::read(&doc! { "name": "a", "grant": { "id": "own.1" } }).info;
    assert_eq!(without.grant_id, None);
    assert!(reply::token(&doc! { "operationTime": TOKEN }).is_ok());
}
