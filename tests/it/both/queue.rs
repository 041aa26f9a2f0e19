//! The outcomes of waiting.

use mongo_lease::{Error, Tuning};

use super::check;
use crate::permits::{granted, queued_by};

#[tokio::test]
async fn processes_are_granted_in_their_order_with_rising_tokens() {
    check(async |backend| {
        let leases = backend.manager().await;
        let mut held = leases.acquire("a").await.unwrap();
        let mut waiting = Vec::new();
        for _ in 0..6 {
            let process = backend.manager().await;
            let call = queued_by(&process, |leases| leases.acquire("a")).await;
            waiting.push((process, call));
        }
        assert_eq!(leases.get("a").await.unwrap().unwrap().waiting, 6);
        for (number, (_process, call)) in waiting.into_iter().enumerate() {
            let token = held.token().unwrap();
            held.release().await.unwrap();
            held = granted(call).await;
            assert!(held.token().unwrap() > token, "{number}");
        }
    })
    .await;
}

#[tokio::test]
async fn a_full_queue_refuses_one_more_process() {
    check(async |backend| {
        let (leases, waiter) = (backend.manager().await, backend.manager().await);
        let _held = leases.acquire("a").await.unwrap();
        let waits = queued_by(&waiter, |leases| leases.acquire("a")).await;
        let full = Tuning::default().max_waiting(1);
        let one_too_many = backend.builder().tuning(full).build().await.unwrap();
        let error = one_too_many.acquire("a").await.unwrap_err();
        assert!(matches!(error, Error::QueueFull { waiting: 1, .. }), "{error}");
        waits.abort();
    })
    .await;
}
