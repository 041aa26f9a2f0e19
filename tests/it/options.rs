//! Options are checked before anything is sent.

use std::time::Duration;

use mongo_lease::mongodb::bson::{Bson, Document, doc};
use mongo_lease::{Error, LeaseManager, MemoryStore, ScheduledJob, Tuning};
use tokio::time::Instant;

use crate::permits::{granted, queued_by};

const NANO: Duration = Duration::from_nanos(1);
const DAY: Duration = Duration::from_secs(24 * 3_600);

#[tokio::test]
async fn options_out_of_range_are_named_as_their_methods() {
    let store = MemoryStore::new();
    let builder = || LeaseManager::in_memory(&store);
    let tuned = |tuning| builder().tuning(tuning);
    let (tuning, zero, year) = (Tuning::default, Duration::ZERO, Duration::from_secs(400 * 86_400));
    for (builder, wanted) in [
        (tuned(tuning().max_in_flight(0)), "max_in_flight: must be between 1 and 10000"),
        (tuned(tuning().max_in_flight(usize::MAX)), "max_in_flight: must be between 1 and 10000"),
        (tuned(tuning().waiter_ttl(zero)), "waiter_ttl: must be between 500ms and 10m"),
        (tuned(tuning().waiter_ttl(year)), "waiter_ttl: must be between 500ms and 10m"),
        (tuned(tuning().recheck_every(zero)), "recheck_every: must be greater than zero"),
        (tuned(tuning().recheck_every(year)), "recheck_every: must be at most 1day"),
        (tuned(tuning().max_waiting(0)), "max_waiting: must be between 1 and 1024"),
        (tuned(tuning().max_waiting(100_000)), "max_waiting: must be between 1 and 1024"),
        (
            tuned(tuning().attempt_timeout(year)),
            "attempt_timeout: an attempt timeout of 400days is not between 10ms and 15s, half the \
             ttl: a renewal must have time for a second attempt",
        ),
        (builder().ttl(year), "ttl: a ttl of 400days is not between 100ms and 366days"),
        (
            builder().max_clock_skew(year),
            "max_clock_skew: a maximum clock skew of 400days is above 1h",
        ),
        (builder().build_timeout(zero), "build_timeout: must be greater than zero"),
        (builder().release_timeout(zero), "release_timeout: must be greater than zero"),
        (builder().shutdown_timeout(zero), "shutdown_timeout: must be greater than zero"),
        (
            builder().collection("system.locks"),
            "collection: must not contain `$` or begin with `system.`",
        ),
        (builder().ensure_indexes(true).read_only(true), "ensure_indexes: excludes `read_only`"),
    ] {
        assert_eq!(builder.build().await.unwrap_err().to_string(), wanted);
    }
    tuned(tuning().max_in_flight(10_000)).build().await.unwrap();
}

fn assert_names<T>(option: &str, refused: Result<T, Error>) {
    match refused {
        Err(Error::InvalidOption { option: named, .. }) => assert_eq!(named, option),
        Err(other) => panic!("{option}: {other}"),
        Ok(_) => panic!("{option} was accepted"),
    }
}

