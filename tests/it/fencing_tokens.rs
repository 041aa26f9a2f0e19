//! Fencing tokens rise with every grant of a name, whatever happens in between.

use std::sync::{Arc, Mutex};

use mongo_lease::mongodb::bson::{Document, Timestamp, doc};
use mongo_lease::{Attempt, Token};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::common::{SHORT_TTL, builder, document, setup, short_or_long};
use crate::lent::lent_setup;
use crate::patience::locks;

const TASKS: usize = 8;

/// The tokens of a name, in the order of their grants.
struct Name {
    tokens: Mutex<Vec<Token>>,
    asking: Semaphore,
}

/// It takes as long as the disk needs for the journalled writes; several names share each of them.
#[tokio::test(flavor = "multi_thread")]
async fn tokens_rise_strictly_over_grants_from_8_tasks() {
    let grants_wanted = short_or_long(200, 10_000);
    let (_database, leases) = setup().await;
    // Two ask at a time, so that one of them loses; more would only slow it down.
    let name = |_| Name { tokens: Mutex::default(), asking: Semaphore::new(2) };
    let names: Arc<[Name]> = (0..TASKS).map(name).collect();
    let mut tasks = JoinSet::new();
    for task in 0..TASKS {
        let (leases, names) = (leases.clone(), Arc::clone(&names));
        tasks.spawn(async move {
            // Each task goes through all the names, so each name is granted to all the tasks.
            let mut at = task;
            let grants = |name: &Name| name.tokens.lock().unwrap().len();
            while names.iter().map(grants).sum::<usize>() < grants_wanted {
                at = (at + 1) % TASKS;
                let _turn = names[at].asking.acquire().await.unwrap();
                let asked = leases.try_acquire(format!("name:{at}")).await.unwrap();
                if let Attempt::Granted(lease) = asked {
                    // The order in this list is the order of the grants: the lease itself ensures that.
                    names[at].tokens.lock().unwrap().push(lease.token().unwrap());
                    lease.release().await.unwrap();
                }
            }
        });
    }
    tasks.join_all().await;
    for (number, name) in names.iter().enumerate() {
        let tokens = name.tokens.lock().unwrap();
        assert!(tokens.len() > grants_wanted / TASKS / 2, "{} grants", tokens.len());
        assert!(tokens.is_sorted_by(|earlier, later| earlier < later), "name:{number}");
    }
}

#[tokio::test]
async fn tokens_rise_over_deletions_and_take_overs() {
    let (database, leases) = setup().await;
    let locks = locks(&database);
    let mut last = leases.acquire("a").await.unwrap().detach().await.unwrap().token();
    let mut expired = Vec::new();
    for _ in 0..2 {
        // An operator, the TTL monitor, or another program.
        locks.delete_many(doc! {}).await.unwrap();
        let lease = leases.acquire("a").await.unwrap();
        let token = lease.token().unwrap();
        assert!(token > last);
        lease.release().await.unwrap();
        let expiring = leases.acquire("a").ttl(SHORT_TTL).renew(false).await.unwrap();
        assert!(expiring.token().unwrap() > token);
        let over = leases.acquire("a").ttl(SHORT_TTL).renew(false).await.unwrap();
        last = over.token().unwrap();
        assert!(last > token);
        expired.extend([expiring, over]);
    }
    // The collection itself, with its indexes.
    locks.drop().await.unwrap();
    let _ = builder(&database).ensure_indexes(true).build().await.unwrap();
    assert!(leases.acquire("a").await.unwrap().token().unwrap() > last);
}

#[tokio::test]
async fn tokens_rise_over_a_restart_of_the_server() {
    let (server, _database, leases) = lent_setup().await;
    let kept = leases.acquire("kept").ttl(SHORT_TTL).renew(false).await.unwrap();
    let first = kept.token().unwrap();
    let released = leases.acquire("released").await.unwrap();
    let before = released.token().unwrap();
    released.release().await.unwrap();
    server.restart().await;
    assert!(leases.acquire("released").await.unwrap().token().unwrap() > before);
    assert!(leases.acquire("kept").await.unwrap().token().unwrap() > first);
}

/// The token is the time in the oplog of a write of the grant: of the insert, unless an attempt was repeated.
#[tokio::test]
async fn a_token_is_the_oplog_time_of_its_grant() {
    let (database, leases) = setup().await;
    let lease = leases.acquire("a").await.unwrap();
    let token = lease.token().unwrap();
    let id = document(&database, "a").await.unwrap().get_object_id("_id").unwrap();
    lease.renew().await.unwrap();
    assert_eq!(lease.token().unwrap(), token, "a renewal is no grant");
    let oplog = database.client().database("local").collection::<Document>("oplog.rs");
    let entry = oplog.find_one(doc! { "ts": Timestamp::from(token) }).await.unwrap().unwrap();
    assert_eq!(entry.get_str("ns").unwrap(), format!("{}.locks", database.name()));
    let part = if entry.get_str("op").unwrap() == "i" { "o" } else { "o2" };
    assert_eq!(entry.get_document(part).unwrap().get_object_id("_id").unwrap(), id);
}
