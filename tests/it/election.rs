//! `Election`: one leader, which stops before its lease ends.

mod observers;
mod stopping;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use mongo_lease::{
    Election, Error, Event, LeaseManager, LeaseManagerBuilder, LostReason, MemoryStore, Released,
    Result, Stop, Tuning,
};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::both::check;
use crate::common::{builder, setup};
use crate::keys::lost;
use crate::lent::lent_database;
use crate::patience::{Listener, pass, soon};

const TTL: Duration = Duration::from_secs(6);
const NAME: &str = "leader";

/// Runs an election, with work that goes on until it is told to stop. Returns when it leads.
async fn begin_term(election: &Election) -> JoinHandle<Result<Stop>> {
    let (started, mut starts) = mpsc::unbounded_channel();
    let election = election.clone();
    let term = tokio::spawn(async move {
        let run = election.run(async |leadership| {
            started.send(()).unwrap();
            leadership.until_stop().await
        });
        run.await
    });
    soon("the term", starts.recv()).await.unwrap();
    term
}

/// A node that is told when a third of its ttl is left.
async fn attentive(builder: LeaseManagerBuilder) -> Election {
    let leases = builder.max_clock_skew(Duration::ZERO).build().await.unwrap();
    Election::new(&leases, NAME).ttl(TTL).notice(TTL / 3)
}

#[tokio::test]
async fn of_five_one_leads_at_a_time_and_each_comes_to_lead() {
    let (database, _) = setup().await;
    let leading = Arc::new(AtomicUsize::new(0));
    let mut nodes = Vec::new();
    for _ in 0..5 {
        let leases = builder(&database).build().await.unwrap();
        let leading = Arc::clone(&leading);
        nodes.push(tokio::spawn(async move {
            let election = Election::new(&leases, NAME);
            let term = election.run(async |leadership| {
                assert_eq!(leading.fetch_add(1, Ordering::SeqCst), 0, "two leaders");
                leadership.lease().renew().await.unwrap();
                leading.fetch_sub(1, Ordering::SeqCst);
                leadership.lease().token().unwrap()
            });
            term.await.unwrap()
        }));
    }
    let tokens = soon("all have led", join_all(nodes)).await;
    let tokens: BTreeSet<_> = tokens.into_iter().map(|token| token.unwrap()).collect();
    assert_eq!(tokens.len(), 5);
}

/// Work that stops when it is told gives what it gives.
#[tokio::test]
async fn a_leader_that_cannot_renew_is_told_while_it_still_leads() {
    let (server, database) = lent_database().await;
    let election = attentive(builder(&database)).await;
    let (tell, mut told) = mpsc::unbounded_channel();
    let node = tokio::spawn(async move {
        let run = election.run(async |leadership| {
            tell.send((None, leadership.is_stopping(), TTL)).unwrap();
            let stop = leadership.until_stop().await;
            let left = leadership.lease().remaining();
            assert!(leadership.lease().is_valid(), "it was told too late");
            tell.send((Some(stop), leadership.is_stopping(), left)).unwrap();
            "what it gives"
        });
        run.await
    });
    assert_eq!(soon("the term", told.recv()).await, Some((None, false, TTL)));
    server.mongod().pause();
    let (stop, is_stopping, left) = soon("the word to stop", told.recv()).await.unwrap();
    assert_eq!((stop, is_stopping), (Some(Stop::NearEnd), true));
    assert!(left <= TTL / 3 && !left.is_zero(), "{left:?}");
    server.mongod().resume();
    assert_eq!(soon("the end", node).await.unwrap().unwrap(), "what it gives");
}

/// Also when it wakes before the loss: it was told, and that is not taken back.
#[tokio::test(start_paused = true)]
async fn unstopped_work_is_dropped_and_its_node_can_be_elected_again() {
    let store = MemoryStore::new();
    let election = attentive(LeaseManager::in_memory(&store)).await;
    let (tell, mut told) = mpsc::unbounded_channel();
    let working = Arc::new(());
    let work = Arc::clone(&working);
    let node = tokio::spawn(async move {
        let first = election.run(async |_| {
            let _at_work = Arc::clone(&work);
            tell.send(()).unwrap();
            std::future::pending::<()>().await;
        });
        let first = first.await;
        assert_eq!(Arc::strong_count(&work), 2, "the work goes on");
        tell.send(()).unwrap();
        (first, election.run(async |leadership| leadership.lease().is_valid()).await)
    });
    soon("the first term", told.recv()).await.unwrap();
    let (begin, hang) = (Instant::now(), store.hang());
    soon("its end", told.recv()).await.unwrap();
    let led = begin.elapsed();
    // It counts 1 % less, for clocks that drift.
    assert!(led >= TTL * 98 / 100 && led <= TTL, "{led:?}");
    drop(hang);
    let (first, second) = soon("the second term", node).await.unwrap();
    let reason = lost(first);
    assert!(matches!(reason, LostReason::OutOfReach { .. }), "no end as asked: {reason:?}");
    assert!(second.unwrap());
    drop(working);
}

