//! Processes that come one after the other for the same lease, and the grant of each.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use mongo_lease::{Lease, LeaseManager, LeaseManagerBuilder, Token};
use tokio::task::JoinSet;

use crate::line::queued;
use crate::patience::{Listener, MUCH_PATIENCE, until};

/// The waiters for the lease `a`.
#[derive(Default)]
pub(super) struct Crowd {
    turns: JoinSet<Turn>,
    witness: Arc<Witness>,
}

/// The grant of one waiter.
#[derive(Clone, Debug)]
pub(super) struct Turn {
    /// Its number in the order of arrival.
    number: usize,
    pub(super) token: Token,
    at: Instant,
}

/// The number of holders inside, as the guarded resource sees it.
#[derive(Default)]
struct Witness {
    inside: AtomicUsize,
    served: AtomicUsize,
}

impl Witness {
    /// A holder's work: one query, which ends when the lease is lost.
    async fn visit(&self, leases: &LeaseManager, lease: &Lease) {
        assert_eq!(self.inside.fetch_add(1, Ordering::SeqCst), 0, "two at once");
        let _lost_or_failed = lease.run(leases.get(lease.name())).await;
        self.inside.fetch_sub(1, Ordering::SeqCst);
        self.served.fetch_add(1, Ordering::SeqCst);
    }
}

impl Crowd {
    /// So many waiters in the queue, each with a manager of its own.
    pub(super) async fn of(waiters: usize, options: &LeaseManagerBuilder) -> Crowd {
        let mut crowd = Crowd::default();
        for _ in 0..waiters {
            crowd.join(options.clone().build().await.unwrap()).await;
        }
        crowd
    }

    /// Adds a waiter, which is in the queue when this returns, behind those before it.
    pub(super) async fn join(&mut self, leases: LeaseManager) {
        let mut events = Listener::of(&leases);
        let (witness, number) = (Arc::clone(&self.witness), self.turns.len());
        self.turns.spawn(async move {
            let started = Instant::now();
            // Its lease lasts longer than the others wait, so nobody is served because a lease has expired.
            let granted = leases.acquire("a").ttl(2 * MUCH_PATIENCE).wait(MUCH_PATIENCE).await;
            let at = Instant::now();
            let waited = at - started;
            let lease = granted.unwrap_or_else(|error| panic!("{number}, {waited:?}: {error}"));
            let token = lease.token().unwrap();
            witness.visit(&leases, &lease).await;
            // A release that is not confirmed is tried again in the background.
            let _confirmed = lease.release().await;
            Turn { number, token, at }
        });
        assert_eq!(queued(&mut events).await as usize, number, "the place in line");
    }

    /// Returns when that many of them have been served.
    pub(super) async fn served(&self, count: usize) {
        let enough = async || (self.witness.served.load(Ordering::SeqCst) >= count).then_some(());
        until("so many have been served", enough).await;
    }

    /// Returns when all of them have been served, one after the other, with tokens that rise from this one on: in the
    /// order of their grants.
    pub(super) async fn all_served(mut self, before: Token) -> Vec<Turn> {
        let mut turns = Vec::new();
        while let Some(turn) = self.turns.join_next().await {
            turns.push(turn.expect("everybody is served"));
        }
        turns.sort_by_key(|turn| turn.at);
        let tokens: Vec<_> = turns.iter().map(|turn| turn.token).collect();
        assert!(before < tokens[0], "{before} {tokens:?}");
        assert!(tokens.is_sorted_by(|earlier, later| earlier < later), "{tokens:?}");
        turns
    }

    /// The same, where the queue survived: in the order in which they came.
    pub(super) async fn all_served_in_order(self, before: Token) -> Vec<Turn> {
        let turns = self.all_served(before).await;
        let order: Vec<_> = turns.iter().map(|turn| turn.number).collect();
        assert!(order.is_sorted(), "{order:?}");
        turns
    }
}
