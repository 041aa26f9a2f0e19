//! A store in memory puts time and trouble into the hands of a test.

mod bounds;
mod cleanup;
mod ended;
mod faults;
mod kept;
mod overload;
mod sent;
mod shares;
mod shown;
mod stream;
mod time;
pub(crate) mod wire;

use mongo_lease::{LeaseManager, MemoryStore};

/// A manager on this store.
async fn manager(store: &MemoryStore) -> LeaseManager {
    LeaseManager::in_memory(store).owner("test").build().await.expect("a manager")
}
