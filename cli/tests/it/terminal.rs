//! The view and the input on a terminal of 80 columns.

use std::process::Stdio;

use mongo_lease_testbed::command;
use mongodb::Database;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use super::tool::{fresh, leases, soon, tool_for};

/// A binary on a terminal.
struct Screen {
    child: Child,
    keys: ChildStdin,
    output: ChildStdout,
    seen: String,
}

impl Screen {
    fn of(database: &Database, arguments: &[&str], variables: &[(&str, &str)]) -> Screen {
        let inner = tool_for(database, arguments);
        let mut command = Command::from(command("python3"));
        command.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/screen.py"));
        command.arg(inner.as_std().get_program()).args(inner.as_std().get_args());
        for (name, value) in inner.as_std().get_envs() {
            if let Some(value) = value {
                command.env(name, value);
            }
        }
        command.env("TERM", "xterm").env_remove("NO_COLOR");
        command.envs(variables.iter().copied());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn().expect("python3 is there");
        let keys = child.stdin.take().expect("a pipe");
        let output = child.stdout.take().expect("a pipe");
        Screen { child, keys, output, seen: String::new() }
    }

    /// Reads on until this is shown.
    async fn until(&mut self, part: &str) {
        let reading = async {
            while !self.seen.contains(part) {
                let mut buffer = [0; 4096];
                let read = self.output.read(&mut buffer).await.expect("output");
                assert!(read > 0, "{part:?} was not seen: {:?}", self.seen);
                self.seen.push_str(&String::from_utf8_lossy(&buffer[..read]));
            }
        };
        soon(part, reading).await;
    }

    async fn types(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).await.expect("somebody reads");
    }

    /// Its end: the exit code, and everything that was shown.
    async fn ended(mut self) -> (i32, String) {
        let mut rest = Vec::new();
        let reading = async {
            let _size = self.output.read_to_end(&mut rest).await.expect("output");
            self.child.wait().await.expect("a status")
        };
        let status = soon("its end", reading).await;
        self.seen.push_str(&String::from_utf8_lossy(&rest));
        (status.code().expect("an exit code"), self.seen)
    }
}

/// The text without the terminal's control sequences.
fn plain(seen: &str) -> String {
    let mut plain = String::new();
    let mut characters = seen.chars();
    while let Some(character) = characters.next() {
        if character == '\u{1b}' {
            // `[`, numbers, and a letter.
            let _sequence = characters.find(|it| it.is_ascii_alphabetic());
        } else if character != '\r' {
            plain.push(character);
        }
    }
    plain
}

fn fits(seen: &str) {
    for line in plain(seen).lines() {
        assert!(line.chars().count() <= 80, "{} columns: {line:?}", line.chars().count());
    }
}

#[tokio::test]
async fn ls_fits_80_columns_and_its_colours_can_be_switched_off() {
    let database = fresh().await;
    let manager = leases(&database).await;
    let long = "a-name-that-is-so-long-that-it-does-not-fit-into-the-half-of-a-line-of-80-columns";
    let _long = manager.acquire(long).await.unwrap();
    let _short = manager.acquire("b").await.unwrap();
    let (exit, seen) = Screen::of(&database, &["ls"], &[]).ended().await;
    assert_eq!(exit, 0, "{seen:?}");
    assert!(seen.contains("\u{1b}[2mNAME"), "{seen:?}");
    fits(&seen);
    let (_, seen) = Screen::of(&database, &["ls"], &[("NO_COLOR", "1")]).ended().await;
    assert!(seen.contains("NAME") && !seen.contains('\u{1b}'), "{seen:?}");
    let (_, seen) = Screen::of(&database, &["ls"], &[("TERM", "dumb")]).ended().await;
    assert!(seen.contains("NAME") && !seen.contains('\u{1b}'), "{seen:?}");
    let (_, seen) = Screen::of(&database, &["ls", "none"], &[]).ended().await;
    assert_eq!(seen, "no such lease is held\r\n");
}

