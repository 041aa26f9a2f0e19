//! Runs a test on both backends: a real server, and a store in memory. So the double does what the real one does.

mod calls;
mod holding;
mod queue;

use std::fmt;

use mongo_lease::{LeaseManager, LeaseManagerBuilder, MemoryStore};
use mongo_lease_testbed::{Server, TestDatabase};

use crate::common::{builder, migrated};
use crate::patience::until;

/// Where a test's leases are.
pub(crate) enum Backend {
    Server(TestDatabase),
    Memory(MemoryStore),
}

/// Runs the test with leases on the shared server, and then with leases in memory.
pub(crate) async fn check(test: impl AsyncFn(Backend)) {
    for backend in
        [Backend::Server(migrated(Server::shared()).await), Backend::Memory(MemoryStore::new())]
    {
        // Shown where the test fails.
        eprintln!("on {backend}");
        test(backend).await;
    }
}

impl Backend {
    /// The usual options.
    pub(crate) fn builder(&self) -> LeaseManagerBuilder {
        match self {
            Backend::Server(database) => builder(database),
            Backend::Memory(store) => LeaseManager::in_memory(store).owner("test"),
        }
    }

    /// A manager with the usual options. Each is as good as one of another process.
    pub(crate) async fn manager(&self) -> LeaseManager {
        self.builder().build().await.expect("a manager")
    }

    /// Returns when no lease has a document any more. In memory, ended ones may stay for the TTL monitor.
    pub(crate) async fn until_nothing_is_left(&self) {
        match self {
            Backend::Server(database) => crate::patience::until_nothing_is_left(database).await,
            Backend::Memory(store) => {
                let gone = async || (store.leases_in_use() == 0).then_some(());
                until("no lease is in use", gone).await;
            }
        }
    }
}

impl fmt::Display for Backend {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Backend::Server(_) => "a real server",
            Backend::Memory(_) => "a store in memory",
        })
    }
}
