//! The testbed's own work, on a thread and a runtime of its own.
//!
//! A driver client belongs to the runtime in which it was made. The testbed's commands to a server must not add
//! clients, tasks or waiting to the runtime of the test. They must also work where the test has no runtime, or is
//! inside one (where `block_on` panics).

use std::thread::{self, JoinHandle};
use std::time::Duration;

use mongodb::Client;
use mongodb::bson::Document;
use mongodb::options::ClientOptions;
use tokio::sync::oneshot;

use crate::Error;

/// Runs the work to its end on a thread of its own, and blocks this one meanwhile.
pub(crate) fn block_on<T, W>(work: W) -> T
where
    T: Send + 'static,
    W: AsyncFnOnce() -> T + Send + 'static,
{
    spawn(move || in_runtime(work)).join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Runs the work to its end on a thread of its own, and lets the caller's runtime go on.
pub(crate) async fn run<T, W>(work: W) -> T
where
    T: Send + 'static,
    W: AsyncFnOnce() -> T + Send + 'static,
{
    blocking(move || in_runtime(work)).await
}

/// Runs blocking work on a thread of its own, and lets the caller's runtime go on.
pub(crate) async fn blocking<T, W>(work: W) -> T
where
    T: Send + 'static,
    W: FnOnce() -> T + Send + 'static,
{
    let (sender, receiver) = oneshot::channel();
    let thread = spawn(move || {
        // The caller may have been cancelled; the work is done all the same.
        let _unheard = sender.send(work());
    });
    match receiver.await {
        Ok(value) => value,
        // The sender is gone without a value, hence the thread panicked and is at its end.
        Err(_) => match thread.join() {
            Err(panic) => std::panic::resume_unwind(panic),
            Ok(()) => unreachable!("the thread ended without an answer and without a panic"),
        },
    }
}

fn spawn<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
    thread::Builder::new()
        .name("testbed".to_owned())
        .spawn(work)
        .expect("the system should let us have one more thread")
}

fn in_runtime<T>(work: impl AsyncFnOnce() -> T) -> T {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("the system should let us have one more runtime")
        .block_on(work())
}

/// Connects to a server that may be stopped: each command gives up after `patience`.
pub(crate) async fn connect(uri: &str, patience: Duration) -> Result<Client, Error> {
    let mut options = ClientOptions::parse(uri)
        .await
        .map_err(|error| Error::from_source("the URI is not understood", error))?;
    options.app_name = Some("mongo-lease-testbed".to_owned());
    options.server_selection_timeout = Some(patience);
    options.connect_timeout = Some(patience);
    Client::with_options(options)
        .map_err(|error| Error::from_source("the client options are refused", error))
}

/// Sends one administrative command with a client made for it alone.
///
/// A server that accepts connections and does not answer, such as a paused one, is given up after `patience` as well.
pub(crate) async fn admin(
    uri: String,
    command: Document,
    patience: Duration,
) -> Result<Document, Error> {
    run(async move || admin_here(&uri, command, patience).await).await
}

/// As [`admin`], for callers which are on a thread of the testbed already.
pub(crate) async fn admin_here(
    uri: &str,
    command: Document,
    patience: Duration,
) -> Result<Document, Error> {
    let name = command.keys().next().cloned().unwrap_or_default();
    let client = connect(uri, patience).await?;
    let asked = tokio::time::timeout(patience, async {
        client.database("admin").run_command(command).await
    });
    match asked.await {
        Ok(Ok(reply)) => {
            client.shutdown().immediate(true).await;
            Ok(reply)
        }
        Ok(Err(error)) => Err(Error::from_source(&format!("command {name} failed"), error)),
        Err(_) => Err(Error::new(format!("command {name} got no answer in {patience:?}"))),
    }
}
