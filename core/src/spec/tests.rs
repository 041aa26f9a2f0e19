//! The traps of the rule, each as one sequence of effects. The agreement test has the same effects on a real server.

use super::{
    AcquireAnswer, AcquireAttempt, AsBuilt, Document, EndScope, Expiry, GrantMatch, Promoted,
    QueueOptions, Types, acquire, delete, end, renew_holders,
};
use crate::rules::permits::Permits;

/// Numbers as identities: a grant is its call and its attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Numbers;

impl Types for Numbers {
    type Value = char;
    type CallId = char;
    type GrantId = (char, u8);
    type Details = ();

    fn is_of_call(grant: &(char, u8), call: &char) -> bool {
        grant.0 == *call
    }

    fn nobody() -> char {
        '-'
    }

    fn shared() -> char {
        '*'
    }
}

const TTL: i64 = 30;

fn attempt(value: char, attempt_no: u8, permits: u32, limit: u32) -> AcquireAttempt<Numbers> {
    AcquireAttempt {
        value,
        id: (value, attempt_no),
        permits: Permits::new(permits, limit).expect("valid permits"),
        ttl: TTL,
        max_clock_skew: 0,
        sent: 0,
        joins: Some(QueueOptions { waiter_ttl: 10, max_waiting: 100 }),
        predecessor: None,
        details: (),
    }
}

/// A lease, and what its commands do to it.
#[derive(Default)]
struct Lease {
    document: Option<Document<Numbers>>,
    now: i64,
}

impl Lease {
    /// A full attempt. Whether it was granted.
    fn admit(&mut self, attempt: &AcquireAttempt<Numbers>) -> bool {
        let (after, reply) = acquire(self.document.take(), attempt, self.now, &AsBuilt);
        self.document = after;
        matches!(reply, AcquireAnswer::Granted(_))
    }

    /// A full attempt for the exclusive lease. Whether it was granted.
    fn acquire(&mut self, value: char, attempt_no: u8) -> bool {
        self.admit(&attempt(value, attempt_no, 1, 1))
    }

    /// Ends any grant of this value, or takes its entry out. Whether it matched.
    fn release(&mut self, value: char) -> bool {
        let (found, scope) = (self.document.take(), EndScope::HeldOrQueued);
        let (after, matched) = end(found, &value, &GrantMatch::Any, scope, self.now, &AsBuilt);
        self.document = after;
        matched
    }

    fn renew(&mut self, ids: &[(char, u8)]) -> bool {
        let grants: Vec<_> = ids.iter().map(|id| (*id, 30)).collect();
        let (after, matched) = renew_holders(self.document.take(), &grants, self.now, 0, &AsBuilt);
        self.document = after;
        matched
    }

    fn document(&self) -> &Document<Numbers> {
        self.document.as_ref().expect("a document")
    }

    /// The holders in the list, and the waiters.
    fn shown(&self) -> (String, String) {
        let holders =
            self.document().sharers().into_iter().map(|holder| holder.grant.value).collect();
        let waiters = self.document().queue.entries().map(|entry| entry.value).collect();
        (holders, waiters)
    }
}

fn is(shown: (String, String), holders: &str, waiters: &str) -> bool {
    shown == (holders.to_owned(), waiters.to_owned())
}

#[test]
fn grants_of_one_lease_are_renewed_only_together() {
    let mut lease = Lease::default();
    assert!(lease.admit(&attempt('a', 1, 1, 3)) && lease.admit(&attempt('b', 1, 1, 3)));
    lease.now = 5;
    assert!(lease.renew(&[('a', 1), ('b', 1)]));
    assert!(lease.release('b'));
    lease.now = 6;
    assert!(!lease.renew(&[('a', 1), ('b', 1)]), "one of them has gone");
    assert_eq!(lease.document().expiry, Expiry::At(35), "and nothing is prolonged");
    assert!(lease.renew(&[('a', 1)]));
    assert_eq!(lease.document().expiry, Expiry::At(36));
}

