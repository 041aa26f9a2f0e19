//! Calls whose futures are left unpolled do not block the other calls of their manager.

use std::future::IntoFuture;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use mongo_lease::{Acquire, Error, LeaseManager};

use super::{NEVER, in_line, told_only};
use crate::common::setup;
use crate::lent::lent_database;
use crate::patience::{PATIENCE, bounded, until, until_nothing_is_left};

type Call = <Acquire as IntoFuture>::IntoFuture;

/// Polls a call once, and leaves it.
fn polled_once(acquire: Acquire) -> Call {
    let mut call = acquire.into_future();
    let polled = call.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    assert!(matches!(polled, Poll::Pending), "it was too quick");
    call
}

/// Returns when this many hold the lease, as the server says.
async fn until_held_by(leases: &LeaseManager, holders: u32) {
    let held = async || {
        let info = leases.get("a").await.unwrap();
        info.is_some_and(|info| info.in_use == Some(holders)).then_some(())
    };
    until("the server has granted it", held).await;
}

/// No expiry helps: the ttl is longer than the wait.
#[tokio::test]
async fn a_grant_of_a_call_that_is_not_polled_goes_to_the_next_call() {
    let (database, leases) = setup().await;
    let acquire = || leases.acquire("a").ttl(NEVER).wait(PATIENCE);
    let mut left = polled_once(acquire());
    until_held_by(&leases, 1).await;
    let second = acquire().await.expect("the first call is not polled");
    // The first one is polled again while the second one holds the lease.
    let again = left.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    assert!(again.is_pending(), "the lease is held");
    let token = second.token().unwrap();
    second.release().await.unwrap();
    let first = bounded(left).await.unwrap();
    assert!(first.token().unwrap() > token);
    first.release().await.unwrap();
    until_nothing_is_left(&database).await;
}

#[tokio::test]
async fn permits_of_calls_that_are_not_polled_go_to_the_next_call() {
    let (database, leases) = setup().await;
    let acquire = || leases.semaphore("a", 4).acquire().ttl(NEVER).wait(PATIENCE);
    let left: Vec<_> = (0..4).map(|_| polled_once(acquire())).collect();
    until_held_by(&leases, 4).await;
    let fifth = acquire().await.expect("four calls are not polled");
    assert!(fifth.is_valid());
    drop(left);
    fifth.release().await.unwrap();
    until_nothing_is_left(&database).await;
}

/// The negative control: a call keeps its turn while it waits for a lease that another manager holds.
#[tokio::test]
async fn a_call_that_is_polled_keeps_its_turn() {
    let (_server, database) = lent_database().await;
    let [holder, leases] =
        [told_only(&database).build().await.unwrap(), told_only(&database).build().await.unwrap()];
    let lease = holder.acquire("a").await.unwrap();
    let first = in_line(&leases, leases.acquire("a")).await;
    let second = leases.acquire("a").wait(Duration::from_secs(4)).await;
    let waited_for_turn = matches!(second, Err(Error::WaitTimeout { waited_for_turn: true, .. }));
    assert!(waited_for_turn, "{second:?}");
    lease.release().await.unwrap();
    let first = bounded(first).await.unwrap().unwrap();
    assert!(first.is_valid());
}
