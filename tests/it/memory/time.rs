//! The clock of a store in memory.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use mongo_lease::{
    Acquire, CommandKind, Error, Event, LeaseManager, LostReason, MemoryFault, MemoryStore, Tuning,
};
use tokio::runtime::Runtime;

use super::manager;
use crate::patience::{Listener, MUCH_PATIENCE, bounded, pass, soon};
use crate::permits::{granted, queued_by};

/// Longer than the default ttl.
const MINUTE: Duration = Duration::from_secs(60);

#[tokio::test]
async fn a_lease_is_lost_in_no_time_when_the_clock_advances() {
    let store = MemoryStore::new();
    let leases = manager(&store).await;
    let lease = leases.acquire("a").await.unwrap();
    let (before, token) = (store.now(), lease.cancellation_token());
    store.advance(MINUTE);
    assert!(!lease.is_valid());
    assert!(matches!(lease.token(), Err(Error::Lost { .. })));
    bounded(token.cancelled()).await;
    let reason = bounded(lease.lost()).await;
    assert!(
        matches!(reason, LostReason::NotRenewed { .. } | LostReason::OutOfReach { .. }),
        "{reason}"
    );
    assert!(store.now() - before >= chrono::Duration::seconds(60));
    // Its time is over on the store too.
    assert!(leases.try_acquire("a").await.unwrap().is_granted());

    // Put forward twice as far as it goes, it goes on.
    store.advance(Duration::MAX);
    store.advance(Duration::MAX);
    let later = leases.acquire("a").ttl(Duration::from_secs(366 * 24 * 3_600)).await.unwrap();
    assert!(later.is_valid() && later.expires_at() > store.now());
}

#[tokio::test]
async fn a_waiting_call_is_granted_an_expired_lease_when_time_advances() {
    let store = MemoryStore::new();
    let (one, other) = (manager(&store).await, manager(&store).await);
    let mut events = Listener::of(&other);
    let lease = one.acquire("a").renew(false).await.unwrap();
    let waiting = queued_by(&other, |leases| leases.acquire("a").wait_forever()).await;
    store.advance(Duration::from_secs(20));
    assert!(lease.is_valid());
    // The ttl is 30 s, and the store adds a second for clocks that differ.
    store.advance(Duration::from_secs(12));
    let error = lease.check().unwrap_err();
    assert!(matches!(error, Error::Lost { reason: LostReason::EndedAsAsked, .. }), "{error}");
    assert!(granted(waiting).await.is_valid());
    assert_eq!(events.so_far().iter().filter(|it| matches!(it, Event::Polling { .. })).count(), 0);
}

#[tokio::test(start_paused = true)]
async fn waiting_takes_no_time_with_a_paused_clock() {
    let real = Instant::now();
    let store = MemoryStore::new();
    let (one, other) = (manager(&store).await, manager(&store).await);
    let mut events = Listener::of(&one);
    let lease = one.acquire("a").await.unwrap();
    let begin = tokio::time::Instant::now();
    let error = other.acquire("a").wait(Duration::from_secs(3_600)).await.unwrap_err();
    assert!(matches!(error, Error::WaitTimeout { .. }), "{error}");
    assert_eq!(begin.elapsed().as_secs(), 3_600);
    // A third of the ttl is 10 s.
    let events = events.so_far();
    let renewals = events.iter().filter(|event| matches!(event, Event::Renewed { .. })).count();
    assert!((350..=370).contains(&renewals), "{renewals} renewals");
    assert!(lease.is_valid());
    assert!(real.elapsed() < MUCH_PATIENCE, "it spins");
}

/// Polls each of these calls once, and leaves them. Their commands are answered before this returns.
async fn polled_once(calls: Vec<Acquire>) -> Vec<Waiting> {
    let mut left: Vec<_> = calls.into_iter().map(IntoFuture::into_future).collect();
    for call in &mut left {
        assert!(call.as_mut().now_or_never().is_none(), "it has sent its command");
    }
    pass(Duration::from_millis(10)).await;
    left
}

type Waiting = <Acquire as IntoFuture>::IntoFuture;

#[tokio::test(start_paused = true)]
async fn a_call_that_is_not_polled_does_not_block_the_next_one() {
    let store = MemoryStore::new();
    let leases = manager(&store).await;
    let mut left = polled_once(vec![leases.acquire("a").value("mine")]).await;
    let wait = Duration::from_secs(10);
    let lease = leases.acquire("a").wait(wait).await.expect("the first call is not polled");
    // Polled again, it waits for its turn like any other call.
    let mut first = left.remove(0);
    pass(Duration::from_secs(5)).await;
    assert!(first.as_mut().now_or_never().is_none(), "the lease is held");
    lease.release().await.unwrap();
    let granted = bounded(first).await.unwrap();
    assert!(granted.is_valid() && granted.value() == "mine");
}

