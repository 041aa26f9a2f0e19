//! The times of a call and of its lease, and the memory that it takes while it waits.

use std::future::IntoFuture;
use std::sync::Arc;
use std::time::Duration;

use mongo_lease_core::commands::AcquireRequest;
use mongo_lease_core::rules::HoldEvent;

use super::Acquire;
use crate::engine::Engine;
use crate::memory::MemoryStore;
use crate::options::{ManagerOptions, Tuning};
use crate::release::call_state::CallState;
use crate::runner::Backend;

async fn in_memory(options: ManagerOptions) -> Arc<Engine> {
    Engine::start(Backend::Memory(MemoryStore::new()), options).await.unwrap()
}

/// A ttl of its own must leave time for a second attempt. The ttl of the manager shares its timing.
#[tokio::test]
async fn an_attempt_timeout_is_shortened_for_a_short_ttl_alone() {
    let (ttl, asked) = (Duration::from_secs(30), Duration::from_secs(10));
    let tuning = Tuning::default().attempt_timeout(asked);
    let engine = in_memory(ManagerOptions { ttl, tuning, ..Default::default() }).await;
    let of = |ttl| engine.timing_for(ttl).unwrap();
    assert_eq!(of(ttl / 10).attempt_timeout, ttl / 20);
    assert_eq!(of(ttl * 2).attempt_timeout, asked);
    assert!(Arc::ptr_eq(&of(ttl), &engine.timing) && !Arc::ptr_eq(&of(ttl * 2), &engine.timing));
}

/// A future that is moved into another one takes its bytes twice, and one that the call needs for a moment takes them
/// all the while. Here it would be the attempts, which have thousands.
#[tokio::test]
async fn the_future_and_the_shared_part_of_a_call_are_small() {
    let engine = in_memory(ManagerOptions::default()).await;
    let waiting = Acquire::new(engine, "a".to_owned()).into_future();
    let bytes = size_of_val(&*waiting);
    assert!(bytes <= 1_536, "the future of a call that waits has {bytes} bytes");
    let bytes = size_of::<AcquireRequest>() + size_of::<CallState>();
    assert!(bytes <= 384, "the request and the cleanup of a call have {bytes} bytes");
}

/// It was due after a third of the ttl, and comes at once: the task that renews leases is told.
#[tokio::test(start_paused = true)]
async fn a_renewal_that_a_transaction_has_held_back_is_sent_at_its_end() {
    const TICK: Duration = Duration::from_millis(1);
    let engine = in_memory(ManagerOptions::default()).await;
    let lease = Acquire::new(Arc::clone(&engine), "a".to_owned()).await.unwrap();
    let validity = lease.holding.timing.validity();
    let _ = lease.holding.on(HoldEvent::TransactionBegun, None);
    engine.clock().sleep(validity / 2).await;
    assert_eq!(lease.remaining(), validity - validity / 2);
    let _ = lease.holding.on(HoldEvent::TransactionEnded, None);
    engine.renewer.reschedule(lease.number, &lease.holding);
    engine.clock().sleep(TICK).await;
    assert_eq!(lease.remaining(), validity - TICK);
}
