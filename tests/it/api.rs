//! The compile-time promises of the public types.

use mongo_lease::indexes::{IndexProblem, IndexProblemKind, IndexSpec};
use mongo_lease::mongodb::Collection;
use mongo_lease::mongodb::bson::Document;
use mongo_lease::{
    Acquire, Attempt, Election, Error, Event, Fenced, FencedWrite, Leadership, Lease, LeaseHolder,
    LeaseInfo, LeaseKey, LeaseManager, LeaseManagerBuilder, LeaseState, List, LostReason, Released,
    Run, ScheduledJob, Semaphore, ShutdownReport, Stop, Token,
};

fn is_send<T: Send>() {}
fn is_sync<T: Sync>() {}
fn is_unpin<T: Unpin>() {}
fn value_is_send<T: Send>(_: &T) {}

macro_rules! promises {
    ($($type:ty),* $(,)?) => {$(
        is_send::<$type>();
        is_sync::<$type>();
        is_unpin::<$type>();
    )*};
}

#[test]
fn public_types_go_between_threads() {
    promises!(
        Acquire,
        Attempt,
        Election,
        Error,
        Event,
        Fenced,
        FencedWrite,
        IndexProblem,
        IndexProblemKind,
        IndexSpec,
        Leadership,
        Lease,
        LeaseHolder,
        LeaseInfo,
        LeaseKey,
        LeaseManager,
        LeaseManagerBuilder,
        LeaseState,
        List,
        LostReason,
        Released,
        Run<()>,
        ScheduledJob,
        Semaphore,
        ShutdownReport,
        Stop,
        Token,
    );
}

#[test]
fn states_events_and_keys_can_be_serialized() {
    fn is_serialize<T: serde::Serialize>() {}
    is_serialize::<Event>();
    is_serialize::<LeaseHolder>();
    is_serialize::<LeaseInfo>();
    is_serialize::<LeaseKey>();
    is_serialize::<LeaseState>();
    is_serialize::<LostReason>();
    is_serialize::<Token>();
}

#[test]
fn what_is_built_on_them_goes_between_threads() {
    // Never called: the test is that it compiles.
    fn futures(election: &Election, leadership: Leadership, job: &ScheduledJob) {
        value_is_send(&election.run(async |_| ()));
        value_is_send(&election.campaign());
        value_is_send(&election.leader());
        value_is_send(&election.observe());
        value_is_send(&leadership.until_stop());
        value_is_send(&leadership.run(std::future::ready(())));
        value_is_send(&leadership.release());
        value_is_send(&job.run(async |_| ()));
    }
    let _: fn(&Election, Leadership, &ScheduledJob) = futures;
}

#[test]
fn the_layer_goes_between_threads() {
    use mongo_lease_tower::{
        HeldLease, KeyRules, LeaseBody, LeaseLayer, LeaseService, Refusal, ResponseFuture,
    };
    promises!(HeldLease, KeyRules, LeaseLayer, LeaseService<()>, Refusal);
    is_send::<LeaseBody<()>>();
    is_unpin::<LeaseBody<()>>();
    is_send::<ResponseFuture<(), ()>>();
    is_unpin::<ResponseFuture<(), ()>>();
}

#[test]
fn public_futures_go_between_threads() {
    // Never called: the test is that it compiles.
    fn futures(leases: &LeaseManager, lease: Lease, key: LeaseKey) {
        value_is_send(&leases.try_acquire("a"));
        value_is_send(&leases.acquire("a").into_future());
        value_is_send(&leases.release("a", "b"));
        value_is_send(&leases.get("a"));
        value_is_send(&leases.list().glob("*").stream());
        value_is_send(&leases.renew_detached(&key, None));
        value_is_send(&leases.release_detached(&key));
        value_is_send(&leases.resume(key));
        value_is_send(&leases.ping());
        value_is_send(&leases.shutdown());
        value_is_send(&leases.events());
        value_is_send(&lease.lost());
        value_is_send(&lease.renew());
        value_is_send(&lease.run(std::future::ready(())));
        value_is_send(&lease.release());
    }
    let _: fn(&LeaseManager, Lease, LeaseKey) = futures;
    fn fenced(write: FencedWrite, collection: &Collection<Document>) {
        value_is_send(&write.send(collection).upsert(true).into_future());
    }
    let _: fn(FencedWrite, &Collection<Document>) = fenced;
}

#[test]
fn tokens_are_small_and_ordered() {
    assert_eq!(size_of::<Token>(), 8);
    assert!(Token::from_u64(1) < Token::from_u64(2));
}