#[tokio::test]
async fn the_doctors_words_fit_into_80_columns() {
    let database = fresh().await;
    let (exit, seen) = Screen::of(&database, &["doctor"], &[]).ended().await;
    assert_eq!(exit, 0, "{seen:?}");
    assert!(seen.contains("\u{1b}[32mok "), "{seen:?}");
    fits(&seen);
}

#[tokio::test]
async fn a_watch_is_drawn_again_as_leases_come_and_go() {
    let database = fresh().await;
    let manager = leases(&database).await;
    let _first = manager.acquire("first").await.unwrap();
    let mut screen = Screen::of(&database, &["watch"], &[]);
    screen.until("1 lease held").await;
    let second = manager.acquire("second").await.unwrap();
    screen.until("2 leases held").await;
    screen.until("granted \u{1b}[0m  second").await;
    second.release().await.unwrap();
    screen.until("released\u{1b}[0m  second").await;
    screen.types("\u{3}").await;
    let (exit, seen) = screen.ended().await;
    assert_eq!(exit, 0, "an interrupt is how it ends: {seen:?}");
    fits(&seen);
}

#[tokio::test]
async fn a_command_reads_the_terminal_and_receives_the_interrupt() {
    let database = fresh().await;
    let script = "echo name?; read name; echo hello $name; read more";
    let mut screen = Screen::of(&database, &["run", "a", "--", "sh", "-c", script], &[]);
    screen.until("name?").await;
    screen.types("world\n").await;
    screen.until("hello world").await;
    screen.types("\u{3}").await;
    let (exit, seen) = screen.ended().await;
    assert_eq!(exit, 130, "{seen:?}");
    assert!(leases(&database).await.get("a").await.unwrap().is_none(), "it is given back");
}

#[tokio::test]
async fn a_job_that_is_stopped_and_continued_from_its_shell_goes_on() {
    let database = fresh().await;
    let tool = env!("CARGO_BIN_EXE_mongo-lease");
    // The shell of the terminal: it has job control, and the terminal changes hands.
    let inner = "echo ready; read line; echo got $line";
    let script = format!(
        "set -m; '{tool}' --db {} run a -- sh -c '{inner}'; echo \"stopped: $?\"; fg; \
         echo \"ended: $?\"; read last; echo \"the shell reads $last\"",
        database.name()
    );
    let mut screen = Screen::shell(&script);
    screen.until("ready").await;
    screen.types("\u{1a}").await;
    // 128 and SIGTSTP.
    screen.until("stopped: 148").await;
    screen.types("words\n").await;
    screen.until("got words").await;
    screen.until("ended: 0").await;
    screen.types("on\n").await;
    screen.until("the shell reads on").await;
    let (exit, seen) = screen.ended().await;
    assert_eq!(exit, 0, "{seen:?}");
}

#[tokio::test]
async fn while_it_waits_it_shows_who_has_the_lease() {
    let database = fresh().await;
    let manager = leases(&database).await;
    let lease = manager.acquire("a").await.unwrap();
    let arguments = ["run", "a", "--wait", "60s", "--", "echo", "mine"];
    let mut screen = Screen::of(&database, &arguments, &[]);
    screen.until(" more for \"a\": test@").await;
    screen.until(", 2").await;
    lease.release().await.unwrap();
    screen.until("mine").await;
    let (exit, seen) = screen.ended().await;
    assert_eq!(exit, 0, "{seen:?}");
}

impl Screen {
    /// A shell on a terminal, with the database's address.
    fn shell(script: &str) -> Screen {
        let mut command = Command::from(command("python3"));
        command.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/screen.py"));
        command.args(["bash", "-c", script]);
        command.env("MONGODB_URI", mongo_lease_testbed::Server::shared().uri());
        command.env("TERM", "xterm").stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.kill_on_drop(true).spawn().expect("python3 is there");
        let keys = child.stdin.take().expect("a pipe");
        let output = child.stdout.take().expect("a pipe");
        Screen { child, keys, output, seen: String::new() }
    }
}
