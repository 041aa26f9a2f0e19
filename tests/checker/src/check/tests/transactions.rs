//! Transactions under a lease.

use super::*;

/// The call's only transaction, in the oplog at this time.
fn committed(story: &mut Story, millis: u64, call: &str) {
    let (transaction, name, token) = (format!("{call}:1"), "n".to_owned(), millis);
    let call = call.to_owned();
    story.note(millis, "oplog", What::Committed { call, name, transaction, token });
}

fn told_of(story: &mut Story, millis: u64, call: &str, end: TransactionEnd) {
    let (transaction, text) = (format!("{call}:1"), String::new());
    let by = worker(call).to_owned();
    story.note(millis, &by, What::Transacted { call: call.to_owned(), transaction, end, text });
}

#[test]
fn a_transaction_may_commit_while_its_lease_is_held() {
    let mut good = Story::new();
    good.grant(100, "a/1");
    committed(&mut good, 200, "a/1");
    told_of(&mut good, 210, "a/1", TransactionEnd::Committed);
    good.release(300, "a/1");
    assert_eq!(good.found(), []);
}

#[test]
fn a_transaction_without_its_lease_is_found() {
    let mut gone = Story::new();
    gone.grant(100, "a/1").release(300, "a/1");
    committed(&mut gone, 400, "a/1");
    assert_eq!(gone.found(), [Invariant::Transactions]);

    let mut taken = Story::new();
    taken.grant(100, "a/1").release(300, "a/1").grant(400, "b/1");
    committed(&mut taken, 500, "a/1");
    taken.release(600, "b/1");
    assert_eq!(taken.found(), [Invariant::Transactions]);
}

#[test]
fn a_wrong_end_is_found() {
    for (end, is_committed, is_wrong) in [
        (TransactionEnd::Committed, false, true),
        (TransactionEnd::NotCommitted, true, true),
        (TransactionEnd::NotCommitted, false, false),
        (TransactionEnd::Unknown, true, false),
        (TransactionEnd::Unknown, false, false),
    ] {
        let mut story = Story::new();
        story.grant(100, "a/1");
        if is_committed {
            committed(&mut story, 200, "a/1");
        }
        told_of(&mut story, 210, "a/1", end);
        story.release(300, "a/1");
        let wanted = if is_wrong { vec![Invariant::Transactions] } else { vec![] };
        assert_eq!(story.found(), wanted, "{end:?}, {is_committed}");
    }
}
