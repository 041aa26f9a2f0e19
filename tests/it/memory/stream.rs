//! The change stream of a manager, beside a database that is away again and again.

use std::time::Duration;

use mongo_lease::MemoryStore;

use super::manager;
use crate::common::assert_done;
use crate::patience::{Listener, pass};

/// How long after the database has come back a stream is open, whatever was before: twice the longest delay.
const SOON: Duration = Duration::from_secs(20);
/// A read of the stream takes 10 s, and its ping follows after 250 ms.
const AT_A_PING: Duration = Duration::from_millis(9_900);

/// Each time no command gets through, neither with the stream nor without it: it is not in the way.
#[tokio::test(start_paused = true)]
async fn a_stream_is_open_soon_after_the_twentieth_outage() {
    let store = MemoryStore::new();
    let client = store.client();
    let (holder, leases) = (manager(&store).await, manager(&client).await);
    let lease = holder.acquire("a").ttl(Duration::from_secs(3_600)).await.unwrap();
    let mut events = Listener::of(&leases);
    let waiting = tokio::spawn(leases.acquire("a").wait_forever().into_future());
    for outage in 0..20 {
        let open = tokio::time::timeout(SOON, events.watching()).await;
        assert!(open.is_ok(), "not after outage {outage}");
        pass(AT_A_PING).await;
        let hang = client.hang();
        let reason = events.polling().await;
        assert!(reason.starts_with("no other command gets through"), "{reason}");
        pass(Duration::from_secs(3)).await;
        drop(hang);
    }
    assert_done(lease.release().await.unwrap(), "handed off");
    assert!(waiting.await.unwrap().unwrap().is_valid());
}
