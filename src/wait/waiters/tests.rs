//! Which promotions a change stream may have missed.

use mongo_lease_core::rules::Instant;

use super::Stream;
use crate::token::Token;

/// A time of the oplog.
fn token(number: u64) -> Option<Token> {
    Some(Token::from_u64(number))
}

fn at(micros: u64) -> Instant {
    Instant::from_micros(micros)
}

#[test]
fn a_stream_may_have_missed_whoever_joined_before_its_start() {
    let open = |since| Stream::Open { since, opened: at(10) };
    let wanted = |since| Stream::Wanted { since };
    // The stream, when the attempt was sent, when it joined, and whether its promotion may have been missed.
    let table = [
        (wanted(token(5)), 9, token(4), true),
        (wanted(token(5)), 9, token(5), false),
        (wanted(token(5)), 9, token(6), false),
        (wanted(token(5)), 9, None, true),
        (open(token(5)), 9, token(4), true),
        (open(token(5)), 9, token(5), false),
        (open(token(5)), 9, token(6), false),
        (open(token(5)), 9, None, true),
        // It was sent after the stream had opened.
        (open(token(5)), 10, token(4), false),
        (open(token(5)), 11, token(4), false),
        // A stream with an unknown start shows for certain only what comes after it has opened.
        (open(None), 9, token(6), true),
        (open(None), 9, None, true),
        (open(None), 10, token(6), false),
        (open(None), 11, None, false),
    ];
    for (stream, sent, joined, wanted) in table {
        let case = format!("{stream:?}, sent at {sent}, joined at {joined:?}");
        assert_eq!(stream.may_have_missed(at(sent), joined), wanted, "{case}");
    }
}

/// No waiter relies on these.
#[test]
fn a_stream_that_reports_nothing_has_missed_nothing() {
    for stream in [Stream::Closed, Stream::Absent, Stream::Wanted { since: None }] {
        for joined in [None, token(1), token(9)] {
            assert!(!stream.may_have_missed(at(9), joined), "{stream:?} {joined:?}");
        }
    }
}
