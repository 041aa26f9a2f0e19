//! The hooks of a store for a simulation. No public surface.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use mongo_lease_core::rules::millis_up;
use mongo_lease_memory::{Collection, Write};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::MemoryStore;
use super::simulated::SimulatedProcess;
use crate::clock::MemoryClock;

#[doc(hidden)]
impl MemoryStore {
    /// A store with this date, whose managers draw their random numbers from the seed.
    #[must_use]
    pub fn simulated(date_ms: i64, seed: u64) -> MemoryStore {
        let store = MemoryStore::on(MemoryClock::simulated(date_ms, seed));
        store.shared.leases.lock().keep_journal();
        store
    }

    /// Another client, whose commands and streams share so few connections.
    #[must_use]
    pub fn client_with_connections(&self, connections: usize) -> MemoryStore {
        MemoryStore { pool: Some(Arc::new(Semaphore::new(connections))), ..self.client() }
    }

    /// How many change streams this client's managers have asked for.
    #[must_use]
    pub fn streams_asked_for(&self) -> usize {
        self.faults.lock().streams
    }

    /// The client of one process.
    #[must_use]
    pub fn client_of(&self, process: Arc<dyn SimulatedProcess>) -> MemoryStore {
        let clock = self.clock.drifting(process.drift());
        MemoryStore { process: Some(process), clock, ..self.client() }
    }

    /// Sets how far the server's date is ahead of the clients' clocks.
    pub fn set_date_ahead(&self, ahead_ms: i64) {
        self.shared.date_ahead_ms.store(ahead_ms, Ordering::Relaxed);
    }

    /// Carries a command out by the server's date of so long ago: it has waited for a lock with that date.
    pub fn in_the_past(&self, by_ms: i64, carry_out: impl FnOnce()) {
        let ahead_ms = self.shared.date_ahead_ms.load(Ordering::Relaxed);
        let before = self.shared.leases.lock().writes_kept();
        self.set_date_ahead(ahead_ms - by_ms);
        carry_out();
        self.set_date_ahead(ahead_ms);
        self.shared.leases.lock().date_writes(before, self.shared.date_ms());
    }

    /// From now on a majority has each write so much later than the primary: writes are confirmed, majority reads show
    /// them, and change streams tell of them then.
    pub fn set_majority_delay(&self, delay: Duration) {
        let (delay_ms, date_ms) = (millis_up(delay), self.shared.date_ms());
        self.shared.leases.lock().set_majority_delay(delay_ms, date_ms);
    }

    /// Another primary takes over, which has what a late majority has.
    pub fn undo_late(&self) {
        self.shared.leases.lock().undo_late(self.shared.date_ms());
    }

    /// From now on no majority has the writes, and no change stream tells of them.
    pub fn hold_back(&self) {
        self.shared.leases.lock().hold_back();
    }

    /// From now on a majority has the writes that were held back.
    pub fn confirm_all(&self) {
        self.shared.leases.lock().confirm_all();
        self.shared.events.notify_waiters();
    }

    /// Undoes the writes that no majority has: another primary never had them.
    pub fn roll_back(&self) {
        self.shared.leases.lock().roll_back();
    }

    /// Reads or changes the documents of a collection in one step, as the server itself.
    pub fn on_server<R>(
        &self,
        collection: &str,
        change: impl FnOnce(&mut Collection<'_>) -> R,
    ) -> R {
        self.with_collection(collection, change)
    }

    /// The writes since the last call, in their order.
    #[must_use]
    pub fn take_journal(&self) -> Vec<Write> {
        self.shared.leases.lock().take_journal()
    }

    /// Deletes the documents that have expired, as the TTL monitor does.
    pub fn delete_expired(&self) {
        let date_ms = self.shared.date_ms();
        self.shared.leases.lock().delete_expired(date_ms);
    }

    /// Waits for a connection of the pool. It is free again when the result is dropped.
    pub(crate) async fn connection(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(self.pool.as_ref()?).acquire_owned().await.ok()
    }

    pub(crate) fn note_stream(&self) {
        self.faults.lock().streams += 1;
    }

    pub(crate) fn process(&self) -> Option<&Arc<dyn SimulatedProcess>> {
        self.process.as_ref()
    }
}
