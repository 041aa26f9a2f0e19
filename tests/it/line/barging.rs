//! No newcomer is granted a lease before the waiters, and a queue has a maximum length.

use std::time::Duration;

use mongo_lease::{Error, LeaseManager, LeaseState, Tuning};
use mongo_lease_testbed::{Server, TestDatabase};

use super::{
    Held, NEVER, WAITER_TTL, all_granted, dropped, granted, in_line, manager, start_waiting,
    told_only, until_line_is,
};
use crate::common::{document, refused};
use crate::lent::{behind_a_proxy, lent_database};
use crate::patience::bounded;

/// The lease has expired, and the first waiter is slow to take it over.
#[tokio::test]
async fn nobody_takes_a_free_lease_for_which_others_wait() {
    let (server, database) = lent_database().await;
    let (proxy, through) = behind_a_proxy(&server, &database).await;
    let slow = told_only(&through, WAITER_TTL).build().await.unwrap();
    let second = manager(&server, &database).await;
    let other = manager(&server, &database).await;
    // Nobody renews or releases it.
    let ttl = Duration::from_secs(3);
    let _crashed = other.acquire("a").ttl(ttl).renew(false).await.unwrap();
    let first_in_line = in_line(&slow, slow.acquire("a").owner("first")).await;
    let late = proxy.hold_requests_to("findAndModify");
    let second_in_line = in_line(&second, second.acquire("a").owner("second")).await;
    bounded(late.held(1)).await;

    // Neither a newcomer, nor a manager with a waiter further back.
    for leases in [&other, &second] {
        let info = refused(leases, "a").await;
        assert_eq!((info.state, info.waiting), (LeaseState::Free, 2));
        let error = leases.acquire("a").wait(Duration::ZERO).await.unwrap_err();
        assert!(matches!(error, Error::Busy(_)), "{error}");
        until_line_is(&database, "a", &["first", "second"]).await;
    }
    // Nor a newcomer that waits: its attempt calls the first waiter, and it joins behind the others.
    let newcomer = in_line(&other, other.acquire("a").owner("newcomer")).await;
    until_line_is(&database, "a", &["first", "second", "newcomer"]).await;
    let document = document(&database, "a").await.unwrap();
    let head = document.get_array("queue").unwrap()[0].as_document().unwrap();
    let called = format!("{}@!", head.get_str("id").unwrap());
    let told = document.get_str("promoted").unwrap();
    assert!(told.starts_with(&called), "{told} calls another than {called}");
    // Its end in the queue admits the first waiter, as every end does.
    newcomer.abort();
    until_line_is(&database, "a", &["second"]).await;
    let third_in_line = in_line(&other, other.acquire("a").owner("third")).await;
    late.release();
    for waiting in [first_in_line, second_in_line, third_in_line] {
        let lease = granted(waiting).await;
        assert!(other.try_acquire("a").await.unwrap().granted().is_none());
        lease.release().await.unwrap();
    }
    assert!(other.try_acquire("a").await.unwrap().granted().is_some());
}

/// A manager that joins no queue of two processes.
async fn with_limit(database: &TestDatabase) -> LeaseManager {
    let through = database.through(&Server::shared().client().await);
    let tuning = Tuning::default().recheck_every(NEVER).max_waiting(2);
    told_only(&through, WAITER_TTL).tuning(tuning).build().await.unwrap()
}

#[tokio::test]
async fn a_full_queue_is_an_error_until_a_waiter_leaves() {
    let Held { database, lease, .. } = Held::new(WAITER_TTL).await;
    let (first, second) = (with_limit(&database).await, with_limit(&database).await);
    let third = with_limit(&database).await;
    let first_in_line = in_line(&first, first.acquire("a").owner("first")).await;
    let second_in_line = in_line(&second, second.acquire("a").owner("second")).await;
    let error = third.acquire("a").await.unwrap_err();
    let Error::QueueFull { name, waiting, .. } = error else { panic!("{error}") };
    assert_eq!((name.as_str(), waiting), ("a", 2));
    // Managers that are in the queue already can have more calls wait.
    let behind_second = start_waiting(second.acquire("a").owner("second"));
    dropped(first_in_line).await;
    until_line_is(&database, "a", &["second"]).await;
    let third_in_line = in_line(&third, third.acquire("a").owner("third")).await;
    lease.release().await.unwrap();
    all_granted([second_in_line, third_in_line, behind_second]).await;
}
