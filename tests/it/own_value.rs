//! A caller's own value, for services that grant leases to others.

use std::time::Duration;

use mongo_lease::mongodb::bson::{DateTime, Document};
use mongo_lease::{Attempt, LeaseManager, Released};

use crate::common::{TryOnce, builder, document, setup};
use crate::lent::{behind_a_proxy, lent_database};
use crate::patience::bounded;

#[tokio::test]
async fn asking_again_with_the_same_value_is_granted_again() {
    let (database, leases) = setup().await;
    let first = leases.acquire("a").value("request 7").await.unwrap();
    let found = document(&database, "a").await.unwrap();
    let Attempt::Granted(again) = leases.acquire("a").value("request 7").try_once().await.unwrap()
    else {
        panic!("refused to itself");
    };
    assert_eq!((first.value(), again.value()), ("request 7", "request 7"));
    assert!(again.token().unwrap() >= first.token().unwrap());
    let prolonged = document(&database, "a").await.unwrap();
    assert_eq!(grant_id(&prolonged), grant_id(&found), "it is the same grant");
    assert!(expiry(&prolonged) >= expiry(&found));
    assert_ne!(prolonged, found, "it was prolonged, and not only found");
    let Attempt::Busy(held) = leases.acquire("a").value("request 8").try_once().await.unwrap()
    else {
        panic!("granted to another value");
    };
    assert_eq!(held.value.as_deref(), Some("request 7"));
    assert_eq!(leases.release("a", "request 7").await.unwrap(), Released::Released);
}

/// A shorter ttl the second time must not cut off the first holder, which was promised the longer one.
#[tokio::test]
async fn asking_again_never_shortens_the_lease() {
    let (database, leases) = setup().await;
    let long = Duration::from_secs(60);
    let first = leases.acquire("a").value("mine").ttl(long).renew(false).await.unwrap();
    let before = document(&database, "a").await.unwrap();
    let second = leases.acquire("a").value("mine").ttl(long / 60).renew(false).await.unwrap();
    second.lost().await;
    let after = document(&database, "a").await.unwrap();
    assert!(expiry(&after) >= expiry(&before));
    assert!(first.is_valid());
    assert!(leases.try_acquire("a").await.unwrap().granted().is_none());
}

#[tokio::test]
async fn dropping_a_second_call_does_not_free_the_first_ones_lease() {
    let (server, database) = lent_database().await;
    let direct = builder(&database).build().await.unwrap();
    let first = direct.acquire("a").value("mine").await.unwrap();

    let (proxy, through) = behind_a_proxy(&server, &database).await;
    let leases = LeaseManager::builder(&through).build().await.unwrap();
    let replies = proxy.hold_replies_to("findAndModify");
    let second = tokio::spawn(leases.acquire("a").value("mine").into_future());
    bounded(replies.held(1)).await;
    second.abort();
    assert!(second.await.unwrap_err().is_cancelled());
    replies.release();
    // The shutdown ends after the answer and all its consequences.
    leases.shutdown().await;
    let found = document(&database, "a").await.expect("the first one's lease");
    assert_eq!(found.get_str("value").ok(), Some("mine"));
    first.renew().await.unwrap();
    assert_eq!(first.release().await.unwrap(), Released::Released);
}

#[tokio::test]
async fn the_plain_form_works_by_name_and_value_alone() {
    let (database, leases) = setup().await;
    let key = leases.acquire("a").value("theirs").await.unwrap().detach().await.unwrap();
    assert_eq!(key.value(), "theirs");
    assert_eq!(leases.release("a", "mine").await.unwrap(), Released::NotHeld);
    assert_eq!(leases.release("a", "theirs").await.unwrap(), Released::Released);
    assert_eq!(document(&database, "a").await, None);
}

fn grant_id(document: &Document) -> String {
    document.get_document("grant").unwrap().get_str("id").unwrap().to_owned()
}

fn expiry(document: &Document) -> DateTime {
    *document.get_datetime("expiresAt").unwrap()
}