#[tokio::test(start_paused = true)]
async fn four_calls_for_permits_that_are_not_polled_do_not_block_the_fifth() {
    let store = MemoryStore::new();
    let leases = manager(&store).await;
    let ask = || leases.semaphore("a", 4).acquire().ttl(60 * MINUTE);
    let left = polled_once((0..4).map(|_| ask()).collect()).await;
    let fifth = ask().wait(Duration::from_secs(10)).await.expect("four calls are not polled");
    // Their grants end with them.
    drop(left);
    fifth.release().await.unwrap();
    pass(Duration::from_secs(1)).await;
    assert_eq!(store.leases_in_use(), 0);
}

#[tokio::test(start_paused = true)]
async fn many_calls_that_are_not_polled_are_passed_over_together() {
    let leases = manager(&MemoryStore::new()).await;
    let left = polled_once((0..100).map(|_| leases.acquire("a")).collect()).await;
    let last = leases.acquire("a").wait(Duration::from_secs(10)).await;
    last.expect("a hundred calls are not polled").release().await.unwrap();
    let forever = bounded(leases.acquire("a").wait_forever().into_future()).await.unwrap();
    // They do not keep the turn when they are dropped.
    drop(left);
    forever.release().await.unwrap();
    assert!(leases.acquire("a").await.unwrap().is_valid());
}

#[tokio::test(start_paused = true)]
async fn a_call_that_waited_for_its_turn_says_so() {
    const TURN: &str = "it waited for an earlier call of this manager for the same name, and asked \
        the database nothing meanwhile";
    let text = async |leases: &LeaseManager, wait: u64| {
        let call = leases.acquire("a").wait(Duration::from_millis(wait));
        call.await.expect_err("it waits for an earlier call").to_string()
    };
    let store = MemoryStore::new();
    let (one, other) = (manager(&store).await, manager(&store).await);
    let left = polled_once(vec![one.acquire("a")]).await;
    let begin = "lease \"a\" was not granted within";
    assert_eq!(text(&one, 300).await, format!("{begin} 300ms; {TURN}"));
    drop(left);
    let lease = one.acquire("a").await.unwrap();
    let first = tokio::spawn(other.acquire("a").wait_forever().into_future());
    pass(Duration::from_secs(1)).await;
    let later = text(&other, 5_000).await;
    let holder = one.get("a").await.unwrap().expect("it is held").owner.expect("a manager");
    let held = format!("{holder} held it when the database last answered");
    assert!(later.starts_with(&format!("{begin} 5s; {TURN}; {held}")), "{later}");
    // The first one has its turn. It is told of the holder alone.
    first.abort();
    bounded(first).await.unwrap_err();
    let asked = text(&other, 5_000).await;
    assert!(asked.starts_with(&format!("{begin} 5s; {held}")), "{asked}");
    drop(lease);
}

/// It is not polled because nothing wakes it: the lease is held elsewhere.
#[tokio::test(start_paused = true)]
async fn a_call_that_waits_for_the_lease_keeps_its_turn() {
    let store = MemoryStore::new();
    let (one, other) = (manager(&store).await, manager(&store).await);
    let lease = one.acquire("a").await.unwrap();
    let first = tokio::spawn(other.acquire("a").wait_forever().into_future());
    pass(Duration::from_secs(1)).await;
    let mut second = other.acquire("a").wait_forever().into_future();
    let polls = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&polls);
    let second = tokio::spawn(poll_fn(move |context| {
        counted.fetch_add(1, Ordering::Relaxed);
        second.as_mut().poll(context)
    }));
    pass(MINUTE * 10).await;
    assert_eq!(polls.load(Ordering::Relaxed), 1, "nothing wakes the second one");
    lease.release().await.unwrap();
    let first = bounded(first).await.unwrap().unwrap();
    assert!(!second.is_finished());
    first.release().await.unwrap();
    assert!(bounded(second).await.unwrap().unwrap().is_valid());
}

