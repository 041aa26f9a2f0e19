//! Another process: this very test binary, started again for one test.
//!
//! The test calls [`as_worker`] first. In the process that it starts, the result is the database, and the test goes on
//! as the other side: it reads orders from its input, a line each, and answers in lines.

use std::io::BufRead;

use mongo_lease::mongodb::options::ClientOptions;
use mongo_lease::mongodb::{Client, Database};
pub(crate) use mongo_lease_testbed::orders;
use mongo_lease_testbed::{LineProcess, TestDatabase, command};
use rustix::process::Signal;

use crate::patience::PATIENCE;
use crate::spy::Spy;

const URI: &str = "MONGO_LEASE_TEST_WORKER_URI";
const DATABASE: &str = "MONGO_LEASE_TEST_WORKER_DATABASE";
/// The test harness writes to the same output.
const MARK: &str = "worker> ";

/// The database of the test, in the process that a test has started; `None` in the test itself.
pub(crate) async fn as_worker() -> Option<Database> {
    std::env::var(URI).ok()?;
    let (uri, name) = whereabouts();
    Some(Client::with_uri_str(uri).await.expect("a client").database(&name))
}

/// As [`as_worker`], with a spy on the process's client.
pub(crate) async fn as_spied_worker() -> Option<(Database, Spy)> {
    as_worker().await?;
    let (uri, name) = whereabouts();
    let spy = Spy::default();
    let mut options = ClientOptions::parse(uri).await.unwrap();
    spy.listen(&mut options);
    Some((Client::with_options(options).unwrap().database(&name), spy))
}

/// The server's address and the name of the database, in a worker that makes its own client.
pub(crate) fn whereabouts() -> (String, String) {
    let uri = std::env::var(URI).expect("the address of the server");
    (uri, std::env::var(DATABASE).expect("the name of the database"))
}

/// Prints a line for the test.
pub(crate) fn say(line: impl std::fmt::Display) {
    // When the test has gone nobody reads it, and the next order is the end of input.
    let _ = mongo_lease_testbed::say(format_args!("\n{MARK}{line}"));
}

/// The worker's next order; `None` when the test has gone. Blocks.
pub(crate) fn order() -> Option<String> {
    let mut line = String::new();
    let read = std::io::stdin().lock().read_line(&mut line).expect("the input is text");
    (read > 0).then(|| line.trim().to_owned())
}

/// The process that a test has started. It is killed when this is dropped.
pub(crate) struct Worker(LineProcess);

impl Worker {
    /// Starts this test once more, as the other side. `test` is its name with all modules.
    pub(crate) fn start(test: &str, uri: &str, database: &TestDatabase) -> Worker {
        Worker::start_with(test, uri, database, &[])
    }

    /// The same, with these environment variables.
    pub(crate) fn start_with(
        test: &str,
        uri: &str,
        database: &TestDatabase,
        variables: &[(&str, &str)],
    ) -> Worker {
        let mut program = command(std::env::current_exe().expect("a path"));
        program
            .args(["--exact", test, "--nocapture", "--test-threads", "1"])
            .env(URI, uri)
            .env(DATABASE, database.name())
            .envs(variables.iter().copied());
        Worker(done(LineProcess::start(program)).with_patience(PATIENCE))
    }

    /// Its next line.
    pub(crate) async fn says(&mut self) -> String {
        let said = |line: &str| line.strip_prefix(MARK).map(str::to_owned);
        done(self.0.line_with(said).await)
    }

    /// Tells it to go on.
    pub(crate) async fn tell(&mut self, order: &str) {
        done(self.0.send(order).await);
    }

    /// SIGSTOP: the process freezes, and nothing of it is closed.
    pub(crate) fn pause(&self) {
        done(self.0.signal(Signal::STOP));
    }

    /// SIGCONT.
    pub(crate) fn resume(&self) {
        done(self.0.signal(Signal::CONT));
    }

    /// SIGTERM: the process is asked to end.
    pub(crate) fn terminate(&self) {
        done(self.0.signal(Signal::TERM));
    }

    /// SIGKILL: the crash.
    pub(crate) fn kill(&self) {
        done(self.0.signal(Signal::KILL));
    }
}

/// The result, or a panic that repeats what the process wrote to its error output.
fn done<T>(result: Result<T, mongo_lease_testbed::Error>) -> T {
    result.unwrap_or_else(|error| panic!("{error}"))
}
