//! The traps of permits, each as one sequence of effects. The agreement test has the same effects on a real server.

use super::super::acquire::{AcquireReply, acquire};
use super::super::document::{Document, Expiry, GrantKey, Promoted};
use super::super::fast_acquire::{FastReply, fast_acquire};
use super::super::protections::AsBuilt;
use super::super::release::{GrantMatch, HandOffTo, LONG_AGO, hand_off, is_left_to_admit};
use super::super::request::{AcquireRequest, QueueOptions};
use super::super::types::Types;
use super::{
    AdmitRequest, HolderElement, Holders, ReleaseScope, Share, admit, delete_last_holder,
    fast_admit, release_and_admit, release_permit, renew_permits,
};

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
const READER: Share = Share { permits: 1, limit: 1_000 };

fn acquire_request(value: char, attempt: u8) -> AcquireRequest<Numbers> {
    AcquireRequest {
        value,
        id: (value, attempt),
        ttl: TTL,
        max_clock_skew: 0,
        sent: 0,
        joins: Some(QueueOptions { life: 10, queue_max: 100 }),
        predecessor: None,
        details: (),
    }
}

fn request(value: char, attempt: u8, permits: i64, limit: i64) -> AdmitRequest<Numbers> {
    let acquire = acquire_request(value, attempt);
    AdmitRequest { acquire, call: value, share: Share { permits, limit } }
}

/// A lease, and what its commands do to it.
#[derive(Default)]
struct Lease {
    document: Option<Document<Numbers>>,
    now: i64,
}

impl Lease {
    /// A full attempt for permits. Whether it was granted.
    fn admit(&mut self, request: &AdmitRequest<Numbers>) -> bool {
        let (after, reply) = admit(self.document.take(), request, self.now, &AsBuilt);
        self.document = after;
        matches!(reply, AcquireReply::Granted(_))
    }

    fn fast_admit(&mut self, request: &AdmitRequest<Numbers>) -> FastReply {
        let (after, reply) = fast_admit(self.document.take(), request, self.now, &AsBuilt);
        self.document = after;
        reply
    }

    /// A full attempt for the exclusive lease. Whether it was granted.
    fn acquire(&mut self, value: char, attempt: u8) -> bool {
        let request = acquire_request(value, attempt);
        let (after, reply) = acquire(self.document.take(), &request, self.now, &AsBuilt);
        self.document = after;
        matches!(reply, AcquireReply::Granted(_))
    }

    /// The general release, of any grant of this value or of its entry. Whether it matched.
    fn release(&mut self, value: char) -> bool {
        let (found, scope) = (self.document.take(), ReleaseScope::GrantOrEntry);
        let (after, matched) =
            release_and_admit(found, &value, &GrantMatch::Any, scope, self.now, &AsBuilt);
        self.document = after;
        matched
    }

    fn renew(&mut self, ids: &[(char, u8)]) -> bool {
        let grants: Vec<_> = ids.iter().map(|id| (*id, 30)).collect();
        let (after, matched) = renew_permits(self.document.take(), &grants, self.now, 0, &AsBuilt);
        self.document = after;
        matched
    }

    fn document(&self) -> &Document<Numbers> {
        self.document.as_ref().expect("a document")
    }

    /// The holders in shared use, and the waiters.
    fn shown(&self) -> (String, String) {
        let holders = self.document().sharers().into_iter().map(|holder| holder.value).collect();
        let waiters = self.document().queue.entries().map(|entry| entry.value).collect();
        (holders, waiters)
    }
}

fn is(shown: (String, String), holders: &str, waiters: &str) -> bool {
    shown == (holders.to_owned(), waiters.to_owned())
}

#[test]
fn a_late_fast_attempt_is_not_admitted_twice() {
    let mut lease = Lease::default();
    assert!(lease.admit(&request('a', 2, 1, 3)));
    assert_eq!(lease.fast_admit(&request('a', 1, 1, 3)), FastReply::UseFullForm);
    assert!(is(lease.shown(), "a", ""));
    assert_eq!(lease.fast_admit(&request('b', 1, 1, 3)), FastReply::Granted);
    assert!(is(lease.shown(), "ab", ""));
}