#[tokio::test]
async fn a_leader_that_is_asked_steps_down_and_another_follows() {
    check(async |backend| {
        let (leases, others) = (backend.manager().await, backend.manager().await);
        let (first, second) = (Election::new(&leases, NAME), Election::new(&others, NAME));
        // Without a leader, `step_down` does nothing.
        first.step_down();
        let node = begin_term(&first).await;
        // A leader elsewhere is not affected.
        second.step_down();
        let follower = tokio::spawn(async move { second.campaign().await });
        first.step_down();
        assert_eq!(soon("the end", node).await.unwrap().unwrap(), Stop::Asked);
        let leadership = soon("the second leads", follower).await.unwrap().unwrap();
        assert_eq!(leadership.release().await.unwrap(), Released::Released);
        // It ended one term, and not all.
        assert_eq!(soon("the next term", first.run(async |_| 2)).await.unwrap(), 2);
        backend.until_nothing_is_left().await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn work_that_does_not_step_down_in_time_is_dropped() {
    const NOTICE: Duration = Duration::from_secs(2);
    const MOMENT: Duration = Duration::from_millis(10);
    let leases = LeaseManager::in_memory(&MemoryStore::new()).build().await.unwrap();
    let election = Election::new(&leases, NAME).notice(NOTICE);
    let work = async |takes| {
        let run = election.run(async |leadership| {
            election.step_down();
            assert!(leadership.is_stopping());
            pass(takes).await;
        });
        run.await
    };
    work(NOTICE - MOMENT).await.unwrap();
    assert_eq!(lost(work(NOTICE + MOMENT).await), LostReason::Released);
    assert!(leases.get(NAME).await.unwrap().is_none());
}

#[tokio::test]
async fn a_run_that_is_dropped_or_shut_down_ends_the_leadership() {
    check(async |backend| {
        let leases = backend.manager().await;
        let election = Election::new(&leases, NAME);
        begin_term(&election).await.abort();
        backend.until_nothing_is_left().await;
        let node = begin_term(&election).await;
        assert_eq!(leases.shutdown().await.released, 1);
        // The loss told the work to stop, and the work may have ended with that.
        match soon("the end", node).await.unwrap() {
            Ok(Stop::Lost(LostReason::Released)) => {}
            Err(Error::Lost { reason: LostReason::Released, .. }) => {}
            other => panic!("{other:?}"),
        }
        let again = election.run(async |_| ()).await;
        assert!(matches!(again, Err(Error::ShutDown)), "{again:?}");
    })
    .await;
}

/// A renewal comes after a third of the ttl. Work that stopped earlier than half of the ttl before the end would stop
/// while all is well.
#[tokio::test(start_paused = true)]
async fn the_notice_is_half_of_the_ttl_at_most() {
    let leases = LeaseManager::in_memory(&MemoryStore::new()).build().await.unwrap();
    let election = Election::new(&leases, NAME).ttl(3 * TTL).notice(6 * TTL);
    let leadership = election.campaign().await.unwrap();
    assert!(!leadership.is_stopping());
    let mut events = Listener::of(&leases);
    leadership.run(events.renewals(NAME, 3)).await.unwrap();
    assert!(!leadership.is_stopping());
}

/// A leadership that was handed off is short at first: as long as a queue entry lives, until its first renewal.
#[tokio::test]
async fn a_promoted_leader_does_not_stop_for_its_short_first_term() {
    const LIFE: Duration = Duration::from_secs(10);
    let (database, leases) = setup().await;
    let others =
        builder(&database).tuning(Tuning::default().waiter_ttl(LIFE)).build().await.unwrap();
    let first = Election::new(&leases, NAME).campaign().await.unwrap();
    let long = Duration::from_secs(36);
    let second = Election::new(&others, NAME).ttl(long).notice(long / 3);
    let mut events = Listener::of(&others);
    let waiting = tokio::spawn(async move { second.campaign().await });
    events.times(1, |event| matches!(event, Event::Queued { .. })).await;
    first.release().await.unwrap();
    let leadership = soon("the second leads", waiting).await.unwrap().unwrap();
    tokio::select! {
        stop = leadership.until_stop() => panic!("{stop:?}"),
        () = events.renewals(NAME, 1) => {}
    }
    assert!(!leadership.is_stopping());
}
