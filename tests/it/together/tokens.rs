//! The tokens of grants that were made in batches: always in the order of the grants.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use mongo_lease::mongodb::ClientSession;
use mongo_lease::mongodb::Database;
use mongo_lease::mongodb::bson::{Bson, DateTime, doc};
use mongo_lease::{Attempt, LeaseManager, Released, Token, Tuning};
use mongo_lease_testbed::{Proxy, Server, TestDatabase};
use tokio::task::JoinSet;

use super::{FILLERS, GrantRecord, answer, assert_in_order, granted, names, start_calls};
use crate::common::{builder, document, migrated};
use crate::lent::{lent_database, lent_server};
use crate::patience::{bounded, locks, until, until_blocked};
use crate::spy::Spy;

const NAMES: usize = 8;
const TASKS: usize = 64;
const GRANTS: usize = 1_500;

/// Sixty-four tasks of two managers acquire and release the same leases.
struct Crowd {
    grants: Mutex<Vec<GrantRecord>>,
    is_over: AtomicBool,
}

impl Crowd {
    fn new() -> Arc<Crowd> {
        Arc::new(Crowd { grants: Mutex::default(), is_over: AtomicBool::new(false) })
    }

    async fn take_and_release(&self, leases: &LeaseManager, mut at: usize) {
        let names = names("lease", NAMES);
        while !self.is_over.load(Ordering::Relaxed) {
            at += 1;
            let Attempt::Granted(lease) = leases.try_acquire(&names[at % NAMES]).await.unwrap()
            else {
                continue;
            };
            // None where an operator was quicker, and a renewal has detected it.
            let token = lease.token().ok();
            let (name, value) = (lease.name().to_owned(), lease.value().to_owned());
            let told = token.map(|token| GrantRecord { name, value, token });
            let count = {
                let mut grants = self.grants.lock().unwrap();
                grants.extend(told);
                grants.len()
            };
            self.is_over.fetch_or(count >= GRANTS, Ordering::Relaxed);
            lease.release().await.unwrap();
        }
    }

    /// Frees every lease that it finds.
    async fn operate(&self, leases: &LeaseManager) -> usize {
        let names = names("lease", NAMES);
        let mut freed = 0;
        for name in names.iter().cycle() {
            if self.is_over.load(Ordering::Relaxed) {
                break;
            }
            let held = leases.get(name).await.unwrap();
            if let Some(value) = held.and_then(|held| held.value) {
                let released = leases.release(name, &value).await.unwrap();
                freed += usize::from(released == Released::Released);
            }
        }
        freed
    }

