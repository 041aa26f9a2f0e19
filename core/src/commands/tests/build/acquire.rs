use crate::rules::guesses::FastForm;
use crate::rules::permits::Permits;

use super::super::{JOINS, fast, request, slow, take};
use super::assert_command;
use crate::commands::acquire::{AcquireRequest, SlowAcquire};
use crate::commands::fast_acquire::{FastAcquire, FastAcquireMany, FastAdmit};

#[test]
fn an_acquire_is_written_out() {
    let joining = |permits| slow(AcquireRequest { permits, joins: Some(JOINS), ..request() });
    let predecessor = Some("$before".to_owned());
    let successor = SlowAcquire { predecessor, ..joining(Permits::EXCLUSIVE) };
    assert_command("SlowAcquire-exclusive", &successor);
    let permits = Permits::new(2, 5).unwrap();
    assert_command("SlowAcquire-permits", &joining(permits));
    let request = AcquireRequest { permits, ..request() }.into();
    let admit = FastAdmit { request, attempt_no: 3 };
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