#[test]
fn the_only_holder_alone_deletes_the_document() {
    let mut lease = Lease::default();
    let deleted = |lease: &Lease, value| {
        let grant = GrantMatch::Grant((value, 1));
        delete(lease.document.clone(), &value, &grant, &AsBuilt)
    };
    assert!(lease.admit(&attempt('a', 1, 1, 3)) && lease.admit(&attempt('b', 1, 1, 3)));
    assert!(!deleted(&lease, 'a').1, "another holds as well");
    assert!(lease.release('b'));
    assert!(!deleted(&lease, 'b').1);
    assert_eq!(deleted(&lease, 'a'), (None, true));
    assert!(!lease.acquire('w', 1));
    assert!(!deleted(&lease, 'a').1, "somebody waits");
}

#[test]
fn a_release_beside_others_leaves_a_holder_alone_to_the_delete() {
    let mut lease = Lease::default();
    let ended = |lease: &Lease, value: char| {
        let grant = GrantMatch::Grant((value, 1));
        end(lease.document.clone(), &value, &grant, EndScope::BesideOthers, 0, &AsBuilt)
    };
    assert!(lease.acquire('w', 1));
    assert!(!ended(&lease, 'w').1, "a delete is for it");
    assert!(!lease.acquire('v', 1));
    assert!(!ended(&lease, 'v').1, "it waits, and holds nothing");
    let (after, matched) = ended(&lease, 'w');
    assert!(matched);
    assert_eq!(after.and_then(|document| document.value), Some('v'));
}

#[test]
fn the_end_of_a_writer_admits_all_readers_at_once() {
    let mut lease = Lease::default();
    assert!(lease.acquire('w', 1));
    let readers = ['a', 'b'].map(|value| attempt(value, 1, 1, 1_000));
    assert!(readers.iter().all(|reader| !lease.admit(reader)));
    assert!(lease.release('w'));
    assert!(is(lease.shown(), "ab", ""), "both in one write");
    assert_eq!(lease.document().admitted.len(), 2);
}

#[test]
fn calls_of_one_value_find_no_grant_under_another_kind_of_limit() {
    let mut lease = Lease::default();
    assert!(lease.acquire('w', 1));
    let reader = AcquireAttempt { joins: None, ..attempt('w', 2, 1, 1_000) };
    assert!(!lease.admit(&reader), "the exclusive holder relies on its lease");
    assert!(lease.release('w') && lease.admit(&reader));
    assert!(!lease.acquire('w', 3), "a reader's grant is no exclusive lease");
    assert!(is(lease.shown(), "w", "w"));
}

#[test]
fn an_exclusive_attempt_on_an_expired_lease_calls_the_first_waiter() {
    let mut lease = Lease::default();
    assert!(lease.acquire('w', 1));
    lease.now = 25;
    assert!(!lease.acquire('v', 1));
    lease.now = 30;
    assert!(!lease.acquire('u', 1));
    assert_eq!(lease.document().value, Some('w'), "nobody knows whether the first waiter runs");
    assert_eq!(lease.document().promoted, Some(Promoted::Recheck { id: ('v', 1) }));
    assert!(is(lease.shown(), "", "vu"));
    assert!(lease.acquire('v', 2), "it comes");
    assert_eq!(lease.document().holders_grant().map(|grant| grant.id), Some(('v', 1)));
    assert!(is(lease.shown(), "", "u"));
}

#[test]
fn an_attempt_for_permits_on_an_expired_lease_admits_all_who_fit() {
    let mut lease = Lease::default();
    assert!(lease.acquire('w', 1));
    lease.now = 25;
    assert!(!lease.admit(&attempt('a', 1, 1, 2)) && !lease.admit(&attempt('b', 1, 1, 2)));
    lease.now = 30;
    assert!(!lease.admit(&attempt('c', 1, 1, 2)));
    assert!(is(lease.shown(), "ab", "c"));
    assert_eq!(lease.document().admitted.len(), 2);
}