    /// Runs all tasks, and returns how many leases the operators have freed.
    async fn go(self: Arc<Crowd>, server: &Server, operators: usize) -> usize {
        let database = migrated(server).await;
        let mut managers = Vec::new();
        for _ in 0..3 {
            let own = database.through(&server.client().await);
            managers.push(LeaseManager::builder(&own).build().await.unwrap());
        }
        let before = server.command_counts().await;
        let mut tasks = JoinSet::new();
        for task in 0..TASKS {
            let (crowd, leases) = (Arc::clone(&self), managers[task % 2].clone());
            tasks.spawn(async move {
                crowd.take_and_release(&leases, task).await;
                0
            });
        }
        for _ in 0..operators {
            let (crowd, leases) = (Arc::clone(&self), managers[2].clone());
            tasks.spawn(async move { crowd.operate(&leases).await });
        }
        let freed = tasks.join_all().await.into_iter().sum();
        let counts = server.command_counts().await.since(&before);
        let grants = self.grants.lock().unwrap().clone();
        eprintln!("{} grants, {freed} freed by operators, {counts:?}", grants.len());
        assert!(counts.update > 50, "they did not travel together: {counts:?}");
        assert_in_order(&database, &grants).await;
        freed
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tokens_rise_with_two_managers_and_64_tasks_on_shared_leases() {
    let server = lent_server().await;
    Crowd::new().go(&server, 0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tokens_rise_where_operators_free_leases_while_they_are_taken() {
    let server = lent_server().await;
    let freed = Crowd::new().go(&server, 4).await;
    assert!(freed > 10, "{freed}");
}

/// A lease that is free, and that nobody can acquire before the transaction ends.
async fn in_a_transaction(database: &TestDatabase, name: &str) -> ClientSession {
    let free = doc! { "name": name, "value": "gone", "expiresAt": Bson::Null };
    locks(database).insert_one(free).await.unwrap();
    let mut session = database.client().start_session().await.unwrap();
    session.start_transaction().await.unwrap();
    let touch = doc! { "$set": { "touched": true } };
    let locks = locks(database);
    let touched = locks.update_one(doc! { "name": name }, touch).session(&mut session).await;
    assert_eq!(touched.unwrap().modified_count, 1);
    session
}

/// An operator frees the lease, and somebody else acquires it: returns the new token.
async fn change_hands(database: &TestDatabase, others: &LeaseManager) -> (Token, String) {
    let granted = async || document(database, "a").await;
    let value = until("it is granted", granted).await.get_str("value").unwrap().to_owned();
    assert_eq!(others.release("a", &value).await.unwrap(), Released::Released);
    let lease = others.try_acquire("a").await.unwrap().granted().expect("it is free");
    let told = GrantRecord::of(&lease);
    drop(lease.detach().await.unwrap());
    (told.token, told.value)
}

/// One command of this manager takes so long that the next ones get four times that: else they would be cut off.
async fn slow_down(database: &TestDatabase, leases: &LeaseManager, proxy: &Proxy) {
    const SLOW: Duration = Duration::from_secs(4);
    let replies = proxy.hold_replies_to("findAndModify");
    let started = Instant::now();
    let slow = start_calls(leases, ["slow"]);
    let is_granted = async || document(database, "slow").await.filter(|_| started.elapsed() > SLOW);
    until("it was granted a while ago", is_granted).await;
    replies.release();
    drop(granted(slow).await);
}

/// `a` is granted; then the command waits, and `a` goes to somebody else; then `b` is granted, and the command has a
/// time that is later than that.
#[tokio::test]
async fn a_lease_that_changed_hands_in_the_batch_is_not_granted() {
    let (server, database) = lent_database().await;
    let proxy = Proxy::start(server.mongod().address());
    let own = database.through(&proxy.client().await);
    let leases = LeaseManager::builder(&own).ttl(Duration::from_secs(60));
    let leases = leases
        .tuning(Tuning::default().attempt_timeout(Duration::from_secs(30)))
        .build()
        .await
        .unwrap();
    let others = builder(&database).build().await.unwrap();
    let mut session = in_a_transaction(&database, "b").await;
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
    let mut told = Vec::new();
    for call in fillers.into_iter().chain([b, c]) {
        told.push(GrantRecord::of(&answer(call).await.granted().expect("it is free")));
    }
    // The command's own time is later than the current holder's token.
    let [.., of_b, of_c] = told.as_slice() else { panic!("{told:?}") };
    assert!(of_b.token > token && of_c.token == of_b.token, "{told:?}, {token:?}");
    assert!(counts.update >= 1, "{counts:?}");
    told.retain(|told| told.name != "b");
    assert_in_order(&database, &told).await;
}

/// The query behind a batch sees all that it wrote: it reads at the command's time, which is the token.
#[tokio::test]
async fn the_lookup_after_a_batch_reads_after_the_token_time() {
    let (server, database) = lent_database().await;
    let (client, spy) = Spy::client(&server).await;
    let leases = LeaseManager::builder(&database.through(&client)).build().await.unwrap();
    spy.commands();
    let held = granted(start_calls(&leases, names("lease", 60))).await;
    let mut tokens: HashMap<String, Token> = HashMap::new();
    for lease in &held {
        tokens.insert(lease.name().to_owned(), lease.token().unwrap());
    }
    let mut looked_up = 0;
    for (_, look) in spy.commands().into_iter().filter(|(name, _)| name == "find") {
        let read_concern = look.get_document("readConcern").unwrap();
        assert_eq!(read_concern.get_str("level").ok(), Some("majority"));
        let after = Token::from(read_concern.get_timestamp("afterClusterTime").unwrap());
        let names = look.get_document("filter").unwrap().get_document("name").unwrap();
        for name in names.get_array("$in").unwrap() {
            assert_eq!(tokens[name.as_str().unwrap()], after);
            looked_up += 1;
        }
    }
    assert!(looked_up > 30, "{looked_up}");
}

/// The control: a caller that believes in the time of such a command alone has a token that outranks a later holder's.
#[tokio::test]
async fn trusting_the_batch_time_alone_outranks_a_later_holder() {
    let (server, database) = lent_database().await;
    let others = builder(&database).build().await.unwrap();
    let mut session = in_a_transaction(&database, "b").await;
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
