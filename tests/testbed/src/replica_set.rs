use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use mongodb::Client;
use mongodb::bson::{Document, doc, oid::ObjectId};
use mongodb::options::ClientOptions;
use tokio::task::JoinSet;

use crate::process::{DataPlace, Launch};
use crate::server::{PATIENCE, client_of};
use crate::{Error, Mongod, TestDatabase, apart, random};

const NODES: usize = 3;

/// Time limit for elections, on a busy machine.
const ELECTION_DEADLINE: Duration = Duration::from_secs(60);

/// How long one node may take to answer `hello`. A paused one never does.
const HELLO_PATIENCE: Duration = Duration::from_millis(500);

/// How often the nodes are queried.
const ASK_EVERY: Duration = Duration::from_millis(20);

/// A write that all nodes confirm within this time has not waited for a node without a primary.
const PROMPT: Duration = Duration::from_millis(150);

/// How many prompt writes in a row show that all nodes follow. On a machine too busy for that the start goes on.
const PROMPT_NOTES: u32 = 15;
const NOTES_MAX: u32 = 100;

/// For how long a primary that was made to step down is no candidate again.
const STEP_DOWN_SECONDS: i32 = 5;

/// A replica set of three nodes, for tests of failover.
///
/// Its elections are quick: a new primary is there 1 to 2 seconds after the old one is gone. The
/// start takes some 3 seconds, so only tests which need a failover should have one. As with
/// [`crate::Server`], its processes and data are gone when it is dropped or our process ends.
///
/// ```no_run
/// # async fn example() -> mongodb::error::Result<()> {
/// use mongo_lease_testbed::ReplicaSet;
/// use mongodb::bson::doc;
///
/// let set = ReplicaSet::start();
/// let orders = set.database().await.collection("orders");
/// let primary = set.primary().await;
/// set.node(primary).kill();
/// // The driver waits for the next primary.
/// orders.insert_one(doc! { "_id": 1 }).await?;
/// set.restart(primary).await;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct ReplicaSet {
    name: String,
    nodes: Vec<Arc<Mongod>>,
}

impl ReplicaSet {
    /// Starts three nodes, and returns when one is primary and all three take part in writes.
    ///
    /// Blocks its thread, and may be called from anywhere, as [`crate::Server::start`].
    ///
    /// # Panics
    ///
    /// When there is no server or it does not start, with what was tried and what to do.
    #[must_use]
    pub fn start() -> Self {
        Self::try_start_with(&[]).unwrap_or_else(|error| error.raise())
    }

    /// As [`ReplicaSet::start`], with its data as [`crate::ServerBuilder::on_disk`] has them.
    ///
    /// # Panics
    ///
    /// When there is no server or it does not start, with what was tried and what to do.
    #[must_use]
    pub fn start_on_disk() -> Self {
        let started = Self::start_nodes(&[], DataPlace::Disk);
        started.unwrap_or_else(|error| error.raise())
    }

    /// As [`ReplicaSet::start`] without a panic, all nodes with these server parameters. A restart keeps them.
    ///
    /// # Errors
    ///
    /// When there is no server or it does not start.
    pub fn try_start_with(parameters: &[(&str, &str)]) -> Result<Self, Error> {
        Self::start_nodes(parameters, DataPlace::default())
    }

