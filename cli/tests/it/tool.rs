//! Runs the binary, and collects its output and exit code.

use std::process::{Output, Stdio};
use std::time::Duration;

use mongo_lease::{LeaseManager, LeaseManagerBuilder};
use mongo_lease_testbed::{Server, TestDatabase, command};
use mongodb::Database;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStderr, ChildStdout, Command};

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
    command.args(arguments).env_remove("MONGODB_URI").stdin(Stdio::null());
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
    let _made: LeaseManagerBuilder =
        LeaseManager::builder(database).ensure_indexes().await.expect("the indexes are made");
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
pub(crate) struct Running {
    child: Child,
    data: Lines<BufReader<ChildStdout>>,
    talk: Lines<BufReader<ChildStderr>>,
}

impl Running {
    pub(crate) fn start(mut command: Command) -> Running {
        let mut child = command.kill_on_drop(true).spawn().expect("the binary starts");
        let data = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        let talk = BufReader::new(child.stderr.take().expect("a pipe")).lines();
        Running { child, data, talk }
    }

    /// The next line of its standard output.
    pub(crate) async fn line(&mut self) -> String {
        let line = soon("a line of data", self.data.next_line()).await.expect("text");
        line.expect("the data has ended")
    }

    /// The next line of its standard error.
    pub(crate) async fn talk(&mut self) -> String {
        let line = soon("a line of talk", self.talk.next_line()).await.expect("text");
        line.expect("the talk has ended")
    }

    pub(crate) fn pid(&self) -> Pid {
        let id = self.child.id().expect("it runs");
        Pid::from_raw(i32::try_from(id).expect("a number")).expect("a number")
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).expect("it is there");
    }

    /// Its end, with the rest of its output. The output ends when no process is left that could write there.
    pub(crate) async fn ended(mut self) -> Ran {
        let (mut data, mut talk) = (self.data.into_inner(), self.talk.into_inner());
        let (mut rest, mut rest_of_talk) = (String::new(), String::new());
        let ending = async {
            let (read, heard, status) = tokio::join!(
                data.read_to_string(&mut rest),
                talk.read_to_string(&mut rest_of_talk),
                self.child.wait()
            );
            let _sizes = (read.expect("text"), heard.expect("text"));
            status.expect("a status")
        };
        let status = soon("the binary ends, and whoever it has started", ending).await;
        let exit = status.code().unwrap_or_else(|| panic!("{status}: {rest_of_talk}"));
        Ran { exit, data: rest, talk: rest_of_talk }
    }
}
