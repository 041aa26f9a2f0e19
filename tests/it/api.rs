//! What the public types promise to the compiler.

use mongo_lease::{
    Acquire, Attempt, Error, Event, Lease, LeaseInfo, LeaseKey, LeaseManager, LeaseManagerBuilder,
    List, LostReason, Released, ShutdownReport, Token,
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
        Error,
        Event,
        Lease,
        LeaseInfo,
        LeaseKey,
        LeaseManager,
        LeaseManagerBuilder,
        List,
        LostReason,
        Released,
        ShutdownReport,
        Token,
    );
}

#[test]
fn public_futures_go_between_threads() {
    // Never called: that it compiles is the test.
    fn futures(leases: &LeaseManager, lease: Lease, key: LeaseKey) {
        value_is_send(&leases.try_acquire("a"));
        value_is_send(&leases.acquire("a").into_future());
        value_is_send(&leases.acquire("a").try_once());
        value_is_send(&leases.release("a", "b"));
        value_is_send(&leases.force_release("a", "b"));
        value_is_send(&leases.get("a"));
        value_is_send(&leases.list().glob("*").stream());
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
}

#[test]
fn tokens_are_small_and_ordered() {
    assert_eq!(size_of::<Token>(), 8);
    assert!(Token::from_u64(1) < Token::from_u64(2));
}
