//! Another process: this very test binary, started again for one test.
//!
//! The test calls [`as_worker`] first. In the process that it starts, the result is the database, and the test goes on
//! as the other side: it reads orders from its input, a line each, and answers in lines.

use std::io::{BufRead, Write};
use std::process::Stdio;

use mongo_lease::mongodb::{Client, Database};
use mongo_lease_testbed::{TestDatabase, command};
use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::sync::mpsc;

use crate::patience::soon;

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

/// The server's address and the name of the database, in a worker that makes its own client.
pub(crate) fn whereabouts() -> (String, String) {
    let uri = std::env::var(URI).expect("the address of the server");
    (uri, std::env::var(DATABASE).expect("the name of the database"))
}

/// Prints a line for the test.
pub(crate) fn say(line: impl std::fmt::Display) {
    let mut output = std::io::stdout().lock();
    // When the test has gone nobody reads it, and the next order is the end of input.
    let _ = writeln!(output, "\n{MARK}{line}").and_then(|()| output.flush());
}

/// The worker's next order; `None` when the test has gone. Blocks.
pub(crate) fn order() -> Option<String> {
    let mut line = String::new();
    let read = std::io::stdin().lock().read_line(&mut line).expect("the input is text");
    (read > 0).then(|| line.trim().to_owned())
}

/// All orders of a worker, for one whose leases have to be renewed meanwhile. It ends when the test has gone.
pub(crate) fn orders() -> mpsc::UnboundedReceiver<String> {
    let (sender, receiver) = mpsc::unbounded_channel();
    // A thread, and not the runtime's: reading cannot be cancelled, and would delay the runtime's end.
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines() {
            let (Ok(line), false) = (line, sender.is_closed()) else { return };
            let _ended = sender.send(line);
        }
    });
    receiver
}

/// The process that a test has started. It is killed when this is dropped.
pub(crate) struct Worker {
    process: Child,
    orders: ChildStdin,
    lines: Lines<BufReader<ChildStdout>>,
}

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
        let mut process = Command::from(command(std::env::current_exe().expect("a path")))
            .args(["--exact", test, "--nocapture", "--test-threads", "1"])
            .env(URI, uri)
            .env(DATABASE, database.name())
            .envs(variables.iter().copied())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .expect("another process");
        let orders = process.stdin.take().expect("its input");
        let output = process.stdout.take().expect("its output");
        Worker { process, orders, lines: BufReader::new(output).lines() }
    }

    /// Its next line.
    pub(crate) async fn says(&mut self) -> String {
        loop {
            let line = soon("the worker says something", self.lines.next_line()).await;
            let line = line.expect("its output is text").expect("it has not ended");
            if let Some(said) = line.strip_prefix(MARK) {
                return said.to_owned();
            }
        }
    }

    /// Tells it to go on.
    pub(crate) async fn tell(&mut self, order: &str) {
        let line = format!("{order}\n");
        self.orders.write_all(line.as_bytes()).await.expect("it listens");
    }

    /// SIGSTOP: the process freezes, and nothing of it is closed.
    pub(crate) fn pause(&self) {
        self.signal(Signal::STOP);
    }

    /// SIGCONT.
    pub(crate) fn resume(&self) {
        self.signal(Signal::CONT);
    }

    /// SIGTERM: the process is asked to end.
    pub(crate) fn terminate(&self) {
        self.signal(Signal::TERM);
    }

    /// SIGKILL: the crash.
    pub(crate) fn kill(&self) {
        self.signal(Signal::KILL);
    }

    fn signal(&self, signal: Signal) {
        let id = self.process.id().and_then(|id| i32::try_from(id).ok());
        let process = id.and_then(Pid::from_raw).expect("it has not ended");
        kill_process(process, signal).expect("a signal");
    }
}