#[test]
fn a_call_ends_when_the_runtime_of_its_manager_is_gone() {
    let (gone, here) = (Runtime::new().unwrap(), Runtime::new().unwrap());
    let store = here.block_on(async { MemoryStore::new() });
    let (lease, leases) = gone.block_on(async {
        let leases = unhurried(&store).await;
        (unhurried(&store).await.acquire("a").await.unwrap(), leases)
    });
    let first = here.block_on(queued_by(&leases, |leases| leases.acquire("a").wait_forever()));
    let second = here.spawn(leases.acquire("a").wait_forever().into_future());
    drop(gone);
    for waiting in [first, second] {
        let ended = here.block_on(soon("it ends with the runtime", waiting)).unwrap();
        assert_names_the_runtime(&ended.unwrap_err());
    }
    // Nothing can release what it holds, and nobody waits for that.
    let released = here.block_on(soon("the release ends", lease.release()));
    assert_names_the_runtime(&released.unwrap_err());
    let report = here.block_on(soon("the shutdown ends", leases.shutdown()));
    assert_eq!((report.released, report.tasks_left), (0, 0));
}

/// A manager whose releases and whose shutdown have more time than a test waits.
async fn unhurried(store: &MemoryStore) -> LeaseManager {
    let builder = LeaseManager::in_memory(store).release_timeout(60 * MINUTE);
    builder.shutdown_timeout(60 * MINUTE).build().await.unwrap()
}

#[track_caller]
fn assert_names_the_runtime(error: &Error) {
    assert!(error.to_string().contains("tokio runtime in which the manager was built"), "{error}");
}

#[test]
fn a_shutdown_names_what_the_end_of_its_runtime_left_held() {
    let (gone, here) = (Runtime::new().unwrap(), Runtime::new().unwrap());
    let store = here.block_on(async { MemoryStore::new() });
    let (lease, leases) = gone.block_on(async {
        let leases = unhurried(&store).await;
        (leases.acquire("a").await.unwrap(), leases)
    });
    drop(gone);
    let report = here.block_on(soon("the shutdown ends", leases.shutdown()));
    assert_eq!((report.released, report.left_to_expire), (0, vec!["a".to_owned()]));
    assert!(!lease.is_valid());
}

/// A runtime of one thread that is not in `block_on` runs no task.
#[test]
fn a_runtime_that_nobody_drives_is_named() {
    let idle = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let here = Runtime::new().unwrap();
    let store = here.block_on(async { MemoryStore::new() });
    let leases = idle.block_on(manager(&store));
    let wait = Duration::from_millis(200);
    let error = here.block_on(leases.acquire("a").wait(wait).into_future()).unwrap_err();
    assert_names_the_runtime(&error);
    assert!(error.is_transient(), "it was sent nothing: {error}");
    // Driven again, it works.
    assert!(idle.block_on(leases.acquire("a").into_future()).is_ok());
}

/// The entry that the server knows is that of a call that has gone. The next call of its process keeps it alive.
#[tokio::test(start_paused = true)]
async fn an_inherited_entry_lives_on() {
    for is_dropped in [true, false] {
        let store = MemoryStore::new();
        let (holder, other) = (manager(&store).await, manager(&store).await);
        // The successor sends no attempt of its own accord, nor for the expiry of the lease.
        let tuning =
            Tuning::default().waiter_ttl(Duration::from_secs(3)).recheck_every(60 * MINUTE);
        let network = store.client();
        let leases = LeaseManager::in_memory(&network).tuning(tuning).build().await.unwrap();
        let lease = holder.acquire("a").ttl(60 * MINUTE).await.unwrap();
        let wait = if is_dropped { 60 * MINUTE } else { Duration::from_secs(2) };
        let first = queued_by(&leases, |leases| leases.acquire("a").wait(wait)).await;
        let waiting = || tokio::spawn(leases.acquire("a").wait_forever().into_future());
        let (between, second) = (waiting(), waiting());
        pass(Duration::from_millis(10)).await;
        let behind = queued_by(&other, |leases| leases.acquire("a").wait_forever()).await;
        if is_dropped {
            first.abort();
        }
        assert!(!matches!(bounded(first).await, Ok(Ok(_))), "dropped: {is_dropped}");
        // It has inherited the entry, and leaves it to the next one.
        pass(Duration::from_secs(1)).await;
        between.abort();
        // Ten times as long as an entry lives without a heartbeat.
        pass(Duration::from_secs(30)).await;
        network.fail_next(CommandKind::Release, MemoryFault::NoPrimary);
        lease.release().await.unwrap();
        let second = granted(second).await;
        pass(Duration::from_secs(1)).await;
        assert!(!behind.is_finished(), "dropped: {is_dropped}");
        assert_eq!(network.faults_left(), 1, "nothing of the first call is left to be cleaned up");
        drop(second);
        assert!(granted(behind).await.is_valid());
    }
}
