//! The log of troubles that a store in memory has as wished.

use std::time::Duration;

use mongo_lease::{
    CommandKind, Lease, LeaseManager, LeaseManagerBuilder, MemoryFault, MemoryStore, Tuning,
};
use tokio::runtime::{Builder, Runtime};

use super::alone_in_memory;
use crate::memory::wire::Wire;
use crate::patience::pass;
use crate::permits::queued_by;

const SECOND: Duration = Duration::from_secs(1);

/// A manager with this lease that was built in another runtime, which runs no more, and that runtime unless it `ends`.
fn built_elsewhere(
    builder: LeaseManagerBuilder,
    name: &'static str,
    ends: bool,
) -> (LeaseManager, Lease, Option<Runtime>) {
    let build = move || {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        let leases = runtime.block_on(builder.build()).unwrap();
        let lease = runtime.block_on(leases.acquire(name).into_future()).unwrap();
        (leases, lease, (!ends).then_some(runtime))
    };
    std::thread::spawn(build).join().unwrap()
}

/// Nothing can be released without the tasks of the manager.
#[tokio::test]
async fn a_shutdown_without_its_runtime_is_an_error() {
    let test = "memory::a_shutdown_without_its_runtime_is_an_error";
    let Some((lines, _guard)) = alone_in_memory(test).await else { return };
    let store = MemoryStore::new();
    let impatient =
        |store: &MemoryStore| LeaseManager::in_memory(store).shutdown_timeout(SECOND / 20);
    // A database that does not answer is another matter.
    for hangs in [false, true] {
        let network = store.client();
        let builder = if hangs { impatient(&network) } else { LeaseManager::in_memory(&network) };
        let leases = builder.build().await.unwrap();
        let _lease = leases.acquire(hangs.to_string()).await.unwrap();
        let _hang = hangs.then(|| network.hang());
        assert_eq!(leases.shutdown().await.tasks_left > 0, hangs);
        if !hangs {
            // Nothing is left to be done.
            leases.shutdown().await;
        }
        assert_eq!(lines.taken_with("event ERROR"), [""; 0]);
    }
    for (ends, name, said) in [(true, "a", "has ended"), (false, "b", "runs none of its tasks")] {
        let (leases, _lease, runtime) = built_elsewhere(impatient(&store), name, ends);
        assert_eq!(leases.shutdown().await.left_to_expire, [name]);
        let errors = lines.taken_with("event ERROR");
        assert_eq!(errors.len(), 1, "{errors:#?}");
        assert!(errors[0].contains("left_to_expire=1") && errors[0].contains(said), "{errors:#?}");
        // A runtime may not be dropped in another one.
        std::thread::spawn(move || drop(runtime)).join().unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_document_is_logged_again_that_was_written_and_is_blocked_again() {
    let test = "memory::a_document_is_logged_again_that_was_written_and_is_blocked_again";
    let Some((lines, _guard)) = alone_in_memory(test).await else { return };
    let wire = Wire::new();
    let leases = wire.manager(&MemoryStore::new(), Tuning::default()).await;
    let lease = leases.acquire("a").ttl(4 * SECOND).await.unwrap();
    let warned = || {
        let warned = lines.taken_with("event WARN");
        warned.iter().filter(|it| it.contains("a transaction has blocked lease \"a\"")).count()
    };
    for _ in 0..2 {
        wire.block(Some("a"));
        pass(2 * SECOND).await;
        wire.block(None);
        assert_eq!(warned(), 1);
        pass(2 * SECOND).await;
        assert_eq!(warned(), 0);
    }
    assert!(lease.is_valid());
}

#[tokio::test(start_paused = true)]
async fn a_heartbeat_that_is_not_confirmed_is_a_line() {
    let test = "memory::a_heartbeat_that_is_not_confirmed_is_a_line";
    let Some((lines, _guard)) = alone_in_memory(test).await else { return };
    let store = MemoryStore::new();
    let network = store.client();
    let holder = LeaseManager::in_memory(&store).build().await.unwrap();
    let leases = LeaseManager::in_memory(&network).build().await.unwrap();
    let _held = holder.acquire("a").ttl(90 * SECOND).await.unwrap();
    let _waiting = queued_by(&leases, |it| it.acquire("a").wait_forever()).await;
    network.fail_next(CommandKind::Heartbeat, MemoryFault::Refused);
    pass(30 * SECOND).await;
    assert_eq!(network.faults_left(), 0);
    let warned = lines.taken_with("event WARN");
    let of_heartbeats = warned.iter().filter(|it| it.contains("a heartbeat of waiting calls"));
    let of_heartbeats: Vec<_> = of_heartbeats.collect();
    assert_eq!(of_heartbeats.len(), 1, "{warned:#?}");
    assert!(of_heartbeats[0].contains("lease.name=\"a\""), "{of_heartbeats:#?}");
}

#[tokio::test(start_paused = true)]
async fn a_dropped_lease_that_cannot_be_released_is_a_line() {
    let test = "memory::a_dropped_lease_that_cannot_be_released_is_a_line";
    let Some((lines, _guard)) = alone_in_memory(test).await else { return };
    let store = MemoryStore::new();
    let leases = LeaseManager::in_memory(&store).build().await.unwrap();
    for refused in [false, true] {
        let lease = leases.acquire(refused.to_string()).renew(false).await.unwrap();
        if refused {
            store.fail_next(CommandKind::Release, MemoryFault::Refused);
        }
        drop(lease);
        pass(SECOND).await;
        let warned = lines.taken_with("event WARN");
        let is_it = |it: &&String| it.contains("could not be released") && it.contains("leases=1");
        assert_eq!(warned.iter().filter(is_it).count(), usize::from(refused), "{warned:#?}");
    }
}
