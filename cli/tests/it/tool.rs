//! Runs the binary, and collects its output and exit code.

use std::ops::Deref;
use std::process::{Output, Stdio};
use std::sync::{Mutex, OnceLock};
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

/// The ttl of a lease that is lost. A busy machine needs some of it: to stop the server before the next renewal, and to
/// end the command.
pub(crate) const TTL: &str = "12s";

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

/// A server that no other test uses meanwhile: a test may stop it, and change its parameters for its time.
///
/// A start costs a third of a second of a processor. So the next test gets a server that a test leaves in order.
pub(crate) struct LentServer(Option<Server>);

/// The servers that no test has.
static IDLE: Mutex<Vec<Server>> = Mutex::new(Vec::new());

/// A replica set of one, whose TTL monitor does not run within a test.
pub(crate) fn lent_server() -> LentServer {
    let idle = IDLE.lock().unwrap().pop();
    let start = || Server::builder().ttl_monitor_sleep_secs(3_600).start();
    LentServer(Some(idle.unwrap_or_else(start)))
}

/// The server to which users log in over TLS, which all tests share.
pub(crate) fn secured_server() -> &'static Server {
    static SHARED: OnceLock<Server> = OnceLock::new();
    SHARED.get_or_init(mongo_lease_security::start)
}

impl Deref for LentServer {
    type Target = Server;

    fn deref(&self) -> &Server {
        self.0.as_ref().expect("it is there until it is dropped")
    }
}

impl Drop for LentServer {
    fn drop(&mut self) {
        let Some(server) = self.0.take() else { return };
        // A test that fails may leave anything behind, and one that killed the server, nothing.
        if !std::thread::panicking() && server.mongod().pid().is_some() {
            server.mongod().resume();
            IDLE.lock().unwrap().push(server);
        }
    }
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
