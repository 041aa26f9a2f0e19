//! The contenders: each library with each setting, on each server.

use std::time::Duration;

use mongo_lease_measure::Outcome;

use crate::peers::{self, Peer};
use crate::servers::Kind;

/// One library with one setting on one server.
#[derive(Debug)]
pub(crate) struct Contender {
    /// The id by which a worker is told its contender.
    pub(crate) id: &'static str,
    /// The crate.
    pub(crate) library: &'static str,
    /// The setting, where the library has one.
    pub(crate) setting: &'static str,
    /// The number of its footnote.
    pub(crate) mark: &'static str,
    pub(crate) server: Kind,
    /// Whether it differs from another contender only when it waits or loses.
    pub(crate) is_variant: bool,
}

impl Contender {
    /// Its label where the setting matters.
    pub(crate) fn label(&self) -> String {
        let Contender { library, setting, mark, .. } = self;
        if setting.is_empty() {
            format!("{library}{mark}")
        } else {
            format!("{library}{mark}, {setting}")
        }
    }

    /// Its label where the setting does not matter.
    pub(crate) fn name(&self) -> String {
        format!("{}{}", self.library, self.mark)
    }
}

const MONGO_LOCK_ASYNC: Contender = Contender {
    id: "mongo-lock-async",
    library: "mongo-lock-async",
    setting: "each 100 ms",
    mark: "¹",
    server: Kind::Mongod,
    is_variant: false,
};

const DISTRIBUTED_LOCK_MONGO: Contender = Contender {
    id: "distributed-lock-mongo",
    library: "distributed-lock-mongo",
    setting: "default (each 10 ms)",
    mark: "²",
    server: Kind::Mongod,
    is_variant: false,
};

const RSLOCK: Contender = Contender {
    id: "rslock",
    library: "rslock",
    setting: "default (up to 200 ms)",
    mark: "³",
    server: Kind::Redis,
    is_variant: false,
};

const NO_PAUSE: &str = "no pause";

/// All of them, server by server.
pub(crate) const ALL: [Contender; 11] = [
    Contender {
        id: "mongo-lease",
        library: "mongo-lease",
        setting: "",
        mark: "",
        server: Kind::Mongod,
        is_variant: false,
    },
    MONGO_LOCK_ASYNC,
    Contender {
        id: "mongo-lock-async-eager",
        setting: NO_PAUSE,
        is_variant: true,
        ..MONGO_LOCK_ASYNC
    },
    DISTRIBUTED_LOCK_MONGO,
    Contender {
        id: "distributed-lock-mongo-eager",
        setting: NO_PAUSE,
        is_variant: true,
        ..DISTRIBUTED_LOCK_MONGO
    },
    RSLOCK,
    Contender { id: "rslock-eager", setting: NO_PAUSE, is_variant: true, ..RSLOCK },
    Contender { id: "rslock-synced", server: Kind::RedisSynced, ..RSLOCK },
    Contender {
        id: "rslock-synced-eager",
        setting: NO_PAUSE,
        server: Kind::RedisSynced,
        is_variant: true,
        ..RSLOCK
    },
    Contender {
        id: "etcd-client",
        library: "etcd-client",
        setting: "",
        mark: "⁴",
        server: Kind::Etcd,
        is_variant: false,
    },
    Contender {
        id: "zookeeper-client",
        library: "zookeeper-client",
        setting: "",
        mark: "⁵",
        server: Kind::ZooKeeper,
        is_variant: false,
    },
];

/// Prepares a server once, before any library connects.
pub(crate) async fn prepare(contender: &Contender, address: &str) -> Outcome<()> {
    match contender.library {
        "mongo-lease" => peers::mongo_lease::prepare(address).await,
        "mongo-lock-async" => peers::mongo_lock_async::prepare(address).await,
        _ => Ok(()),
    }
}

/// Connects.
pub(crate) async fn open(id: &str, address: &str) -> Outcome<Box<dyn Peer>> {
    const SLOW: Duration = Duration::from_millis(100);
    Ok(match id {
        "mongo-lease" => Box::new(peers::mongo_lease::MongoLease::open(address).await?),
        "mongo-lock-async" => {
            Box::new(peers::mongo_lock_async::MongoLockAsync::open(address, SLOW).await?)
        }
        "mongo-lock-async-eager" => {
            Box::new(peers::mongo_lock_async::MongoLockAsync::open(address, Duration::ZERO).await?)
        }
        "distributed-lock-mongo" => {
            Box::new(peers::distributed_lock_mongo::Locks::open(address, false).await?)
        }
        "distributed-lock-mongo-eager" => {
            Box::new(peers::distributed_lock_mongo::Locks::open(address, true).await?)
        }
        "rslock" | "rslock-synced" => Box::new(peers::rslock::Rslock::open(address, false)),
        "rslock-eager" | "rslock-synced-eager" => {
            Box::new(peers::rslock::Rslock::open(address, true))
        }
        #[cfg(feature = "etcd")]
        "etcd-client" => Box::new(peers::etcd::Etcd::open(address).await?),
        "zookeeper-client" => Box::new(peers::zookeeper::ZooKeeper::open(address).await?),
        _ => return Err(format!("nobody is called {id}").into()),
    })
}
