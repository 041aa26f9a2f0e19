//! Other processes: this very test binary, run again with a role to play.
//!
//! A test starts a [`Worker`]. That runs the binary with the one test [`worker_process`] and a role
//! in the environment; the two then talk in lines, until the test closes the worker's input.

use std::io::{BufRead, Write};
use std::process::Stdio;

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::sync::mpsc;

use crate::bounds::soon;
use crate::{clocks, first_upsert};

const ROLE: &str = "MONGO_LEASE_TEST_ROLE";
/// What the lines of ours begin with: the test harness writes to the same place.
const MARK: &str = "[worker] ";

/// Another process. It is killed when this is dropped.
pub(crate) struct Worker {
    _child: Child,
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
}

impl Worker {
    /// Starts a process in this role, with these environment variables.
    pub(crate) fn start(role: &str, variables: &[(&str, &str)]) -> Worker {
        let binary = std::env::current_exe().expect("we are a file");
        let mut child = Command::new(binary)
            .args(["worker::worker_process", "--exact", "--nocapture", "--test-threads=1"])
            .env(ROLE, role)
            .envs(variables.iter().copied())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .expect("a process");
        let input = child.stdin.take().expect("its input");
        let output = BufReader::new(child.stdout.take().expect("its output")).lines();
        Worker { _child: child, input, output }
    }

    /// Sends it a line.
    pub(crate) async fn tell(&mut self, line: &str) {
        self.input.write_all(format!("{line}\n").as_bytes()).await.expect("the worker listens");
    }

    /// Waits for a line of it.
    pub(crate) async fn hear(&mut self) -> String {
        while let Some(line) = soon(self.output.next_line()).await.expect("text") {
            if let Some((_, said)) = line.split_once(MARK) {
                return said.to_owned();
            }
        }
        panic!("the worker has ended");
    }
}

/// Says a line to the test that started this process.
pub(crate) fn say(line: &str) {
    let mut output = std::io::stdout().lock();
    writeln!(output, "{MARK}{line}").expect("the test listens");
    output.flush().expect("the test listens");
}

/// What the test says to this process. It ends when the test has nothing more to say.
pub(crate) fn orders() -> mpsc::UnboundedReceiver<String> {
    let (sender, receiver) = mpsc::unbounded_channel();
    // A thread, and not the runtime's: reading cannot be cancelled, and would hold up its end.
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines() {
            let (Ok(line), false) = (line, sender.is_closed()) else { return };
            let _ended = sender.send(line);
        }
    });
    receiver
}

/// In a process that was started by [`Worker::start`]: plays the role. Else it is the test of all
/// this.
#[tokio::test(flavor = "multi_thread")]
async fn worker_process() {
    match std::env::var(ROLE).as_deref() {
        Ok("race") => first_upsert::race().await,
        Ok("clock") => clocks::ask_with_a_wrong_clock().await,
        Ok("echo") => {
            let mut orders = orders();
            while let Some(line) = orders.recv().await {
                say(&line);
            }
        }
        Ok(role) => panic!("there is no role {role}"),
        Err(_) => {
            let mut worker = Worker::start("echo", &[]);
            for line in ["are you there?", "and now?"] {
                worker.tell(line).await;
                assert_eq!(worker.hear().await, line);
            }
        }
    }
}
