use std::time::Duration;

use mongo_lease_core::rules::commits::{COMMIT_TIMEOUT, Commit, CommitAction, CommitAnswer};
use mongo_lease_core::rules::outcome::{MAYBE_APPLIED, REFUSED};

use super::{SECOND, at};

use CommitAction::{Committed, GiveUp, NotCommitted, Repeat};

const UNKNOWN: CommitAnswer = CommitAnswer::Unknown { may_repeat: true };

/// The last action after these answers, each a second after the one before.
fn after(answers: &[CommitAnswer]) -> CommitAction {
    let mut commit = Commit::sent(at(0));
    let mut next = GiveUp;
    for (&answer, second) in answers.iter().zip(1..) {
        next = commit.on(at(second), answer, SECOND);
    }
    next
}

#[test]
fn a_commit_is_repeated_until_it_is_known() {
    let last = CommitAnswer::Unknown { may_repeat: false };
    let (done, aborted, refused) =
        (CommitAnswer::Committed, CommitAnswer::Aborted, CommitAnswer::Refused);
    let table: [(&[CommitAnswer], _); 9] = [
        (&[done], Committed),
        (&[aborted], NotCommitted),
        (&[refused], NotCommitted),
        (&[UNKNOWN], Repeat(SECOND)),
        (&[last], GiveUp),
        (&[UNKNOWN, done], Committed),
        (&[UNKNOWN, aborted], NotCommitted),
        // The first one may have been carried out.
        (&[UNKNOWN, refused], GiveUp),
        (&[UNKNOWN, last], GiveUp),
    ];
    for (answers, wanted) in table {
        assert_eq!(after(answers), wanted, "{answers:?}");
    }
}

#[test]
fn nothing_is_repeated_at_or_after_the_bound() {
    let mut commit = Commit::sent(at(5));
    assert_eq!(commit.deadline(), at(5).after(COMMIT_TIMEOUT));
    let late = commit.deadline().before(SECOND);
    assert_eq!(commit.on(late.before(Duration::from_nanos(1)), UNKNOWN, SECOND), Repeat(SECOND));
    assert_eq!(commit.on(late, UNKNOWN, SECOND), GiveUp);
}

#[test]
fn labels_come_before_codes() {
    let (unknown, transient) = ("UnknownTransactionCommitResult", "TransientTransactionError");
    let may_repeat = |may_repeat| CommitAnswer::Unknown { may_repeat };
    let table: [(&[&str], _, _, _); 7] = [
        (&[unknown], None, REFUSED, may_repeat(true)),
        (&[unknown], Some(64), MAYBE_APPLIED, may_repeat(true)),
        // The server has used its time up.
        (&[unknown], Some(50), MAYBE_APPLIED, may_repeat(false)),
        (&[unknown, transient], None, REFUSED, may_repeat(true)),
        (&[transient], Some(251), MAYBE_APPLIED, CommitAnswer::Aborted),
        (&[], Some(13), REFUSED, CommitAnswer::Refused),
        (&[], None, MAYBE_APPLIED, may_repeat(false)),
    ];
    for (labels, code, outcome, wanted) in table {
        let answer = CommitAnswer::of_error(|label| labels.contains(&label), code, outcome);
        assert_eq!(answer, wanted, "{labels:?}, {code:?}");
    }
}
