//! Attempts and replies that come too late must not undo later changes.

use std::time::Duration;

use mongo_lease::mongodb::bson::Document;
use mongo_lease::mongodb::change_stream::event::OperationType;
use mongo_lease::{LostReason, Released};

use crate::common::{assert_done, assert_not_done, document};
use crate::lent::{Proxied, proxied_and_soon_repeated};
use crate::patience::{PATIENCE, bounded, locks, written};

/// It ends within a test, and a busy machine answers in it.
const TTL: Duration = Duration::from_secs(2);

/// A, behind a proxy, which soon tries again, and B, connected directly to the server.
async fn setup() -> Proxied {
    proxied_and_soon_repeated(|builder| builder.max_clock_skew(Duration::ZERO)).await
}

/// A is granted, and the reply is held; A's lease expires, and B takes over; then A gets the reply.
#[tokio::test]
async fn a_stored_answer_is_never_a_grant() {
    let Proxied { _server, database, proxy, slow: a, direct: b } = setup().await;
    let replies = proxy.hold_replies_to("findAndModify");
    let asking = tokio::spawn(a.acquire("a").ttl(TTL).wait(PATIENCE).into_future());
    bounded(replies.held(1)).await;
    // All later commands of A wait on their way, or A would go on prolonging its grant.
    let requests = proxy.hold_requests_to("findAndModify");
    let granted_to_a = document(&database, "a").await.unwrap();

    let lease = b.acquire("a").await.unwrap();
    let token = lease.token().unwrap();
    assert_ne!(granted_to_a.get_str("value").ok(), Some(lease.value()));
    replies.release();
    bounded(requests.held(1)).await;
    // The server refuses A, which then waits in line.
    let mut changes = locks(&database).watch().await.unwrap();
    requests.release();
    written(&mut changes, OperationType::Update).await;
    assert!(!asking.is_finished());
    assert!(lease.is_valid());
    assert_eq!(lease.release().await.unwrap(), Released::Released);
    assert!(bounded(asking).await.unwrap().unwrap().token().unwrap() > token);
}

/// A's second attempt is slow on its way. Before it arrives an operator releases the lease of the first one, so the
/// second wins another grant, which no caller wants any more.
#[tokio::test]
async fn a_second_grant_after_the_first_was_lost_is_given_back() {
    let Proxied { _server, database, proxy, slow: a, direct: b } = setup().await;
    let replies = proxy.hold_replies_to("findAndModify");
    let asking = tokio::spawn(a.acquire("a").ttl(4 * PATIENCE).renew(false).into_future());
    bounded(replies.held(1)).await;
    let requests = proxy.hold_requests_to("findAndModify");
    bounded(requests.held(1)).await;
    replies.release();
    let lease = asking.await.unwrap().unwrap();
    let first = document(&database, "a").await.unwrap();
    assert_done(b.release("a", lease.value()).await.unwrap(), "by name and value");

    let mut changes = locks(&database).watch().await.unwrap();
    requests.release();
    written(&mut changes, OperationType::Insert).await;
    let second = document(&database, "a").await.unwrap();
    assert_eq!(first.get("value"), second.get("value"));
    assert_ne!(grant_id(&first), grant_id(&second));
    // The answer to the second attempt has come when another command of the same kind is answered.
    assert!(a.acquire("other").await.unwrap().is_valid());
    // It is known to be lost then.
    lease.renew().await.unwrap_err();
    assert_not_done(lease.release().await.unwrap());
    let lease = bounded(b.acquire("a").into_future()).await.unwrap();
    assert!(lease.is_valid());
}

/// etcd #22082, Hangfire.Mongo: a late release ends somebody else's lock.
#[tokio::test]
async fn a_late_release_ends_nobody_elses_lease() {
    let Proxied { _server, database, proxy, slow: a, direct: b } = setup().await;
    let lease = a.acquire("a").ttl(TTL).renew(false).await.unwrap();
    let requests = proxy.hold_requests_to("delete");
    let releasing = tokio::spawn(lease.release());
    bounded(requests.held(1)).await;
    let successor = b.acquire("a").await.unwrap();
    requests.release();
    let released = releasing.await.unwrap().unwrap();
    assert!(matches!(released, Released::NotHeld | Released::Unknown), "{released:?}");
    let found = document(&database, "a").await.unwrap();
    assert_eq!(found.get_str("value").ok(), Some(successor.value()));
    assert_eq!(successor.release().await.unwrap(), Released::Released);
}

/// Hangfire.Mongo: a late heartbeat prolongs somebody else's lock.
#[tokio::test]
async fn a_late_renewal_prolongs_nobody_elses_lease() {
    let Proxied { _server, database, proxy, slow: a, direct: b } = setup().await;
    let requests = proxy.hold_requests_to("update");
    let lease = a.acquire("a").ttl(2 * TTL).await.unwrap();
    bounded(requests.held(1)).await;
    assert!(matches!(lease.lost().await, LostReason::OutOfReach { .. }));
    let successor = b.acquire("a").renew(false).await.unwrap();
    let before = document(&database, "a").await;
    requests.release();
    // It is sent behind the renewals, through the same proxy, and they are answered first or not at all.
    assert!(lease.renew().await.is_err());
    assert!(a.acquire("other").await.unwrap().is_valid());
    assert_eq!(document(&database, "a").await, before);
    assert!(successor.is_valid());
}

fn grant_id(document: &Document) -> String {
    document.get_document("grant").unwrap().get_str("id").unwrap().to_owned()
}
