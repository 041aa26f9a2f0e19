//! A caller's own value, for services that grant leases to others.

use mongo_lease::Released;

use crate::common::document;
use crate::lent::{Proxied, proxied};
use crate::patience::bounded;
use crate::permits::dropped;

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
