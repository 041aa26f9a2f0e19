//! A caller's own value, for services that grant leases to others.

use std::time::Duration;

use mongo_lease::mongodb::bson::{DateTime, Document};
use mongo_lease::{Attempt, Released};

use crate::common::{TryOnce, document, setup};
use crate::lent::{Proxied, proxied};
use crate::patience::bounded;
use crate::permits::dropped;

/// A shorter ttl the second time must not cut off the first holder, which was promised the longer one.
#[tokio::test]
async fn asking_again_with_the_same_value_is_granted_for_no_shorter_time() {
    let (database, leases) = setup().await;
    let minute = Duration::from_secs(60);
    let ask = |value: &str, ttl| leases.acquire("a").value(value).ttl(ttl).renew(false).try_once();
    let first = ask("request 7", minute).await.unwrap().granted().expect("it is free");
    let found = document(&database, "a").await.unwrap();
    let again = ask("request 7", minute / 60).await.unwrap();
    let again = again.granted().expect("it is the caller's own");
    assert_eq!((first.value(), again.value()), ("request 7", "request 7"));
    assert!(again.token().unwrap() >= first.token().unwrap());
    let later = document(&database, "a").await.unwrap();
    assert_eq!(grant_id(&later), grant_id(&found), "it is the same grant");
    assert!(expiry(&later) >= expiry(&found));
    assert_ne!(later, found, "it was written, and not only found");
    again.lost().await;
    assert!(first.is_valid());
    let Attempt::Busy(held) = ask("request 8", minute).await.unwrap() else {
        panic!("granted to another value");
    };
    assert_eq!(held.value.as_deref(), Some("request 7"));
    assert_eq!(leases.release("a", "request 7").await.unwrap(), Released::Released);
}

#[tokio::test]
async fn dropping_a_second_call_does_not_free_the_first_ones_lease() {
    let Proxied { _server, database, proxy, slow, direct } = proxied(|builder| builder).await;
    let first = direct.acquire("a").value("mine").await.unwrap();
    let replies = proxy.hold_replies_to("findAndModify");
    let second = tokio::spawn(slow.acquire("a").value("mine").into_future());
    bounded(replies.held(1)).await;
    dropped(second).await;
    replies.release();
    // The shutdown ends after the answer and all its consequences.
    slow.shutdown().await;
    let found = document(&database, "a").await.expect("the first one's lease");
    assert_eq!(found.get_str("value").ok(), Some("mine"));
    first.renew().await.unwrap();
    assert_eq!(first.release().await.unwrap(), Released::Released);
}

fn grant_id(document: &Document) -> String {
    document.get_document("grant").unwrap().get_str("id").unwrap().to_owned()
}

fn expiry(document: &Document) -> DateTime {
    *document.get_datetime("expiresAt").unwrap()
}
