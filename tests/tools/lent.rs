//! Servers of which a test has one for itself, to stop it, to fault it, or to count its commands.
//!
//! A start costs a second of a processor, and that of three nodes six. So the tests hand on the servers that they leave
//! in order, and there are few of them: a test waits for its turn. None has two at a time.

use std::collections::VecDeque;
use std::ops::Deref;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use mongo_lease::mongodb::Database;
use mongo_lease::mongodb::bson::{Bson, doc};
use mongo_lease::{LeaseManager, LeaseManagerBuilder, Tuning};
use mongo_lease_testbed::{Proxy, ReplicaSet, Server, TestDatabase};
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::common::{builder, migrated};

/// How long a server may take to be rid of the clients of the test before.
const QUIET_AFTER: Duration = Duration::from_secs(2);
/// After this time they may be there and do nothing: in a test that goes on, some connections of a client that was
/// dropped are closed ten seconds later.
const IDLE_AFTER: Duration = Duration::from_millis(300);

/// How long an attempt takes that is soon repeated. A connection answers sooner, on a busy machine too.
const SOON_REPEATED: Duration = Duration::from_millis(500);

/// The name of clients that do not count: those of the testbed, and the one that looks.
const LOOKING: &str = "mongo-lease-testbed";

const TRANSACTION_LIMIT: &str = "transactionLifetimeLimitSeconds";
/// Longer than any test.
const LONG_TRANSACTION: i32 = 300;

/// The servers that nobody has. The first one is idle for the longest time.
static IDLE: Mutex<VecDeque<Server>> = Mutex::new(VecDeque::new());

/// The sets of three nodes that nobody has.
static IDLE_SETS: Mutex<Vec<ReplicaSet>> = Mutex::new(Vec::new());

/// How many servers there are, and how many sets of three.
static SERVERS: Semaphore = Semaphore::const_new(8);
static SETS: Semaphore = Semaphore::const_new(2);

/// A replica set of one, for one test at a time. Within a test its TTL monitor does not run, and no transaction ends by
/// itself.
pub(crate) struct LentServer {
    server: Option<Server>,
    _turn: SemaphorePermit<'static>,
}

/// A replica set of three nodes, for one test at a time, which may stop, kill or demote any of them.
pub(crate) struct LentSet {
    set: Option<ReplicaSet>,
    _turn: SemaphorePermit<'static>,
}

/// Three nodes that no other test uses meanwhile. All of them follow one primary.
pub(crate) async fn lent_set() -> LentSet {
    let turn = SETS.acquire().await.expect("it is never closed");
    let idle = IDLE_SETS.lock().unwrap().pop();
    let set = match idle {
        Some(set) => {
            for node in (0..3).filter(|node| set.node(*node).pid().is_none()) {
                set.restart(node).await;
            }
            set.wait_until_all_follow().await;
            set
        }
        None => ReplicaSet::start(),
    };
    LentSet { set: Some(set), _turn: turn }
}

/// A server that no other test uses meanwhile.
pub(crate) async fn lent_server() -> LentServer {
    let turn = SERVERS.acquire().await.expect("it is never closed");
    loop {
        let idle = IDLE.lock().unwrap().pop_front();
        let Some(server) = idle else { break };
        if is_in_order(&server).await {
            return LentServer { server: Some(server), _turn: turn };
        }
    }
    let server = Server::builder().ttl_monitor_sleep_secs(3_600);
    let server = server.parameter(TRANSACTION_LIMIT, LONG_TRANSACTION).start();
    LentServer { server: Some(server), _turn: turn }
}

/// From now on the server aborts a transaction that is open for so long. The next test has the usual limit again.
pub(crate) async fn limit_transactions(server: &Server, seconds: i32) {
    server.admin(doc! { "setParameter": 1, TRANSACTION_LIMIT: seconds }).await;
}

/// The same, with a database that has the indexes.
pub(crate) async fn lent_database() -> (LentServer, TestDatabase) {
    let server = lent_server().await;
    let database = migrated(&server).await;
    (server, database)
}

/// The same, with a manager.
pub(crate) async fn lent_setup() -> (LentServer, TestDatabase, LeaseManager) {
    let (server, database) = lent_database().await;
    let leases = builder(&database).build().await.unwrap();
    (server, database, leases)
}

/// A proxy before the server, and the database behind it, for a manager whose messages are held or lost.
pub(crate) async fn behind_a_proxy(server: &Server, database: &TestDatabase) -> (Proxy, Database) {
    let proxy = Proxy::start(server.mongod().address());
    let through = database.through(&proxy.client().await);
    (proxy, through)
}

