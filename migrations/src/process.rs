//! Runs a program's async work, and shuts down its clients at the end.
//!
//! A dropped driver client ends its sessions on the server in a task of its own. If the runtime ends at the same
//! moment, that task panics, because the driver's other tasks have already gone. So:
//!
//! 1. Every client of the process is registered here, and none is dropped before it was shut down or the time for that
//!    was over.
//! 2. The runtime is not torn down: the process exits while its tasks still exist.

use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use mongodb::Client;
use mongodb::error::Error as DriverError;
use mongodb::options::ClientOptions;
use tokio::runtime::Builder;
use tokio::task::JoinSet;
use tokio::time::timeout;

/// The time limit for shutting down all clients together.
const GOOD_BYE: Duration = Duration::from_secs(1);

/// The clients of this process.
static CLIENTS: Mutex<Vec<Client>> = Mutex::new(Vec::new());

/// Opens a client that [`run`] shuts down.
///
/// # Errors
///
/// The driver's error, if the options contradict each other.
pub fn open_client(options: ClientOptions) -> Result<Client, DriverError> {
    let client = Client::with_options(options)?;
    clients().push(client.clone());
    Ok(client)
}

/// Runs the work, then shuts down the clients within 1 s. Returns the result of the work; the process must exit then.
///
/// # Errors
///
/// The system's error, if the runtime's threads cannot be started.
pub fn run<T>(work: impl Future<Output = T>) -> io::Result<T> {
    let runtime = Builder::new_multi_thread().enable_all().build()?;
    let result = runtime.block_on(async {
        let result = work.await;
        shut_down_clients().await;
        result
    });
    std::mem::forget(runtime);
    Ok(result)
}

async fn shut_down_clients() {
    let mut closing = JoinSet::new();
    for client in clients().iter().cloned() {
        // Immediate: the server removes the cursors that nobody reads any more.
        closing.spawn(async move { client.shutdown().immediate(true).await });
    }
    // A server that does not answer must not delay the exit. The list keeps the clients from being dropped.
    let _ = timeout(GOOD_BYE, async { while closing.join_next().await.is_some() {} }).await;
    closing.detach_all();
}

fn clients() -> MutexGuard<'static, Vec<Client>> {
    CLIENTS.lock().unwrap_or_else(PoisonError::into_inner)
}
