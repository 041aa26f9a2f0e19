//! Processes that come one after the other for the same lease, and the grant of each.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use mongo_lease::{Event, Lease, LeaseManager, Token};
use tokio::task::JoinSet;

use crate::patience::{BUSY_MACHINE, Listener, until};

/// The waiters for one lease.
pub(super) struct Crowd {
    name: String,
    /// For how long each of them waits.
    wait: Duration,
    turns: JoinSet<Turn>,
    size: usize,
    witness: Arc<Witness>,
}

/// The grant of one waiter.
#[derive(Clone, Debug)]
pub(super) struct Turn {
    /// Its number in the order of arrival.
    pub(super) number: usize,
    /// The token of its grant.
    pub(super) token: Token,
    /// How long it waited.
    pub(super) waited: Duration,
    /// When it was granted.
    pub(super) at: Instant,
}

/// The number of holders inside, as the guarded resource sees it.
#[derive(Default)]
pub(super) struct Witness {
    inside: AtomicUsize,
    two_at_once: AtomicUsize,
    served: AtomicUsize,
}

impl Witness {
    /// A holder's work: one query, which ends when the lease is lost.
    async fn visit(&self, leases: &LeaseManager, lease: &Lease) {
        if self.inside.fetch_add(1, Ordering::SeqCst) > 0 {
            self.two_at_once.fetch_add(1, Ordering::SeqCst);
        }
        let _lost_or_failed = lease.run(leases.get(lease.name())).await;
        self.inside.fetch_sub(1, Ordering::SeqCst);
        self.served.fetch_add(1, Ordering::SeqCst);
    }
}

impl Crowd {
    pub(super) fn new(name: &str, wait: Duration) -> Crowd {
        let (turns, witness) = (JoinSet::new(), Arc::default());
        Crowd { name: name.to_owned(), wait, turns, size: 0, witness }
    }

    /// Adds a waiter, which is in the queue when this returns, behind those before it.
    pub(super) async fn join(&mut self, leases: LeaseManager) {
        let mut events = Listener::of(&leases);
        self.add(leases);
        let ahead = queued(&mut events).await;
        assert_eq!(ahead, self.size - 1, "the place in line");
    }

    /// Adds a waiter, without waiting until it is in the queue.
    pub(super) fn add(&mut self, leases: LeaseManager) {
        let (name, wait, number) = (self.name.clone(), self.wait, self.size);
        let witness = Arc::clone(&self.witness);
        self.size += 1;
        self.turns.spawn(async move {
            let started = Instant::now();
            let granted = leases.acquire(name).wait(wait).await;
            let (at, waited) = (Instant::now(), started.elapsed());
            let lease = granted.unwrap_or_else(|error| panic!("{number}, {waited:?}: {error}"));
            assert!(waited < wait + BUSY_MACHINE, "{number} has waited for {waited:?}");
            let token = lease.token().unwrap();
            witness.visit(&leases, &lease).await;
            // A release that is not confirmed is tried again in the background.
            let _confirmed = lease.release().await;
            Turn { number, token, waited, at }
        });
    }

    /// Returns when that many of them have been served.
    pub(super) async fn served(&self, count: usize) {
        let enough = async || (self.witness.served.load(Ordering::SeqCst) >= count).then_some(());
        until("so many have been served", enough).await;
    }

    /// Returns when all of them have been served, one after the other, in the order of their grants.
    pub(super) async fn all_served(mut self) -> Vec<Turn> {
        let mut turns = Vec::new();
        while let Some(turn) = self.turns.join_next().await {
            turns.push(turn.expect("everybody is served"));
        }
        assert_eq!(turns.len(), self.size);
        assert_eq!(self.witness.two_at_once.load(Ordering::SeqCst), 0, "two at once");
        turns.sort_by_key(|turn| turn.at);
        turns
    }

    /// The same, where the queue survived: in the order in which they came, with tokens that rise.
    pub(super) async fn all_served_in_order(self, before: Token) -> Vec<Turn> {
        let turns = self.all_served().await;
        let order: Vec<_> = turns.iter().map(|turn| turn.number).collect();
        assert!(order.is_sorted(), "{order:?}");
        assert_tokens_rise(before, &turns);
        turns
    }
}

/// Asserts that the tokens rise, from this one on.
pub(super) fn assert_tokens_rise(before: Token, turns: &[Turn]) {
    let tokens: Vec<_> = turns.iter().map(|turn| turn.token).collect();
    assert!(before < tokens[0], "{before} {tokens:?}");
    assert!(tokens.is_sorted_by(|earlier, later| earlier < later), "{tokens:?}");
}

/// How many waiters are before the next one of this manager's that joins a queue.
pub(super) async fn queued(events: &mut Listener) -> usize {
    let ahead = |event: &Event| match event {
        Event::Queued { ahead, .. } => Some(*ahead),
        _ => None,
    };
    usize::try_from(events.find(ahead).await).unwrap()
}

/// The longest pause between two grants, and the number of the one after it.
pub(super) fn longest_pause(turns: &[Turn]) -> (Duration, usize) {
    let pauses = turns.windows(2).map(|pair| (pair[1].at - pair[0].at, pair[1].number));
    pauses.max().unwrap_or_default()
}
