//! Commands of unknown outcome: lost replies, and writes that no majority confirmed.

use std::time::Duration;

use mongo_lease::mongodb::bson::Document;
use mongo_lease::{LeaseManagerBuilder, Released};
use mongo_lease_testbed::{FailCommand, Loss, Proxy};

use crate::churn::tombstone;
use crate::common::document;
use crate::lent::{Proxied, lent_setup, proxied};
use crate::patience::{PATIENCE, bounded, soon};

/// A ttl for which no test waits.
const LONG: Duration = Duration::from_secs(4 * PATIENCE.as_secs());

fn lose_next(message: &str, proxy: &Proxy, command: &str) -> Loss {
    match message {
        "reply" => proxy.lose_next_reply(command),
        _ => proxy.lose_next_request(command),
    }
}

#[tokio::test]
async fn a_lost_reply_yields_one_grant_without_waiting_for_itself() {
    // With tombstones the first attempt is another command.
    for tombstones in [false, true] {
        let options = |builder: LeaseManagerBuilder| builder.tombstones(tombstones).ttl(LONG);
        let Proxied { _server, database, proxy, slow: leases, .. } = proxied(options).await;
        // The first attempt was granted, and the second has found that grant. Or the second was granted.
        for (lost, attempt, writes) in [("reply", 1, 2), ("request", 2, 1)] {
            for is_asked_once in [false, true] {
                let case = format!("{lost}, tombstones {tombstones}, once {is_asked_once}");
                let loss = lose_next(lost, &proxy, "findAndModify");
                // A call that waited for its own lease would take as long as its ttl.
                let lease = match is_asked_once {
                    true => leases.try_acquire(&case).await.unwrap().granted().expect(&case),
                    false => soon(&case, leases.acquire(&case).into_future()).await.unwrap(),
                };
                bounded(loss.lost()).await;
                assert!(lease.is_valid(), "{case}");
                let found = document(&database, &case).await.unwrap();
                assert_eq!(granted_to(&found), (lease.value(), attempt, writes), "{case}");
                assert_eq!(lease.release().await.unwrap(), Released::Released, "{case}");
                assert_eq!(tombstone(&database, &case).await.is_some(), tombstones, "{case}");
            }
        }
    }
}

/// One that has not reached the server is sent again.
#[tokio::test]
async fn a_release_whose_reply_is_lost_is_unknown_and_done() {
    for (tombstones, command) in [(false, "delete"), (true, "update")] {
        let options = proxied(|builder| builder.tombstones(tombstones));
        let Proxied { _server, database, proxy, slow: leases, .. } = options.await;
        for (lost, told) in [("reply", Released::Unknown), ("request", Released::Released)] {
            let case = format!("{lost} of {command}");
            let lease = leases.acquire("a").await.unwrap();
            let loss = lose_next(lost, &proxy, command);
            assert_eq!(lease.release().await.unwrap(), told, "{case}");
            bounded(loss.lost()).await;
            assert_eq!(tombstone(&database, "a").await.is_some(), tombstones, "{case}");
        }
    }
}

/// The majority has the write all the same: a read shows that, and nothing is written again. `late_majority` has the
/// writes that no majority has.
#[tokio::test]
async fn a_write_without_an_acknowledgement_is_confirmed_by_a_read() {
    let (server, database, leases) = lent_setup().await;
    for code in [64, 50] {
        let unconfirmed = FailCommand::on(&["findAndModify"]).times(1).write_concern_error(code);
        let guard = unconfirmed.enable(server.uri()).await;
        let lease = leases.acquire("a").await.unwrap();
        assert_eq!(guard.disable().await, 1, "{code}");
        let found = document(&database, "a").await.unwrap();
        assert_eq!(granted_to(&found), (lease.value(), 1, 1), "{code}");
        assert_eq!(lease.release().await.unwrap(), Released::Released, "{code}");
    }
}

/// A write that no majority has in its time is answered with code 50 and with its result. A read shows that it lasts.
#[tokio::test]
async fn a_release_without_a_majority_is_known() {
    let (server, _database, leases) = lent_setup().await;
    let unconfirmed = async |command| {
        let fault = FailCommand::on(&[command]).times(1).write_concern_error(50);
        fault.enable(server.uri()).await
    };
    let hold = async |name| leases.acquire(name).renew(false).await.unwrap();
    let kept = leases.acquire("kept").hold_at_least(Duration::from_secs(60)).await.unwrap();
    for (lease, command) in [(hold("a").await, "delete"), (kept, "update")] {
        let guard = unconfirmed(command).await;
        assert_eq!(lease.release().await.unwrap(), Released::Released, "{command}");
        assert_eq!(guard.disable().await, 1, "{command}");
    }
    // By name and value, it is known as well.
    let lease = hold("a").await;
    let guard = unconfirmed("delete").await;
    assert_eq!(leases.release("a", lease.value()).await.unwrap(), Released::Released);
    assert_eq!(guard.disable().await, 1);
    // Valid, but ended by somebody else: no statement has matched.
    let guard = unconfirmed("delete").await;
    assert_eq!(lease.release().await.unwrap(), Released::NotHeld);
    assert_eq!(guard.disable().await, 1);
}

/// The holder, the number of the attempt that was granted, and how often it was written.
fn granted_to(document: &Document) -> (&str, u32, i64) {
    let grant = document.get_document("grant").unwrap();
    let value = document.get_str("value").unwrap();
    assert_eq!(grant.get_str("value").ok(), Some(value));
    let (_call, attempt) = grant.get_str("id").unwrap().rsplit_once('.').unwrap();
    let writes = grant.get_i32("writes").map(i64::from).or_else(|_| grant.get_i64("writes"));
    (value, attempt.parse().unwrap(), writes.unwrap())
}
