//! Runs the binary, and collects its output and exit code.

use std::process::{Output, Stdio};
use std::time::Duration;

use mongo_lease::LeaseManager;
use mongo_lease_testbed::{Ended, LineProcess, Server, TestDatabase, command};
use mongodb::Database;
use rustix::process::{Pid, Signal};
use serde_json::Value;
use tokio::process::Command;

/// Longer than anything here takes, on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// The result of the future, which must come in time.
pub(crate) async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    match tokio::time::timeout(PATIENCE, future).await {
        Ok(output) => output,
        Err(_) => panic!("after {PATIENCE:?} this has not happened: {what}"),
    }
}

pub(crate) const BINARY: &str = env!("CARGO_BIN_EXE_mongo-lease");

/// The binary, with nothing of ours in its environment.
pub(crate) fn tool(arguments: &[&str]) -> Command {
    let mut command = Command::from(command(BINARY));
    command.args(arguments).stdin(Stdio::null());
    // Those that the binary reads, and those of the tests, such as `MONGO_LEASE_MODEL`.
    for (variable, _) in std::env::vars_os() {
        if variable.to_string_lossy().starts_with("MONGO") {
            command.env_remove(variable);
        }
    }
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// The binary, for a database on the shared server. Options of its own come first: behind `--` they are the command's.
pub(crate) fn tool_for(database: &Database, arguments: &[&str]) -> Command {
    tool_at(Server::shared().uri(), database.name(), arguments)
}

/// The binary, for a database of a server.
pub(crate) fn tool_at(uri: &str, database: &str, arguments: &[&str]) -> Command {
    let mut command = tool(&["--db", database]);
    command.env("MONGODB_URI", uri).args(arguments);
    command
}

/// A database with both indexes, on the shared server.
pub(crate) async fn fresh() -> TestDatabase {
    let database = Server::shared().database().await;
    migrate(&database).await;
    database
}

/// Makes the indexes.
pub(crate) async fn migrate(database: &Database) {
    let _made = LeaseManager::builder(database)
        .ensure_indexes(true)
        .build()
        .await
        .expect("the indexes are made");
}

/// A manager of this test's own.
pub(crate) async fn leases(database: &Database) -> LeaseManager {
    LeaseManager::builder(database).owner("test").build().await.expect("a manager")
}

/// The result of a run.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) exit: i32,
    pub(crate) data: String,
    pub(crate) talk: String,
}

impl Ran {
    fn of(output: &Output) -> Ran {
        Ran {
            exit: output.status.code().expect("an exit code"),
            data: String::from_utf8_lossy(&output.stdout).into_owned(),
            talk: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.data).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

/// Runs it to its end.
pub(crate) async fn run(mut command: Command) -> Ran {
    let output = soon("the binary ends", command.kill_on_drop(true).output()).await;
    Ran::of(&output.expect("the binary starts"))
}

/// A running binary whose lines are read.
pub(crate) struct Running(LineProcess);

impl Running {
    pub(crate) fn start(command: Command) -> Running {
        Running(done(LineProcess::start_without_input(command)).with_patience(PATIENCE))
    }

    /// The same, with an input.
    pub(crate) fn start_with_input(command: Command) -> Running {
        Running(done(LineProcess::start(command)).with_patience(PATIENCE))
    }

    /// Writes a line to its input.
    pub(crate) async fn tell(&mut self, line: &str) {
        done(self.0.send(line).await);
    }

    /// The next line of its standard output.
    pub(crate) async fn line(&mut self) -> String {
        done(self.0.line().await)
    }

    /// The next line of its standard error.
    pub(crate) async fn talk(&mut self) -> String {
        done(self.0.error_line().await)
    }

    pub(crate) fn pid(&self) -> Pid {
        let id = self.0.id().expect("it runs");
        Pid::from_raw(i32::try_from(id).expect("a number")).expect("a number")
    }

    pub(crate) fn signal(&self, signal: Signal) {
        done(self.0.signal(signal));
    }

    /// Its end, with the rest of its output. The output ends when no process is left that could write there.
    pub(crate) async fn ended(self) -> Ran {
        let Ended { status, output, errors } = done(self.0.ended().await);
        let exit = status.code().unwrap_or_else(|| panic!("{status}: {errors}"));
        Ran { exit, data: output, talk: errors }
    }
}

/// The result, or a panic that repeats its talk.
fn done<T>(result: Result<T, mongo_lease_testbed::Error>) -> T {
    result.unwrap_or_else(|error| panic!("{error}"))
}
