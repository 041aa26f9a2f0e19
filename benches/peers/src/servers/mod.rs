//! The servers, a file each: their start, their counters, and their floor.

#[cfg(feature = "etcd")]
mod etcd;
mod mongod;
mod process;
mod redis;
mod zookeeper;

use std::time::{Duration, Instant};

use async_trait::async_trait;
use mongo_lease_measure::Outcome;

use self::process::Process;

/// A JVM on a busy machine is slow to start.
const START_DEADLINE: Duration = Duration::from_secs(60);
/// A server that is not ready may accept a request and never answer it.
const ANSWER_DEADLINE: Duration = Duration::from_secs(5);
const ASK_EVERY: Duration = Duration::from_millis(20);

/// The servers, and their settings where these decide what a write means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Mongod,
    /// With its defaults.
    Redis,
    /// With a log that is synced at each write.
    RedisSynced,
    Etcd,
    ZooKeeper,
}

impl Kind {
    pub(crate) const ALL: [Kind; 5] =
        [Kind::Mongod, Kind::Redis, Kind::RedisSynced, Kind::Etcd, Kind::ZooKeeper];

    /// Its name, and whether an acknowledged write is on the disk.
    pub(crate) fn label(self) -> &'static str {
        match self {
            Kind::Mongod => "mongod, synced",
            Kind::Redis => "Redis, **not synced**",
            Kind::RedisSynced => "Redis, synced",
            Kind::Etcd => "etcd, synced",
            Kind::ZooKeeper => "ZooKeeper, synced",
        }
    }

    /// How durable a write is before the server acknowledges it.
    pub(crate) fn durability(self) -> &'static str {
        match self {
            Kind::Mongod => "replica set of one, majority, in the journal on the disk",
            Kind::Redis => {
                "as it comes: in memory, a snapshot now and then; a crash forgets who holds what"
            }
            Kind::RedisSynced => "`appendonly yes`, `appendfsync always`: in the log on the disk",
            Kind::Etcd => "one member; in the raft log on the disk",
            Kind::ZooKeeper => "one server, `forceSync=yes`: in the log on the disk",
        }
    }

    /// The commands of its floor.
    pub(crate) fn floor_label(self) -> &'static str {
        match self {
            Kind::Mongod => "bare `insert_one`, `delete_one`",
            Kind::Redis | Kind::RedisSynced => "bare `SET NX PX`, `DEL`",
            Kind::Etcd => "bare put, delete",
            Kind::ZooKeeper => "bare create, delete (ephemeral)",
        }
    }

    /// The floor of a losing attempt.
    pub(crate) fn losing_label(self) -> &'static str {
        match self {
            Kind::Mongod => "bare `insert_one`, duplicate key",
            Kind::Redis | Kind::RedisSynced => "bare `SET NX PX`, refused",
            Kind::Etcd => "bare put if absent, refused",
            Kind::ZooKeeper => "bare create, node exists",
        }
    }

    /// The unit of the request figures. For mongod, pings and heartbeats of the driver itself are not counted.
    pub(crate) fn requests_label(self) -> &'static str {
        match self {
            Kind::Mongod => "commands, without `hello`",
            Kind::Redis | Kind::RedisSynced => "commands, without those that scripts call",
            Kind::Etcd => "gRPC messages, keep-alive among them",
            Kind::ZooKeeper => "packets, pings among them",
        }
    }
}

/// A running server, on the loopback, with data of its own. Dropping it ends it.
#[async_trait]
pub(crate) trait Server: Send + Sync {
    fn kind(&self) -> Kind;

    /// The address in its clients' format.
    fn address(&self) -> &str;

    fn pid(&self) -> Option<u32>;

    async fn version(&self) -> Outcome<String>;

    /// How many requests of locks and floors it has had so far. Reading this counts as none, or as one.
    async fn requests(&self) -> Outcome<u64>;

    /// The same where the clients only renew.
    async fn renewals(&self) -> Outcome<u64> {
        self.requests().await
    }

    async fn floor(&self) -> Outcome<Box<dyn Floor>>;
}

/// The same client without any lock library.
#[async_trait]
pub(crate) trait Floor: Send + Sync {
    async fn take(&self, name: &str) -> Outcome<()>;

    async fn give(&self, name: &str) -> Outcome<()>;

    /// Tries to take a lock that is taken; success is an error.
    async fn lose(&self, name: &str) -> Outcome<()>;
}

/// Why a server is not there, and how to install it.
pub(crate) struct Missing(pub(crate) String);

impl Missing {
    /// A program that is in this Debian package.
    fn program(program: &str, package: &str) -> Missing {
        Missing(format!("`{program}` (Debian's package `{package}`)"))
    }
}

/// Starts one, or returns what is missing.
pub(crate) async fn start(kind: Kind) -> Outcome<Result<Box<dyn Server>, Missing>> {
    Ok(match kind {
        Kind::Mongod => Ok(Box::new(mongod::Mongod::start()?)),
        Kind::Redis => redis::start(false).await?.map(|server| Box::new(server) as _),
        Kind::RedisSynced => redis::start(true).await?.map(|server| Box::new(server) as _),
        #[cfg(feature = "etcd")]
        Kind::Etcd => etcd::start().await?.map(|server| Box::new(server) as _),
        #[cfg(not(feature = "etcd"))]
        Kind::Etcd => Err(Missing("the feature `etcd`, which this was built without".to_owned())),
        Kind::ZooKeeper => zookeeper::start().await?.map(|server| Box::new(server) as _),
    })
}

/// Repeats a request until there is an answer.
async fn until_it_answers<T>(
    process: &Process,
    mut ask: impl AsyncFnMut() -> Outcome<T>,
) -> Outcome<T> {
    let deadline = Instant::now() + START_DEADLINE;
    loop {
        let error = match tokio::time::timeout(ANSWER_DEADLINE, ask()).await {
            Ok(Ok(answer)) => return Ok(answer),
            Ok(Err(error)) => error,
            Err(late) => late.into(),
        };
        if Instant::now() > deadline {
            return Err(format!("{process} does not answer: {error}").into());
        }
        tokio::time::sleep(ASK_EVERY).await;
    }
}
