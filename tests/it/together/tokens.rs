//! The tokens of grants that were made in batches: always in the order of the grants.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use mongo_lease::mongodb::Database;
use mongo_lease::mongodb::bson::{DateTime, doc};
use mongo_lease::{Attempt, LeaseManager, Token, Tuning};
use mongo_lease_testbed::{Proxy, TestDatabase};

use super::{FILLERS, GrantRecord, answer, assert_in_order, granted, names, start_calls};
use crate::blocked::free_and_blocked;
use crate::common::{assert_done, builder, document};
use crate::lent::{behind_a_proxy, lent_database};
use crate::patience::{bounded, until, until_blocked};
use crate::spy::Spy;

/// An operator frees the lease, and somebody else acquires it: returns the new token.
async fn change_hands(database: &TestDatabase, others: &LeaseManager) -> (Token, String) {
    let granted = async || document(database, "a").await;
    let value = until("it is granted", granted).await.get_str("value").unwrap().to_owned();
    assert_done(others.release("a", &value).await.unwrap(), "by name and value");
    let lease = others.try_acquire("a").await.unwrap().granted().expect("it is free");
    let told = GrantRecord::of(&lease);
    drop(lease.detach().await.unwrap());
    (told.token, told.value)
}

/// One command of this manager takes so long that the next ones get four times that: else they would be cut off.
async fn slow_down(database: &TestDatabase, leases: &LeaseManager, proxy: &Proxy) {
    const SLOW: Duration = Duration::from_secs(3);
    let replies = proxy.hold_replies_to("findAndModify");
    let started = Instant::now();
    let slow = start_calls(leases, ["slow"]);
    let is_granted = async || document(database, "slow").await.filter(|_| started.elapsed() > SLOW);
    until("it was granted a while ago", is_granted).await;
    replies.release();
    drop(granted(slow).await);
}

/// A manager whose attempts last this long, at this database.
async fn patient(own: &Database, attempt: Duration) -> LeaseManager {
    let tuning = Tuning::default().attempt_timeout(attempt);
    let leases = LeaseManager::builder(own).ttl(Duration::from_secs(60)).tuning(tuning);
    leases.build().await.unwrap()
}

/// `a` is granted; then the command waits, and `a` goes to somebody else; then `b` is granted, and the command has a
/// time that is later than that.
#[tokio::test]
async fn a_lease_that_changed_hands_in_the_batch_is_not_granted() {
    let (server, database) = lent_database().await;
    let (proxy, own) = behind_a_proxy(&server, &database).await;
    let leases = patient(&own, Duration::from_secs(30)).await;
    let others = builder(&database).build().await.unwrap();
    let mut session = free_and_blocked(&database, &["b"]).await;
    slow_down(&database, &leases, &proxy).await;
    let before = server.command_counts().await;
    let fillers = start_calls(&leases, names("filler", FILLERS));
    let [a, b, c] = <[_; 3]>::try_from(start_calls(&leases, ["a", "b", "c"])).unwrap();
    until_blocked(&server, &database).await;
    let (token, value) = change_hands(&database, &others).await;
    assert!(!a.is_finished() && !c.is_finished(), "they are not in one command");
    let counts = server.command_counts().await.since(&before);
    session.abort_transaction().await.unwrap();

    let Attempt::Busy(held) = answer(a).await else {
        panic!("granted, and somebody else has it");
    };
    assert_eq!(held.value.as_deref(), Some(&*value));
    let held = granted(fillers.into_iter().chain([b, c]).collect()).await;
    let mut told: Vec<_> = held.iter().map(GrantRecord::of).collect();
    // The command's own time is later than the current holder's token.
    let [.., of_b, of_c] = told.as_slice() else { panic!("{told:?}") };
    assert!(of_b.token > token && of_c.token == of_b.token, "{told:?}, {token:?}");
    assert!(counts.update >= 1, "{counts:?}");
    told.retain(|told| told.name != "b");
    assert_in_order(&database, &told).await;
}

/// The query behind a batch sees all that it wrote: it reads at the command's time, which is the token.
///
/// The first calls hang, so those behind them travel in a batch: in each run, and not by chance.
#[tokio::test]
async fn the_lookup_after_a_batch_reads_after_the_token_time() {
    let (server, database) = lent_database().await;
    let proxy = Proxy::start(server.mongod().address());
    let spy = Spy::default();
    let client = proxy.client_with(|options| spy.listen(options)).await;
    // Long enough for one batch on any machine: a second attempt would be blocked with the first calls.
    let leases = patient(&database.through(&client), Duration::from_secs(15)).await;
    let alone = proxy.hold_requests_to("findAndModify");
    let first = start_calls(&leases, names("first", FILLERS));
    bounded(alone.held(1)).await;
    spy.commands();
    let together = granted(start_calls(&leases, names("lease", 20))).await;
    let commands = spy.commands();
    alone.release();
    let _first = granted(first).await;

    let tokens: HashMap<&str, Token> =
        together.iter().map(|lease| (lease.name(), lease.token().unwrap())).collect();
    let mut looked_up = HashSet::new();
    for (_, find) in commands.iter().filter(|(name, _)| name == "find") {
        let read_concern = find.get_document("readConcern").unwrap();
        assert_eq!(read_concern.get_str("level").ok(), Some("majority"));
        let after = read_concern.get_timestamp("afterClusterTime").map(Token::from);
        let names = find.get_document("filter").unwrap().get_document("name").unwrap();
        for name in names.get_array("$in").unwrap().iter().map(|name| name.as_str().unwrap()) {
            // The token is the time of the batch.
            let token = tokens.get(name);
            assert!(token.is_none() || token == after.as_ref().ok(), "{name}: {find}");
            looked_up.insert(name);
        }
    }
    assert!(tokens.keys().all(|name| looked_up.contains(name)), "{looked_up:?}");
}

/// The control: a caller that believes in the time of such a command alone has a token that outranks a later holder's.
#[tokio::test]
async fn trusting_the_batch_time_alone_outranks_a_later_holder() {
    let (server, database) = lent_database().await;
    let others = builder(&database).build().await.unwrap();
    let mut session = free_and_blocked(&database, &["b"]).await;
    let statement = |name: &str| {
        let until = DateTime::from_millis(DateTime::now().timestamp_millis() + 60_000);
        let grant = doc! { "$set": { "value": "believer", "expiresAt": until } };
        doc! { "q": { "name": name }, "u": grant, "upsert": true }
    };
    let update = doc! {
        "update": "locks",
        "updates": [statement("a"), statement("b")],
        "ordered": false,
        "writeConcern": { "w": "majority" },
    };
    let asking: Database = database.through(&server.client().await);
    let asking = tokio::spawn(async move { asking.run_command(update).await.unwrap() });
    until_blocked(&server, &database).await;
    let (token, value) = change_hands(&database, &others).await;
    session.abort_transaction().await.unwrap();
    let reply = bounded(asking).await.unwrap();

    let believed = Token::from(reply.get_timestamp("operationTime").unwrap());
    let holder = document(&database, "a").await.unwrap();
    assert_eq!(holder.get_str("value").ok(), Some(&*value));
    assert!(believed > token, "{believed:?} {token:?}");
    // The check of these tests detects it.
    let told = GrantRecord { name: "a".to_owned(), value: "believer".to_owned(), token: believed };
    let judged = tokio::spawn(async move { assert_in_order(&database, &[told]).await }).await;
    assert!(judged.unwrap_err().is_panic());
}
