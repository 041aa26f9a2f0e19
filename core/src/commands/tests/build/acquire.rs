use std::sync::Arc;

use crate::bson::Bson;
use crate::rules::guesses::FastForm;
use crate::rules::permits::Permits;

use super::super::{SENT, acquire, joining, request, take};
use super::assert_command;
use crate::commands::Command;
use crate::commands::acquire::{AcquireRequest, SlowAcquire};
use crate::commands::fast_acquire::{FastAcquire, FastAcquireMany, FastAdmit};

/// The same call for two permits of five.
fn for_permits(acquire: SlowAcquire) -> SlowAcquire {
    let permits = Permits::new(2, 5).unwrap();
    let request = AcquireRequest { permits, ..acquire.request.as_ref().clone() };
    SlowAcquire { request: Arc::new(request), ..acquire }
}

#[test]
fn an_acquire_of_an_exclusive_lease_is_written_out() {
    let acquire = SlowAcquire { predecessor: Some("$before".to_owned()), ..joining() };
    assert_command("SlowAcquire-exclusive", &acquire);
}

#[test]
fn an_acquire_of_permits_is_written_out() {
    assert_command("SlowAcquire-permits", &for_permits(joining()));
}

#[test]
fn a_fast_admission_is_written_out() {
    let request = for_permits(acquire()).request;
    assert_command("FastAdmit", &FastAdmit { request, attempt_no: 3 });
}

#[test]
fn a_first_attempt_is_written_out() {
    assert_command("FastAcquire", &take());
    // A waiting call has no use for the length of the queue.
    let waiting = FastAcquire { request: joining().request, ..take() };
    assert_command("FastAcquire-waiting", &waiting);
    assert_command("FastAcquire-insert", &FastAcquire { form: FastForm::Insert, ..take() });
}

#[test]
fn first_attempts_together_are_written_out() {
    let request = AcquireRequest { name: "$other".to_owned(), ..request() };
    let other = FastAcquire { request: Arc::new(request), ..take() };
    let many = FastAcquireMany { acquires: vec![take(), other, take()] };
    assert_command("FastAcquireMany", &many);
}

/// The attempts of one call differ only in the number within their grant ids.
#[test]
fn attempts_differ_in_the_id_of_their_grant_alone() {
    for call in [joining(), for_permits(joining())] {
        let built = |attempt_no| SlowAcquire { attempt_no, ..call.clone() }.build("locks", SENT);
        let [third, tenth] = [3, 10].map(|attempt| Bson::from(built(attempt)).to_string());
        assert!(third.contains("\"$call.3\"") && !third.contains("\"$call.10\""), "{third}");
        assert_eq!(third.replace("\"$call.3\"", "\"$call.10\""), tenth);
    }
}