/// Each row has the last value that fits, and the first that does not.
#[tokio::test]
async fn the_bounds_of_a_managers_options_fit() {
    let store = MemoryStore::new();
    let builder = || LeaseManager::in_memory(&store);
    let tuned = |change: fn(Tuning) -> Tuning| builder().tuning(change(Tuning::default()));
    for (option, fits, refused) in [
        ("ttl", builder().ttl(366 * DAY), builder().ttl(366 * DAY + NANO)),
        ("max_clock_skew", builder().max_clock_skew(DAY / 24), builder().max_clock_skew(DAY)),
        ("build_timeout", builder().build_timeout(DAY), builder().build_timeout(Duration::ZERO)),
        ("owner", builder().owner("x".repeat(512)), builder().owner("x".repeat(513))),
        (
            "ensure_indexes",
            builder().read_only(true),
            builder().read_only(true).ensure_indexes(true),
        ),
        (
            "max_in_flight",
            tuned(|it| it.max_in_flight(10_000)),
            tuned(|it| it.max_in_flight(10_001)),
        ),
        (
            "waiter_ttl",
            tuned(|it| it.waiter_ttl(DAY / 144)),
            tuned(|it| it.waiter_ttl(DAY / 144 + NANO)),
        ),
        (
            "recheck_every",
            tuned(|it| it.recheck_every(DAY)),
            tuned(|it| it.recheck_every(DAY + NANO)),
        ),
        ("max_waiting", tuned(|it| it.max_waiting(1_024)), tuned(|it| it.max_waiting(1_025))),
    ] {
        fits.build().await.unwrap_or_else(|error| panic!("{option}: {error}"));
        assert_names(option, refused.build().await);
    }
}

/// So many documents, each in the one before.
fn documents(levels: usize) -> Document {
    (1..levels).fold(doc! {}, |inner, _| doc! { "a": inner })
}

/// The same with arrays in a document.
fn arrays(levels: usize) -> Document {
    doc! { "a": (2..levels).fold(Bson::Array(vec![]), |inner, _| Bson::Array(vec![inner])) }
}

/// As above.
#[tokio::test]
async fn the_bounds_of_a_calls_options_fit() {
    let leases = LeaseManager::in_memory(&MemoryStore::new()).build().await.unwrap();
    let (acquire, shortest) = (|| leases.acquire("a"), Duration::from_millis(100));
    let with = |metadata: Document| acquire().metadata(metadata);
    // 13 bytes are for the rest.
    let wide = |bytes: usize| with(doc! { "a": "x".repeat(bytes - 13) });
    for (option, fits, refused) in [
        ("max_hold", acquire().max_hold(shortest), acquire().max_hold(shortest - NANO)),
        ("owner", acquire().owner("x".repeat(512)), acquire().owner("x".repeat(513))),
        ("metadata", wide(4_096), wide(4_097)),
        ("metadata", with(documents(16)), with(documents(17))),
        ("metadata", with(arrays(16)), with(arrays(17))),
        ("metadata", with(doc! { "a": 1 }), with(doc! { "a\0": 1 })),
        ("metadata", with(doc! { "a": [{ "b": 1 }] }), with(doc! { "a": [{ "b\0": 1 }] })),
        // The last, because it keeps the name.
        (
            "hold_at_least",
            acquire().hold_at_least(366 * DAY),
            acquire().hold_at_least(366 * DAY + NANO),
        ),
    ] {
        assert_names(option, refused.await);
        let lease = fits.await.unwrap_or_else(|error| panic!("{option}: {error}"));
        lease.release().await.unwrap();
    }
    let job = |at_least| ScheduledJob::new(&leases, "job").at_most(DAY).at_least(at_least);
    assert_names("at_least", job(DAY + NANO).run(async |_| ()).await);
    assert_eq!(job(DAY).run(async |_| ()).await.unwrap().done(), Some(()));
}

#[tokio::test(start_paused = true)]
async fn a_manager_whose_stream_is_off_waits_without_one() {
    let store = MemoryStore::new();
    let client = store.client();
    let tuning = Tuning::default().change_stream(false);
    let leases = LeaseManager::in_memory(&client).tuning(tuning).build().await.unwrap();
    let lease = LeaseManager::in_memory(&store).await.unwrap().acquire("a").await.unwrap();
    let next = queued_by(&leases, |leases| leases.acquire("a").wait_forever()).await;
    let released = Instant::now();
    lease.release().await.unwrap();
    drop(granted(next).await);
    // It polls, and its longest pause is 250 ms.
    assert!(released.elapsed() <= Duration::from_millis(250), "{:?}", released.elapsed());
    assert_eq!(client.streams_asked_for(), 0);
}