/// A manager whose messages pass through a proxy, and one that is connected directly.
pub(crate) struct Proxied {
    pub(crate) _server: LentServer,
    pub(crate) database: TestDatabase,
    pub(crate) proxy: Proxy,
    pub(crate) slow: LeaseManager,
    pub(crate) direct: LeaseManager,
}

/// Both with these options, on a server that no other test uses meanwhile.
pub(crate) async fn proxied(
    options: impl Fn(LeaseManagerBuilder) -> LeaseManagerBuilder,
) -> Proxied {
    let (server, database) = lent_database().await;
    let (proxy, through) = behind_a_proxy(&server, &database).await;
    let slow = options(LeaseManager::builder(&through)).build().await.unwrap();
    let direct = options(builder(&database)).build().await.unwrap();
    Proxied { _server: server, database, proxy, slow, direct }
}

/// The same, and the first manager, which is connected already, soon repeats what is not answered. The other repeats
/// nothing that a busy machine takes long for.
pub(crate) async fn proxied_and_soon_repeated(
    options: impl Fn(LeaseManagerBuilder) -> LeaseManagerBuilder,
) -> Proxied {
    let mut proxied = proxied(&options).await;
    let through = proxied.database.through(&proxied.proxy.client().await);
    let soon = Tuning::default().attempt_timeout(SOON_REPEATED);
    let slow = options(LeaseManager::builder(&through).tuning(soon)).build().await.unwrap();
    slow.acquire("the connection").await.unwrap().release().await.unwrap();
    proxied.slow = slow;
    proxied
}

/// Ends what the test before has left, and returns whether nothing of it is left.
async fn is_in_order(server: &Server) -> bool {
    // First the commands that hang in a fail point: it is not off before they have ended.
    server.admin(doc! { "killAllSessions": [] }).await;
    server.admin(doc! { "configureFailPoint": "failCommand", "mode": "off" }).await;
    limit_transactions(server, LONG_TRANSACTION).await;
    // For ten seconds the server goes on with what disturbs nobody: the question of a client's monitor, and the read of
    // a change stream that has been killed and waits for an event.
    let of_others = doc! {
        "client": { "$exists": true },
        "appName": { "$ne": LOOKING },
        "command.hello": { "$exists": false },
        "killPending": { "$ne": true },
    };
    let look = doc! {
        "aggregate": 1,
        "pipeline": [{ "$currentOp": { "idleConnections": true } }, { "$match": of_others }],
        "cursor": {},
    };
    // One client for all looks: each command of `admin` makes one, and many of these keep a processor busy.
    let client = server.client_with(|options| options.app_name = Some(LOOKING.to_owned())).await;
    let admin = client.database("admin");
    let looked = Instant::now();
    let mut is_quiet = false;
    while !is_quiet && looked.elapsed() < QUIET_AFTER {
        let reply = admin.run_command(look.clone()).await.unwrap();
        let others = reply.get_document("cursor").unwrap().get_array("firstBatch").unwrap();
        let is_idle = |other: &Bson| {
            let other = other.as_document().expect("a connection");
            other.get_bool("active").is_ok_and(|active| !active)
        };
        let are_idle = looked.elapsed() > IDLE_AFTER && others.iter().all(is_idle);
        is_quiet = others.is_empty() || are_idle;
    }
    let hello = admin.run_command(doc! { "hello": 1 }).await.unwrap();
    client.shutdown().immediate(true).await;
    is_quiet && hello.get_bool("isWritablePrimary").unwrap()
}

impl Deref for LentServer {
    type Target = Server;

    fn deref(&self) -> &Server {
        self.server.as_ref().expect("it is there until it is dropped")
    }
}

impl Drop for LentServer {
    fn drop(&mut self) {
        let Some(server) = self.server.take() else { return };
        // A test that fails may leave anything behind, and one that killed the server, nothing.
        if !std::thread::panicking() && server.mongod().pid().is_some() {
            server.mongod().resume();
            IDLE.lock().unwrap().push_back(server);
        }
    }
}

impl Deref for LentSet {
    type Target = ReplicaSet;

    fn deref(&self) -> &ReplicaSet {
        self.set.as_ref().expect("it is there until it is dropped")
    }
}

impl Drop for LentSet {
    fn drop(&mut self) {
        let Some(set) = self.set.take() else { return };
        if !std::thread::panicking() {
            for node in (0..3).filter(|node| set.node(*node).pid().is_some()) {
                set.node(node).resume();
            }
            IDLE_SETS.lock().unwrap().push(set);
        }
    }
}
