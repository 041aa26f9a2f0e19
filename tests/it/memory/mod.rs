//! A store in memory puts time and trouble into the hands of a test.

mod bounds;
mod cleanup;
mod faults;
mod overload;
mod shares;
mod stream;
mod time;

use mongo_lease::{LeaseManager, MemoryStore};

/// A manager on this store.
async fn manager(store: &MemoryStore) -> LeaseManager {
    LeaseManager::in_memory(store).owner("test").build().await.expect("a manager")
}
