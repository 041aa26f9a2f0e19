//! The delayed write. The server takes `$$NOW` when a command arrives, and a command may then wait for a document. A
//! newer renewal overtakes it, and the older one must not shorten the lease.

use std::time::Duration;

use mongo_lease::mongodb::bson::{DateTime, Document, doc};
use mongo_lease::mongodb::{ClientSession, Collection, Database};
use mongo_lease_testbed::{Server, TestDatabase};

use crate::common::{builder, document, migrated};
use crate::patience::{locks, until_blocked};

const TTL: Duration = Duration::from_secs(10);
/// In most rounds the older write comes last. A busy machine may need more rounds.
const ROUNDS: usize = 12;
const ROUNDS_MAX: usize = 100;

/// A transaction that keeps all others from the document. Its end changes nothing.
async fn transaction_on(database: &Database, name: &str) -> ClientSession {
    let mut session = database.client().start_session().await.unwrap();
    session.start_transaction().await.unwrap();
    let change = doc! { "$set": { "touched": true } };
    let locks = locks(database);
    let changed = locks.update_one(doc! { "name": name }, change).session(&mut session).await;
    assert_eq!(changed.unwrap().matched_count, 1);
    session
}

/// Sends an older write, which has to wait, and a newer one; returns the document after the newer one and after both.
/// Repeats until `came_last` says that the older one did.
async fn overtake<A, B>(
    server: &Server,
    database: &TestDatabase,
    write: impl Fn() -> (A, B),
    came_last: impl Fn(&Document, &Document) -> bool,
) -> Vec<(Document, Document)>
where
    A: Future<Output = ()> + Send + 'static,
    B: Future<Output = ()>,
{
    let mut rounds: Vec<(Document, Document)> = Vec::new();
    let is_enough = |rounds: &[(Document, Document)]| {
        let did = rounds.iter().any(|(between, after)| came_last(between, after));
        rounds.len() >= if did { ROUNDS } else { ROUNDS_MAX }
    };
    while !is_enough(&rounds) {
        let (older, newer) = write();
        let mut blocker = transaction_on(database, "a").await;
        let older = tokio::spawn(older);
        // By now the server retries less and less often.
        until_blocked(server, database).await;
        blocker.abort_transaction().await.unwrap();
        newer.await;
        let between = document(database, "a").await.unwrap();
        older.await.unwrap();
        rounds.push((between, document(database, "a").await.unwrap()));
    }
    rounds
}

fn ends(document: &Document) -> DateTime {
    *document.get_datetime("expiresAt").unwrap()
}

#[tokio::test]
async fn a_late_renewal_does_not_shorten_a_newer_one() {
    let server = Server::start();
    let database = migrated(&server).await;
    let leases = builder(&database).build().await.unwrap();
    let lease = leases.acquire("a").ttl(TTL).renew(false).await.unwrap();
    let lease = std::sync::Arc::new(lease);

    // The echo is that of the last writer: it shows that the older one came last, and changed nothing else.
    let echo = |document: &Document| {
        document.get_document("grant").unwrap().get_i64("sentMicros").unwrap()
    };
    let came_last = |between: &Document, after: &Document| echo(after) < echo(between);
    let renew = || {
        let (older, newer) = (lease.clone(), lease.clone());
        (async move { older.renew().await.unwrap() }, async move { newer.renew().await.unwrap() })
    };
    let rounds = overtake(&server, &database, renew, came_last).await;

    for (between, after) in &rounds {
        assert!(ends(after) >= ends(between), "it fell from {between} to {after}");
    }
    let overtaken = rounds.iter().any(|(between, after)| came_last(between, after));
    assert!(overtaken, "in no round the older renewal came last");
    assert!(lease.is_valid());
}

/// The negative control: with the usual plain `$set` the same order of events shortens the lease.
#[tokio::test]
async fn a_late_renewal_by_a_plain_set_does_shorten_a_newer_one() {
    let server = Server::start();
    let database = migrated(&server).await;
    locks(&database).insert_one(doc! { "name": "a", "expiresAt": DateTime::now() }).await.unwrap();

    let renew = |locks: Collection<Document>| async move {
        let until = doc! { "$add": ["$$NOW", 10_000] };
        let pipeline = vec![doc! { "$set": { "expiresAt": until, "n": { "$rand": {} } } }];
        locks.update_one(doc! { "name": "a" }, pipeline).await.unwrap();
    };
    let both = || (renew(locks(&database)), renew(locks(&database)));
    let fell = |between: &Document, after: &Document| ends(after) < ends(between);
    let rounds = overtake(&server, &database, both, fell).await;
    let fell = rounds.iter().any(|(between, after)| fell(between, after));
    assert!(fell, "the expiry fell in no round: the other test shows nothing");
}
