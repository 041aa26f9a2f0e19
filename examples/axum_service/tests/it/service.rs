//! Runs the service in a process of its own.

use std::process::ExitStatus;
use std::time::Duration;

use mongo_lease::mongodb::bson::{Document, doc};
use mongo_lease_testbed::{LineProcess, Server, TestDatabase, command};
use rustix::process::Signal;

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
    process: LineProcess,
    pub(crate) address: String,
}

impl Service {
    /// Starts the service on this database, with this ttl, and returns when it listens.
    pub(crate) async fn start(database: &TestDatabase, ttl: Duration) -> Service {
        Service::start_with(database, ttl, &[]).await
    }

    /// The same, with these variables.
    pub(crate) async fn start_with(
        database: &TestDatabase,
        ttl: Duration,
        variables: &[(&str, &str)],
    ) -> Service {
        let mut program = command(env!("CARGO_BIN_EXE_axum_service"));
        program
            .env("MONGODB_URI", Server::shared().uri())
            .env("AXUM_SERVICE_DATABASE", database.name())
            .env("AXUM_SERVICE_LISTEN", "127.0.0.1:0")
            .env("AXUM_SERVICE_TTL_MS", ttl.as_millis().to_string())
            .envs(variables.iter().copied());
        let mut process = LineProcess::start_without_input(program).expect("a process");
        let first = process.line().await.expect("it listens");
        let address = first.split(['/', ',']).nth(2).expect("an address").to_owned();
        Service { process, address }
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
    pub(crate) async fn end(self) -> (ExitStatus, Vec<String>) {
        let ended = self.process.ended().await.expect("its end");
        (ended.status, ended.output.lines().map(str::to_owned).collect())
    }

    fn signal(&self, signal: Signal) {
        self.process.signal(signal).expect("it has not ended");
    }
}

/// Creates a database, and starts one process of the service on it.
pub(crate) async fn setup(ttl: Duration) -> (TestDatabase, Service) {
    let database = Server::shared().database().await;
    let service = Service::start(&database, ttl).await;
    (database, service)
}
