//! The delayed write. The server takes `$$NOW` when a command arrives, and a command may then wait for a document. A
//! newer renewal overtakes it, and the older one must not shorten the lease.

use std::time::Duration;

use futures_util::StreamExt;
use mongo_lease::mongodb::bson::{DateTime, doc};
use mongo_lease_testbed::{Server, TestDatabase};

use crate::blocked::transaction_on;
use crate::lent::{lent_database, lent_setup};
use crate::patience::{bounded, locks, until, until_blocked};

const TTL: Duration = Duration::from_secs(60);
/// In about half of the rounds the older write comes last.
const ROUNDS: usize = 12;
const ROUNDS_MAX: usize = 100;

/// The document as a write has left it: the end of the lease, and the echo of the last writer where there is one.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Left {
    ends: Option<DateTime>,
    echo: Option<i64>,
}

/// Sends an older write, which has to wait, and a newer one; returns what the first of them to be made has left, and
/// what the second has. Repeats until `came_last` says that the older one did.
///
/// The changes tell the order, and both writes wait when the document becomes free: so it is the server's alone.
async fn overtake<F: Future<Output = ()> + Send + 'static>(
    server: &Server,
    database: &TestDatabase,
    write: impl Fn() -> F,
    came_last: impl Fn(Left, Left) -> bool,
) -> Vec<[Left; 2]> {
    let namespace = format!("{}.locks", database.name());
    let waits = doc! { "currentOp": 1, "ns": namespace, "writeConflicts": { "$gte": 1 } };
    let mut changes = locks(database).watch().await.unwrap();
    let mut rounds = Vec::new();
    let (mut left, mut has_come_last) = (Left::default(), false);
    while rounds.len() < if has_come_last { ROUNDS } else { ROUNDS_MAX } {
        let mut blocker = transaction_on(database, doc! { "name": "a" }).await;
        let older = tokio::spawn(write());
        // By now the server retries less and less often.
        until_blocked(server, database).await;
        let newer = tokio::spawn(write());
        until("both wait for the transaction", async || {
            let reply = server.admin(waits.clone()).await;
            (reply.get_array("inprog").unwrap().len() == 2).then_some(())
        })
        .await;
        blocker.abort_transaction().await.unwrap();
        older.await.unwrap();
        newer.await.unwrap();
        let mut round = [Left::default(); 2];
        for after in &mut round {
            let change = bounded(changes.next()).await.expect("the stream goes on").unwrap();
            // A change of a small document is a replacement.
            let updated = match change.update_description {
                Some(update) => update.updated_fields,
                None => change.full_document.expect("a replacement"),
            };
            left.ends = updated.get_datetime("expiresAt").ok().copied().or(left.ends);
            left.echo = updated.get_i64("grant.sentMicros").ok().or(left.echo);
            *after = left;
        }
        has_come_last |= came_last(round[0], round[1]);
        rounds.push(round);
    }
    assert!(has_come_last, "in no round the older write came last");
    rounds
}

#[tokio::test]
async fn a_late_renewal_does_not_shorten_a_newer_one() {
    let (server, database, leases) = lent_setup().await;
    let lease = leases.acquire("a").ttl(TTL).renew(false).await.unwrap();
    let lease = std::sync::Arc::new(lease);
    let renew = || {
        let lease = lease.clone();
        async move { lease.renew().await.unwrap() }
    };
    // The echo is that of the last writer: it shows that the older one came last, and changed nothing else.
    let rounds = overtake(&server, &database, renew, |first, last| last.echo < first.echo).await;
    for [first, last] in &rounds {
        assert!(last.ends >= first.ends, "it fell from {first:?} to {last:?}");
    }
    assert!(lease.is_valid());
}

/// The negative control: with the usual plain `$set` the same order of events shortens the lease.
#[tokio::test]
async fn a_late_renewal_by_a_plain_set_does_shorten_a_newer_one() {
    let (server, database) = lent_database().await;
    locks(&database).insert_one(doc! { "name": "a", "expiresAt": DateTime::now() }).await.unwrap();
    let renew = || {
        let locks = locks(&database);
        async move {
            let until = doc! { "$add": ["$$NOW", 10_000] };
            let pipeline = vec![doc! { "$set": { "expiresAt": until, "n": { "$rand": {} } } }];
            locks.update_one(doc! { "name": "a" }, pipeline).await.unwrap();
        }
    };
    // It fails where the expiry falls in no round: then the other test shows nothing.
    overtake(&server, &database, renew, |first, last| last.ends < first.ends).await;
}
