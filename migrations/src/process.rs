//! Process: a program's async work, from the runtime's start to the end of the last client.
//!
//! A driver's client that is dropped tells the server of its sessions' end, in a task of its own. Where the runtime
//! ends at the same moment, that task panics, for the driver's other tasks have gone before it. So:
//!
//! 1. Every client of the process is known here, and none is dropped before it was shut down, or was given up.
//! 2. The runtime is not torn down: the process ends while its tasks stand where they are.

use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use mongodb::Client;
use mongodb::error::Error as DriverError;
use mongodb::options::ClientOptions;
use tokio::runtime::Builder;
use tokio::task::JoinSet;
use tokio::time::timeout;

/// How long the clients may take to say good-bye, all of them together.
const GOOD_BYE: Duration = Duration::from_secs(1);

/// The clients of this process.
static CLIENTS: Mutex<Vec<Client>> = Mutex::new(Vec::new());

/// Opens a client that [`run`] shuts down.
///
/// # Errors
///
/// The driver's, when the options contradict each other.
pub fn open_client(options: ClientOptions) -> Result<Client, DriverError> {
    let client = Client::with_options(options)?;
    clients().push(client.clone());
    Ok(client)
}

/// Does the work, and then shuts down the clients, within a second. Returns what the work has come to; the process has
/// to end then.
///
/// # Errors
///
/// When the system does not start the runtime's threads.
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
        // At once: a cursor that nobody reads any more is the server's to remove.
        closing.spawn(async move { client.shutdown().immediate(true).await });
    }
    // A server that does not answer must not keep the process. The list keeps the clients from being dropped.
    let _ = timeout(GOOD_BYE, async { while closing.join_next().await.is_some() {} }).await;
    closing.detach_all();
}

fn clients() -> MutexGuard<'static, Vec<Client>> {
    CLIENTS.lock().unwrap_or_else(PoisonError::into_inner)
}
