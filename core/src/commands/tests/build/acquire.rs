use std::sync::Arc;

use crate::bson::Bson;
use crate::rules::guesses::FastForm;
use crate::rules::permits::Permits;

use super::super::{JOINS, SENT, fast, joining, request, slow, take};
use super::assert_command;
use crate::commands::Command;
use crate::commands::acquire::{AcquireRequest, SlowAcquire};
use crate::commands::fast_acquire::{FastAcquire, FastAcquireMany, FastAdmit};

/// The same call for two permits of five.
fn for_permits() -> AcquireRequest {
    AcquireRequest { permits: Permits::new(2, 5).unwrap(), ..request() }
}

fn joining_for_permits() -> SlowAcquire {
    slow(AcquireRequest { joins: Some(JOINS), ..for_permits() })
}

#[test]
fn an_acquire_is_written_out() {
    let successor = SlowAcquire { predecessor: Some("$before".to_owned()), ..joining() };
    assert_command("SlowAcquire-exclusive", &successor);
    assert_command("SlowAcquire-permits", &joining_for_permits());
    let admit = FastAdmit { request: Arc::new(for_permits()), attempt_no: 3 };
    assert_command("FastAdmit", &admit);
}

#[test]
fn a_first_attempt_is_written_out() {
    assert_command("FastAcquire", &take());
    // A waiting call has no use for the length of the queue.
    let waiting = fast(AcquireRequest { joins: Some(JOINS), ..request() });
    assert_command("FastAcquire-waiting", &waiting);
    assert_command("FastAcquire-insert", &FastAcquire { form: FastForm::Insert, ..take() });
    let other = fast(AcquireRequest { name: "$other".to_owned(), ..request() });
    let many = FastAcquireMany { acquires: vec![take(), other, take()] };
    assert_command("FastAcquireMany", &many);
}

/// The attempts of one call differ only in the number within their grant ids.
#[test]
fn attempts_differ_in_the_id_of_their_grant_alone() {
    for call in [joining(), joining_for_permits()] {
        let built = |attempt_no| SlowAcquire { attempt_no, ..call.clone() }.build("locks", SENT);
        let [third, tenth] = [3, 10].map(|attempt| Bson::from(built(attempt)).to_string());
        assert!(third.contains("\"$call.3\"") && !third.contains("\"$call.10\""), "{third}");
        assert_eq!(third.replace("\"$call.3\"", "\"$call.10\""), tenth);
    }
}
