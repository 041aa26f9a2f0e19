//! Runs the service in a process of its own.

use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use mongo_lease::mongodb::bson::{Document, doc};
use mongo_lease_testbed::{Server, TestDatabase, command};
use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};

/// No step takes this long, however busy the machine is.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Returns the output of the future, or fails after `PATIENCE`.
pub(crate) async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    match tokio::time::timeout(PATIENCE, future).await {
        Ok(output) => output,
        Err(_) => panic!("after {PATIENCE:?} this has not happened: {what}"),
    }
}

/// Returns when the lease is held. It only queries: an attempt might be granted.
pub(crate) async fn until_held(database: &TestDatabase, name: &str) {
    let locks = database.collection::<Document>("locks");
    let looking =
        async { while locks.find_one(doc! { "name": name }).await.expect("a look").is_none() {} };
    soon(name, looking).await;
}

/// A process of the service. It is killed when this is dropped.
pub(crate) struct Service {
    process: Child,
    lines: Lines<BufReader<ChildStdout>>,
    pub(crate) address: String,
}

impl Service {
    /// Starts the service on this database, with this ttl, and returns when it listens.
    pub(crate) async fn start(database: &TestDatabase, ttl: Duration) -> Service {
        let mut process = Command::from(command(env!("CARGO_BIN_EXE_axum_service")))
            .env("MONGODB_URI", Server::shared().uri())
            .env("AXUM_SERVICE_DATABASE", database.name())
            .env("AXUM_SERVICE_LISTEN", "127.0.0.1:0")
            .env("AXUM_SERVICE_TTL_MS", ttl.as_millis().to_string())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .expect("a process");
        let mut lines = BufReader::new(process.stdout.take().expect("its output")).lines();
        let first = soon("it listens", lines.next_line()).await.expect("a text");
        let first = first.expect("it goes on");
        let address = first.split(['/', ',']).nth(2).expect("an address").to_owned();
        Service { process, lines, address }
    }

    /// Sends SIGKILL: the crash.
    pub(crate) fn kill(&self) {
        self.signal(Signal::KILL);
    }

    /// Sends SIGTERM: the orderly stop.
    pub(crate) fn terminate(&self) {
        self.signal(Signal::TERM);
    }

    /// Waits for the end of the process, and returns the rest of its output.
    pub(crate) async fn end(mut self) -> (ExitStatus, Vec<String>) {
        let mut said = Vec::new();
        while let Some(line) = soon("a line", self.lines.next_line()).await.expect("a text") {
            said.push(line);
        }
        (soon("its end", self.process.wait()).await.expect("a status"), said)
    }

    fn signal(&self, signal: Signal) {
        let id = self.process.id().and_then(|id| i32::try_from(id).ok());
        let process = id.and_then(Pid::from_raw).expect("it has not ended");
        kill_process(process, signal).expect("a signal");
    }
}

/// Creates a database, and starts one process of the service on it.
pub(crate) async fn setup(ttl: Duration) -> (TestDatabase, Service) {
    let database = Server::shared().database().await;
    let service = Service::start(&database, ttl).await;
    (database, service)
}
