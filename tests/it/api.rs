//! The compile-time promises of the public types.

use mongo_lease::indexes::{IndexProblem, IndexProblemKind, IndexSpec};
use mongo_lease::mongodb::Collection;
use mongo_lease::mongodb::bson::Document;
use mongo_lease::{
    Acquire, Attempt, Election, Error, Event, Fenced, FencedWrite, Leadership, Lease, LeaseHolder,
    LeaseInfo, LeaseKey, LeaseManager, LeaseManagerBuilder, LeaseState, List, LostReason, Released,
    Run, ScheduledJob, Semaphore, ShutdownReport, Stop, Token,
};

fn goes_between_threads<T: Send + Sync + Unpin>() {}
fn is_send_and_unpin<T: Send + Unpin>() {}
fn value_is_send<T: Send>(_: &T) {}

/// A tuple goes between threads where each of its types does, and the compiler's error names the one that does not.
#[test]
fn public_types_go_between_threads() {
    goes_between_threads::<(Acquire, Attempt, Election, Error, Event, Fenced, FencedWrite)>();
    goes_between_threads::<(IndexProblem, IndexProblemKind, IndexSpec, Leadership, Lease)>();
    goes_between_threads::<(LeaseHolder, LeaseInfo, LeaseKey, LeaseManager, LeaseManagerBuilder)>();
    goes_between_threads::<(LeaseState, List, LostReason, Released, Run<()>, ScheduledJob)>();
    goes_between_threads::<(Semaphore, ShutdownReport, Stop, Token)>();
}

#[test]
fn the_layer_goes_between_threads() {
    use mongo_lease_tower::{
        HeldLease, KeyRules, LeaseBody, LeaseLayer, LeaseService, Refusal, ResponseFuture,
    };
    goes_between_threads::<(HeldLease, KeyRules, LeaseLayer, LeaseService<()>, Refusal)>();
    is_send_and_unpin::<(LeaseBody<()>, ResponseFuture<(), ()>)>();
}

#[test]
fn public_futures_go_between_threads() {
    // Never called: the test is that it compiles.
    fn futures(leases: &LeaseManager, lease: Lease, key: LeaseKey, captured: &str) {
        let work = async |lease: &Lease| lease.name().len() + captured.len();
        value_is_send(&leases.with_lease("a", work));
        value_is_send(&leases.acquire("a").run(async |lease| {
            let renewed = lease.renew().await;
            (renewed.is_ok(), captured.len())
        }));
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
    let _: fn(&LeaseManager, Lease, LeaseKey, &str) = futures;
    fn of_users(
        (election, leadership, job): (&Election, Leadership, &ScheduledJob),
        (write, collection): (FencedWrite, &Collection<Document>),
    ) {
        value_is_send(&election.run(async |_| ()));
        value_is_send(&election.campaign());
        value_is_send(&election.leader());
        value_is_send(&election.observe());
        value_is_send(&leadership.until_stop());
        value_is_send(&leadership.run(std::future::ready(())));
        value_is_send(&leadership.release());
        value_is_send(&job.run(async |_| ()));
        value_is_send(&write.send(collection).upsert(true).into_future());
    }
    let _: fn(_, _) = of_users;
}
