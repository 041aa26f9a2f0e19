//! Traps of the rule, each as one sequence of effects. A mistake that the specification and a command have in common
//! shows in no comparison of both.

use std::sync::Arc;

use super::{AcquireAnswer, AcquireAttempt, AsBuilt, EndScope, QueueOptions, acquire, delete, end};
use crate::bson::Document;
use crate::rules::ids::{CallId, GrantId};
use crate::rules::permits::Permits;
use crate::texts::{Details, GrantMatch, LeaseDocument, Promoted, Texts};

fn id(value: &str, attempt_no: u32) -> GrantId {
    CallId::from(value).grant(attempt_no)
}

/// A lease, and what its commands do to it.
#[derive(Default)]
struct Lease {
    document: Option<LeaseDocument>,
    now: i64,
}

impl Lease {
    /// A slow attempt for one permit under this limit. Whether it was granted.
    fn grants(&mut self, value: &str, attempt_no: u32, limit: u32) -> bool {
        let attempt = AcquireAttempt::<Texts> {
            value: value.to_owned(),
            id: id(value, attempt_no),
            permits: Permits::new(1, limit).expect("valid permits"),
            ttl: 30,
            max_clock_skew: 0,
            sent: 0,
            joins: Some(QueueOptions { waiter_ttl: 10, max_waiting: 100 }),
            predecessor: None,
            details: Arc::new(Details { owner: String::new(), metadata: Document::new() }),
        };
        let (after, answer) = acquire(self.document.take(), &attempt, self.now, &AsBuilt);
        self.document = after;
        matches!(answer, AcquireAnswer::Granted(_))
    }

    /// Whether a delete would end the first grant of this value, and whether an end beside others would.
    fn would_end(&self, value: &str) -> (bool, bool) {
        let (value, grant) = (value.to_owned(), GrantMatch::Grant(id(value, 1)));
        let (found, scope) = (|| self.document.clone(), EndScope::BesideOthers);
        let (_, is_deleted) = delete(found(), &value, &grant, &AsBuilt);
        let (_, is_ended) = end(found(), &value, &grant, scope, self.now, &AsBuilt);
        (is_deleted, is_ended)
    }

    fn document(&self) -> &LeaseDocument {
        self.document.as_ref().expect("a document")
    }

    /// The holders in the list, and the waiters.
    fn shown(&self) -> [String; 2] {
        let holders = self.document().sharers().into_iter().map(|holder| holder.grant.value);
        let waiters = self.document().queue.entries().map(|entry| entry.value.as_str());
        [holders.collect(), waiters.collect()]
    }
}

#[test]
fn the_only_holder_alone_deletes_the_document() {
    let mut lease = Lease::default();
    assert!(lease.grants("a", 1, 3));
    assert_eq!(lease.would_end("a"), (true, false), "it is alone");
    assert_eq!(lease.would_end("b"), (false, false), "it holds nothing");
    assert!(lease.grants("b", 1, 3));
    assert_eq!(lease.would_end("a"), (false, true), "another holds as well");
    for limit in [1, 3] {
        let mut lease = Lease::default();
        assert!(lease.grants("a", 1, limit) && !lease.grants("w", 1, 1));
        assert_eq!(lease.would_end("a"), (false, true), "somebody waits");
        assert_eq!(lease.would_end("w"), (false, false), "it waits, and holds nothing");
    }
}

#[test]
fn an_exclusive_attempt_on_an_expired_lease_calls_the_first_waiter() {
    let mut lease = Lease::default();
    assert!(lease.grants("w", 1, 1));
    lease.now = 25;
    assert!(!lease.grants("v", 1, 1));
    lease.now = 30;
    assert!(!lease.grants("u", 1, 1));
    let LeaseDocument { value, promoted, .. } = lease.document();
    assert_eq!(value.as_deref(), Some("w"), "nobody knows whether the first waiter runs");
    assert_eq!(*promoted, Some(Promoted::Recheck { id: id("v", 1) }));
    assert_eq!(lease.shown(), ["", "vu"]);
    assert!(lease.grants("v", 2, 1), "it comes");
    assert_eq!(lease.document().holders_grant().map(|grant| grant.id.clone()), Some(id("v", 1)));
    assert_eq!(lease.shown(), ["", "u"]);
}

#[test]
fn an_attempt_for_permits_on_an_expired_lease_admits_all_who_fit() {
    let mut lease = Lease::default();
    assert!(lease.grants("w", 1, 1));
    lease.now = 25;
    assert!(!lease.grants("a", 1, 2) && !lease.grants("b", 1, 2));
    lease.now = 30;
    assert!(!lease.grants("c", 1, 2));
    assert_eq!(lease.shown(), ["ab", "c"]);
    assert_eq!(lease.document().admitted.len(), 2);
}
