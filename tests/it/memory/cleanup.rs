//! News before clean-up: what a caller is told, and when, while releases and commands go on behind.

use std::time::Duration;

use futures_util::FutureExt;
use mongo_lease::{CommandKind, Error, Event, MemoryFault, MemoryStore};
use tokio::time::Instant;

use super::manager;
use crate::patience::{Listener, pass, until};

const MINUTE: Duration = Duration::from_secs(60);

fn is_released(event: &Event) -> bool {
    matches!(event, Event::Released { .. })
}

#[tokio::test(start_paused = true)]
async fn the_release_of_a_lost_lease_takes_a_second_and_goes_on_behind() {
    let store = MemoryStore::new();
    let (leases, other) = (manager(&store).await, manager(&store.client()).await);
    let lease = leases.acquire("a").ttl(MINUTE).await.unwrap();
    let hang = store.hang();
    lease.lost().await;
    let started = Instant::now();
    let error = lease.release().await.unwrap_err();
    assert!(matches!(error, Error::Unknown { .. }), "{error}");
    let took = started.elapsed();
    assert!((999..1_010).contains(&took.as_millis()), "{took:?}");
    drop(hang);
    let free = async || other.get("a").await.unwrap().is_none().then_some(());
    until("the release goes on behind", free).await;
    // A lease that is held has the whole time.
    let lease = leases.acquire("b").ttl(MINUTE).await.unwrap();
    let _hang = store.hang();
    let started = Instant::now();
    lease.release().await.unwrap_err();
    let took = started.elapsed();
    assert!((9_999..10_010).contains(&took.as_millis()), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn a_release_that_fails_or_is_dropped_is_told_once() {
    let store = MemoryStore::new();
    let leases = manager(&store).await;
    let mut events = Listener::of(&leases);
    // It is refused, and so is the one in the background.
    let refused = leases.acquire("refused").renew(false).await.unwrap();
    store.fail_next(CommandKind::Release, MemoryFault::Refused);
    store.fail_next(CommandKind::Release, MemoryFault::Refused);
    refused.release().await.unwrap_err();
    // Its future is dropped.
    let dropped = leases.acquire("dropped").await.unwrap();
    let hang = store.hang();
    assert!(dropped.release().now_or_never().is_none());
    drop(hang);
    // It succeeds.
    leases.acquire("released").await.unwrap().release().await.unwrap();
    pass(MINUTE).await;
    let told: Vec<_> = events.so_far().into_iter().filter(is_released).collect();
    assert_eq!(told.len(), 3, "{told:?}");
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_reports_the_leases_that_were_dropped_just_before() {
    let store = MemoryStore::new();
    let leases = manager(&store).await;
    let hold_four = async {
        let mut held = Vec::new();
        for number in 0..4 {
            held.push(leases.acquire(number.to_string()).await.unwrap());
        }
        std::future::pending::<()>().await;
        drop(held);
    };
    tokio::select! {
        () = hold_four => {}
        () = pass(MINUTE) => {}
    }
    let report = leases.clone().shutdown().await;
    assert_eq!((report.released, report.left_to_expire.len(), report.tasks_left), (4, 0, 0));

    // While the store hangs, they are left to expire, and so is one that is still held.
    let leases = manager(&store).await;
    let _held = leases.acquire("held").await.unwrap();
    drop(leases.acquire("dropped before").await.unwrap());
    pass(MINUTE).await;
    let dropped = leases.acquire("dropped").await.unwrap();
    let _hang = store.hang();
    drop(dropped);
    let mut report = leases.shutdown().await;
    report.left_to_expire.sort();
    assert_eq!(
        (report.released, &report.left_to_expire[..]),
        (0, &["dropped", "held"].map(str::to_owned)[..])
    );
}

/// Each of these calls may have been granted its lease, or have joined the queue. With a value of its own each goes by
/// itself, and in the form that finds an earlier grant.
#[tokio::test(start_paused = true)]
async fn calls_given_up_without_an_answer_leave_nothing() {
    const CALLS: usize = 200;
    let store = MemoryStore::new();
    let leases = manager(&store).await;
    for _ in 0..CALLS / 2 {
        store.fail_next(CommandKind::Acquire, MemoryFault::LostReply);
    }
    let hang = store.hang();
    let acquire =
        |number: usize| leases.acquire(format!("a:{number}")).value("of it").into_future();
    let calls: Vec<_> = (0..CALLS).map(|number| tokio::spawn(acquire(number))).collect();
    pass(Duration::from_secs(1)).await;
    assert!(store.faults_left() < CALLS / 2, "none has been sent");
    calls.iter().for_each(|call| call.abort());
    // They are carried out behind their callers.
    drop(hang);
    pass(Duration::from_secs(1)).await;
    assert_eq!(store.leases_in_use(), 0);
    assert_eq!(leases.shutdown().await.tasks_left, 0);
}

/// It reads, and waits to write: it waits for itself.
#[tokio::test(start_paused = true)]
async fn a_reader_that_waits_as_a_writer_learns_that_it_waits_for_itself() {
    let store = MemoryStore::new();
    let (leases, other) = (manager(&store).await, manager(&store).await);
    let _reader = leases.acquire("a").shared().await.unwrap();
    let text = "this process is one of the holders, and leases are not re-entrant";
    for wait in [Duration::ZERO, Duration::from_secs(5)] {
        let error = leases.acquire("a").wait(wait).await.unwrap_err();
        assert!(error.to_string().contains(text), "{error}");
    }
    // It holds another lease, and none of these.
    let _other = other.acquire("b").await.unwrap();
    let error = other.acquire("a").wait(Duration::ZERO).await.unwrap_err();
    assert!(!error.to_string().contains(text), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_pause_right_after_a_renewal_was_due_is_a_pause() {
    let store = MemoryStore::new();
    let leases = manager(&store).await;
    let lease = leases.acquire("a").await.unwrap();
    // The renewal is under way for 25 ms when the process stops for a minute, and nothing hears its answer.
    let _hang = store.hang();
    pass(Duration::from_millis(10_025)).await;
    store.advance(MINUTE);
    let reason = lease.lost().await.to_string();
    let text = "it was not renewed in time: this process stood still for 55s";
    assert!(reason.starts_with(text), "{reason}");
}

/// Two releases travel in one command, and another process has ended one of the two leases. The server's count is one,
/// so both outcomes are unknown. Neither lease is held any more, and the report names none as left to expire.
#[tokio::test(start_paused = true)]
async fn a_shutdown_leaves_no_lease_that_is_not_held() {
    let store = MemoryStore::new();
    let (leases, other) = (manager(&store).await, manager(&store.client()).await);
    let (a, b) = (leases.acquire("a").await.unwrap(), leases.acquire("b").await.unwrap());
    other.release("b", b.value()).await.unwrap();
    drop((a, b));
    let report = leases.shutdown().await;
    assert_eq!((report.released, report.left_to_expire), (2, Vec::new()));
    assert!(other.try_acquire("a").await.unwrap().is_granted());
}

/// Each future is polled once, and not again before the shutdown has ended. A shutdown finds calls that wait in the
/// registry of waiters. A try is not in it.
#[tokio::test(start_paused = true)]
async fn what_a_try_is_granted_during_a_shutdown_is_released_although_nobody_polls_it() {
    let store = MemoryStore::new();
    let leases = manager(&store).await;
    let hang = store.hang();
    let mut tries =
        Vec::from(["a", "b"].map(|name| Box::pin(leases.try_acquire(name).into_future())));
    assert!(tries.iter_mut().all(|each| each.as_mut().now_or_never().is_none()));
    let goes_on = async {
        pass(Duration::from_secs(1)).await;
        drop(hang);
    };
    let (report, ()) = tokio::join!(leases.shutdown(), goes_on);
    assert_eq!((report.tasks_left, store.leases_in_use()), (0, 0));
    for each in tries {
        assert!(matches!(each.await, Err(Error::ShutDown)));
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_that_nobody_polls_leaves_the_queue_at_a_shutdown() {
    let store = MemoryStore::new();
    let (holder, leases) = (manager(&store).await, manager(&store).await);
    let _held = holder.acquire("a").await.unwrap();
    let mut waiting = leases.acquire("a").into_future();
    let waits = async || holder.get("a").await.unwrap().unwrap().waiting;
    tokio::select! {
        biased;
        _ = &mut waiting => panic!("it is held"),
        () = pass(Duration::from_secs(1)) => {}
    }
    assert_eq!(waits().await, 1);
    leases.shutdown().await;
    assert_eq!(waits().await, 0);
    assert!(matches!(waiting.await, Err(Error::ShutDown)));
}
