//! Runs a test on both backends: a real server, and a store in memory. So the double does what the real one does.

mod calls;

use std::panic::resume_unwind;
use std::time::Duration;
use std::{fmt, thread};

use mongo_lease::{LeaseManager, LeaseManagerBuilder, MemoryStore, Released};
use mongo_lease_testbed::{Server, TestDatabase};
use tokio::runtime::Builder;

use crate::common::{assert_done, builder, known_release, migrated};
use crate::patience::{PATIENCE, until};

/// Where a test's leases are.
pub(crate) enum Backend {
    Server(TestDatabase),
    Memory(MemoryStore),
}

/// Runs the test with leases on the shared server, and then with leases in memory. There the clock stands still while
/// there is anything to do, so that waiting takes no time and nothing comes too late.
///
/// With `MONGO_LEASE_BACKEND=memory` the server's half is left out: `tests/mutants/run` asks first what is found
/// without one.
pub(crate) async fn check(test: impl AsyncFn(Backend) + Sync) {
    let test = async |backend: Backend| {
        // Shown where the test fails.
        eprintln!("on {backend}");
        test(backend).await;
    };
    if std::env::var_os("MONGO_LEASE_BACKEND").is_none_or(|backend| backend != "memory") {
        test(Backend::Server(migrated(Server::shared()).await)).await;
    }
    let in_memory = || {
        let mut runtime = Builder::new_current_thread();
        let runtime = runtime.enable_all().start_paused(true).build().unwrap();
        runtime.block_on(test(Backend::Memory(MemoryStore::new())));
    };
    // A runtime of its own, and so a thread: the clients of the server do not live by that clock.
    let ended = thread::scope(|scope| scope.spawn(in_memory).join());
    ended.unwrap_or_else(|panic| resume_unwind(panic));
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

    /// The result of a release by name and value. In memory it is always known.
    pub(crate) async fn release(&self, leases: &LeaseManager, name: &str, value: &str) -> Released {
        match self {
            Backend::Server(_) => known_release(leases, name, value).await,
            Backend::Memory(_) => leases.release(name, value).await.expect("an answer"),
        }
    }

    /// Asserts that this is the result of a release by name and value, or by key, that has ended the lease. In memory
    /// it is always known.
    pub(crate) fn assert_done(&self, released: Released) {
        match self {
            Backend::Server(_) => assert_done(released, "by name and value"),
            Backend::Memory(_) => assert_eq!(released, Released::Released),
        }
    }

    /// How much later than its time something may happen. In memory these are a few ticks of the clock.
    pub(crate) fn late(&self) -> Duration {
        match self {
            Backend::Server(_) => PATIENCE,
            Backend::Memory(_) => Duration::from_millis(5),
        }
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