    fn start_nodes(parameters: &[(&str, &str)], data: DataPlace) -> Result<Self, Error> {
        let name = random::name("testbed-");
        let parameters =
            parameters.iter().map(|&(name, value)| (name.to_owned(), value.to_owned()));
        let starts: Vec<_> = (0..NODES)
            .map(|_| {
                let mut launch = Launch { data, ..launch(&name) };
                launch.parameters.extend(parameters.clone());
                thread::spawn(move || Mongod::start(launch))
            })
            .collect();
        let nodes = starts
            .into_iter()
            .map(|start| start.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .map(|mongod| mongod.map(Arc::new))
            .collect::<Result<_, _>>()?;
        let set = Self { name, nodes };
        set.initiate()?;
        Ok(set)
    }

    /// The URI for clients, with all nodes and the name of the set.
    #[must_use]
    pub fn uri(&self) -> String {
        let addresses: Vec<_> = self.nodes.iter().map(|node| node.address()).collect();
        format!("mongodb://{}/?replicaSet={}", addresses.join(","), self.name)
    }

    /// One node, from 0 to 2, to pause, resume or kill it.
    ///
    /// # Panics
    ///
    /// When there is no such node.
    #[must_use]
    pub fn node(&self, index: usize) -> &Mongod {
        &self.nodes[index]
    }

    /// A new client, in the runtime of the caller.
    pub async fn client(&self) -> Client {
        self.client_with(|_| ()).await
    }

    /// A new client with options of its own, in the runtime of the caller.
    ///
    /// # Panics
    ///
    /// When the driver refuses the options.
    pub async fn client_with(&self, change: impl FnOnce(&mut ClientOptions)) -> Client {
        client_of(&self.uri(), change).await
    }

    /// A database with a name of its own, through a new client.
    pub async fn database(&self) -> TestDatabase {
        TestDatabase::of(&self.client().await)
    }

    /// The index of the primary, once there is one.
    ///
    /// If two nodes claim to be it (one is a former primary that was paused), the one elected last.
    ///
    /// # Panics
    ///
    /// When there is none for a minute.
    pub async fn primary(&self) -> usize {
        self.primary_where(|_| true).await
    }

    /// The index of the primary, once it is another node than `former`.
    ///
    /// # Panics
    ///
    /// When there is none for a minute.
    pub async fn wait_for_primary_other_than(&self, former: usize) -> usize {
        self.primary_where(move |index| index != former).await
    }

    /// Makes the primary step down, by force, and returns its index.
    ///
    /// Another node is primary soon after: [`ReplicaSet::wait_for_primary_other_than`].
    ///
    /// # Panics
    ///
    /// When the command fails.
    pub async fn step_down(&self) -> usize {
        let primary = self.primary().await;
        let command = doc! {
            "replSetStepDown": STEP_DOWN_SECONDS,
            "secondaryCatchUpPeriodSecs": 1,
            "force": true,
        };
        let reply = apart::admin(self.node(primary).uri(), command, PATIENCE).await;
        reply.unwrap_or_else(|error| error.raise());
        primary
    }

    /// Starts one node again on its old data and port, and returns when it takes part in writes.
    ///
    /// # Panics
    ///
    /// When it does not start, or when the set has no majority without it and gets none with it.
    pub async fn restart(&self, index: usize) {
        let mongod = Arc::clone(&self.nodes[index]);
        let restarted = apart::blocking(move || mongod.restart()).await;
        restarted.unwrap_or_else(|error| error.raise());
        self.wait_for_member(index).await;
    }

    /// Returns when this node is primary or secondary: it has caught up and takes part.
    async fn wait_for_member(&self, index: usize) {
        let uri = self.node(index).uri();
        let joined = apart::run(async move || {
            let client = apart::connect(&uri, HELLO_PATIENCE).await?;
            until("the node does not take part", async || {
                let hello = hello(&client).await?;
                let takes_part = ["isWritablePrimary", "secondary"]
                    .iter()
                    .any(|role| matches!(hello.get_bool(role), Ok(true)));
                takes_part.then_some(())
            })
            .await
        });
        joined.await.unwrap_or_else(|error| error.raise());
    }

    /// Returns when one node is primary and all three take part in writes, as [`ReplicaSet::start`] does.
    ///
    /// # Panics
    ///
    /// When it is not so in a minute.
    pub async fn wait_until_all_follow(&self) {
        let uris = self.node_uris();
        let deadline = Instant::now() + ELECTION_DEADLINE;
        let follow = apart::run(async move || wait_until_all_follow(uris, deadline).await);
        follow.await.unwrap_or_else(|error| error.raise());
    }

    async fn primary_where(&self, wanted: impl Fn(usize) -> bool + Send + 'static) -> usize {
        let uris = self.node_uris();
        let found = apart::run(async move || find_primary(uris, wanted).await).await;
        found.unwrap_or_else(|error| error.raise())
    }

    fn node_uris(&self) -> Vec<String> {
        self.nodes.iter().map(|node| node.uri()).collect()
    }

    fn initiate(&self) -> Result<(), Error> {
        let members: Vec<Document> = (0_i32..)
            .zip(&self.nodes)
            .map(|(id, node)| doc! { "_id": id, "host": node.address() })
            .collect();
        let config = doc! {
            "_id": &self.name,
            "members": members,
            "settings": {
                "electionTimeoutMillis": 1000,
                "heartbeatIntervalMillis": 200,
                "heartbeatTimeoutSecs": 1,
                "chainingAllowed": false,
            },
        };
        let uris = self.node_uris();
        apart::block_on(async move || {
            let deadline = Instant::now() + ELECTION_DEADLINE;
            let initiate = doc! { "replSetInitiate": config };
            // It queries the others, and gives them 1 s: a busy machine may need more than that.
            while let Err(error) =
                apart::admin_here(&uris[0], initiate.clone(), ELECTION_DEADLINE).await
            {
                if error.to_string().contains("AlreadyInitialized") {
                    break;
                }
                if Instant::now() > deadline {
                    return Err(error);
                }
                tokio::time::sleep(ASK_EVERY).await;
            }
            wait_until_all_follow(uris, deadline).await
        })
    }
}

impl Drop for ReplicaSet {
    fn drop(&mut self) {
        // Without a majority the others would begin elections while they wait for their end.
        for node in &self.nodes {
            node.kill();
        }
    }
}

/// Waits until there is a primary, and all nodes follow it.
async fn wait_until_all_follow(uris: Vec<String>, deadline: Instant) -> Result<(), Error> {
    loop {
        let primary = find_primary(uris.clone(), |_| true).await?;
        match wait_until_followed(&uris[primary]).await {
            // On a busy machine heartbeats come late, and there is another election.
            Err(_) if Instant::now() < deadline => {}
            ended => return ended,
        }
    }
}

/// Waits until all nodes have copied the data, and follow the primary closely.
///
/// After its first election a node may leave its primary and search for one again, for some seconds. A node that
/// searches while a test stops the primary waits 30 s for the answer, and without it no write has a majority.
async fn wait_until_followed(primary: &str) -> Result<(), Error> {
    let client = apart::connect(primary, ELECTION_DEADLINE).await?;
    let admin = client.database("admin");
    // A no-op entry that changes no database.
    let note = doc! {
        "appendOplogNote": 1,
        "data": { "testbed": "ready" },
        "writeConcern": { "w": 3, "wtimeout": 60_000 },
    };
    let mut prompt = 0;
    for _ in 0..NOTES_MAX {
        let sent = Instant::now();
        let confirmed = admin.run_command(note.clone()).await;
        confirmed.map_err(|error| Error::from_source("the nodes do not follow", error))?;
        prompt = if sent.elapsed() < PROMPT { prompt + 1 } else { 0 };
        if prompt == PROMPT_NOTES {
            break;
        }
        tokio::time::sleep(ASK_EVERY).await;
    }
    client.shutdown().immediate(true).await;
    Ok(())
}

fn launch(name: &str) -> Launch {
    // Without this parameter a node holds on to a primary that does not answer for 5 s.
    let network = ("oplogNetworkTimeoutBufferSeconds".to_owned(), "1".to_owned());
    Launch {
        replica_set: Some(name.to_owned()),
        parameters: vec![network, ("ttlMonitorSleepSecs".to_owned(), "1".to_owned())],
        ..Launch::default()
    }
}

async fn find_primary(uris: Vec<String>, wanted: impl Fn(usize) -> bool) -> Result<usize, Error> {
    let mut clients = Vec::new();
    for uri in &uris {
        clients.push(apart::connect(uri, HELLO_PATIENCE).await?);
    }
    until("there is no primary", async || {
        let mut answers = JoinSet::new();
        for (index, client) in clients.iter().cloned().enumerate() {
            answers.spawn(async move { (index, hello(&client).await) });
        }
        let mut elected: Option<(ObjectId, usize)> = None;
        while let Some(answer) = answers.join_next().await {
            let Ok((index, Some(hello))) = answer else {
                continue;
            };
            if matches!(hello.get_bool("isWritablePrimary"), Ok(true)) {
                let election = hello.get_object_id("electionId").unwrap_or_default();
                elected = elected.max(Some((election, index)));
            }
        }
        elected.map(|(_, index)| index).filter(|index| wanted(*index))
    })
    .await
}

async fn hello(client: &Client) -> Option<Document> {
    let admin = client.database("admin");
    let asked = admin.run_command(doc! { "hello": 1 });
    tokio::time::timeout(HELLO_PATIENCE, async { asked.await }).await.ok()?.ok()
}

async fn until<T>(otherwise: &str, look: impl AsyncFn() -> Option<T>) -> Result<T, Error> {
    let deadline = Instant::now() + ELECTION_DEADLINE;
    loop {
        if let Some(found) = look().await {
            return Ok(found);
        }
        if Instant::now() > deadline {
            return Err(Error::new(format!("{otherwise}, after {ELECTION_DEADLINE:?}")));
        }
        tokio::time::sleep(ASK_EVERY).await;
    }
}