#[test]
fn a_repeated_attempt_finds_its_own_grant() {
    let mut lease = Lease::default();
    assert!(lease.admit(&request('a', 1, 2, 3)));
    lease.now = 5;
    assert!(lease.admit(&request('a', 2, 2, 3)));
    let [holder] = lease.document().sharers().try_into().expect("one holder");
    assert_eq!((holder.id, holder.expires_at, holder.writes), (('a', 1), 35, 2));
}

#[test]
fn giving_up_admits_those_for_whom_it_makes_room() {
    let mut lease = Lease::default();
    assert!(lease.admit(&request('a', 1, 2, 3)));
    assert!(!lease.admit(&request('b', 1, 3, 3)));
    assert!(!lease.admit(&request('c', 1, 1, 3)), "one fits, and waits behind three");
    assert!(lease.release('b'));
    assert!(is(lease.shown(), "ac", ""));
    let admitted: Vec<_> = lease.document().admitted.iter().map(|it| it.id).collect();
    assert_eq!(admitted, [('c', 1)]);
}

#[test]
fn grants_of_one_lease_are_renewed_only_together() {
    let mut lease = Lease::default();
    assert!(lease.admit(&request('a', 1, 1, 3)) && lease.admit(&request('b', 1, 1, 3)));
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
fn the_document_expires_with_its_last_holder() {
    let mut lease = Lease::default();
    let long = AcquireRequest { ttl: 100, ..acquire_request('a', 1) };
    assert!(lease.admit(&AdmitRequest { acquire: long, ..request('x', 0, 1, 1_000) }));
    assert!(lease.admit(&request('b', 1, 1, 1_000)));
    assert_eq!(lease.document().expiry, Expiry::At(100));
    assert!(lease.release('a'));
    assert_eq!(lease.document().expiry, Expiry::At(30));
    lease.now = 10;
    let key = GrantKey { value: 'b', id: ('b', 1) };
    let (after, matched) = release_permit(lease.document.take(), &key);
    let after = after.expect("a document");
    assert!(matched && after.sharers().is_empty());
    assert_eq!((after.value, after.expiry), (Some('-'), Expiry::At(LONG_AGO)));
}

#[test]
fn a_release_tells_the_first_waiter_of_an_earlier_end() {
    let mut lease = Lease::default();
    let long = AcquireRequest { ttl: 100, ..acquire_request('a', 1) };
    assert!(lease.admit(&AdmitRequest { acquire: long, ..request('x', 0, 1, 1_000) }));
    assert!(['b', 'c'].iter().all(|value| lease.admit(&request(*value, 1, 1, 1_000))));
    assert!(!lease.acquire('w', 1) && !lease.acquire('v', 1));
    assert!(lease.release('c'));
    assert_eq!(lease.document().promoted, None, "the lease ends when it did");
    assert!(lease.release('a'));
    assert!(is(lease.shown(), "b", "wv"));
    assert_eq!(lease.document().expiry, Expiry::At(30));
    assert_eq!(lease.document().promoted, Some(Promoted::Recheck { id: ('w', 1) }));
}

#[test]
fn a_holder_with_a_damaged_time_is_prolonged_for_the_time_of_the_renewal() {
    let mut lease = Lease::default();
    assert!(lease.admit(&request('a', 1, 1, 3)));
    let document = lease.document.as_mut().expect("a document");
    let [HolderElement::Holder(holder)] = document.holders.elements_mut() else {
        panic!("one holder");
    };
    holder.ttl = i64::MAX;
    lease.now = 5;
    assert!(lease.renew(&[('a', 1)]));
    assert_eq!(lease.document().expiry, Expiry::At(35));
}

#[test]
fn the_last_holder_alone_deletes_the_document() {
    let mut lease = Lease::default();
    let key = |value| GrantKey { value, id: (value, 1) };
    assert!(lease.admit(&request('a', 1, 1, 3)) && lease.admit(&request('b', 1, 1, 3)));
    assert!(!delete_last_holder(lease.document.clone(), &key('a')).1, "another holds as well");
    assert!(lease.release('b'));
    assert!(!delete_last_holder(lease.document.clone(), &key('b')).1);
    assert_eq!(delete_last_holder(lease.document.clone(), &key('a')), (None, true));
    assert!(!lease.acquire('w', 1));
    assert!(!delete_last_holder(lease.document.clone(), &key('a')).1, "somebody waits");
}

#[test]
fn an_exclusive_hand_off_leaves_waiters_for_shares() {
    let mut lease = Lease::default();
    assert!(lease.acquire('w', 1));
    let readers = ['a', 'b'].map(|value| request(value, 1, 1, 1_000));
    assert!(readers.iter().all(|reader| !lease.admit(reader)));
    for to in [HandOffTo::LiveWaiterOrNobody, HandOffTo::AfterLeavingQueue] {
        let found = lease.document.clone();
        assert!(is_left_to_admit(found.as_ref(), &'w', &GrantMatch::Any, to, 0));
        assert!(!hand_off(found, &'w', &GrantMatch::Any, to, 0, &AsBuilt).1);
    }
    assert!(lease.release('w'));
    assert!(is(lease.shown(), "ab", ""), "both in one write");
    assert_eq!(lease.document().admitted.len(), 2);
}

#[test]
fn a_writer_is_passed_by_no_later_reader() {
    let mut lease = Lease::default();
    assert!(lease.admit(&request('a', 1, 1, 1_000)));
    assert!(!lease.acquire('w', 1));
    assert_eq!(lease.fast_admit(&request('b', 1, 1, 1_000)), FastReply::UseFullForm);
    assert!(!lease.admit(&request('b', 1, 1, 1_000)));
    assert!(is(lease.shown(), "a", "wb"));
    assert!(lease.release('a'));
    assert_eq!(lease.document().value, Some('w'), "in the form of exclusive leases");
    assert_eq!(lease.document().holders, Holders::Absent);
    assert!(is(lease.shown(), "", "b"));
}

#[test]
fn a_reader_shares_what_an_older_version_handed_to_it() {
    let mut lease = Lease::default();
    assert!(lease.acquire('w', 1));
    let readers = ['a', 'b'].map(|value| request(value, 1, 1, 1_000));
    assert!(readers.iter().all(|reader| !lease.admit(reader)));
    // An older version knows nothing of shares, and makes an exclusive holder of the first waiter.
    let mut document = lease.document.take().expect("a document");
    let shares: Vec<_> = document.queue.entries().map(|entry| entry.share).collect();
    assert_eq!(shares, [Some(READER); 2]);
    let head = document.queue.entries().next().cloned().expect("a waiter");
    let rest = document.queue.without(&head.value);
    let entries = rest.entries().cloned().collect();
    document = super::super::release::promoted(document, head, entries, 0, &AsBuilt);
    lease.document = Some(document);
    assert_eq!(lease.document().value, Some('a'));
    assert!(lease.admit(&request('a', 2, 1, 1_000)));
    assert!(is(lease.shown(), "ba", ""), "behind the next in the queue");
}

#[test]
fn stale_holders_are_never_revived() {
    let mut lease = Lease::default();
    assert!(lease.admit(&request('a', 1, 1, 3)));
    lease.now = 30;
    let (after, reply) =
        fast_acquire(lease.document.take(), &acquire_request('w', 1), lease.now, &AsBuilt);
    lease.document = after;
    assert_eq!(reply, FastReply::Granted, "all holders have expired");
    assert!(!lease.renew(&[('a', 1)]));
    assert!(!lease.release('a'));
    assert_eq!(lease.document().value, Some('w'));
    lease.now = 60;
    assert!(lease.admit(&request('b', 1, 1, 3)));
    assert!(is(lease.shown(), "b", ""));
}
