//! The examples print what they should.

use std::path::PathBuf;
use std::process::Stdio;

use mongo_lease_testbed::{Server, command};
use tokio::process::Command;
use tokio::time::timeout;

use crate::patience::MUCH_PATIENCE;

/// Cargo builds the examples along with the tests: `target/…/examples/`, beside `target/…/deps/` where this binary is.
pub(crate) fn example(name: &str) -> PathBuf {
    let tests = std::env::current_exe().expect("a path");
    let target = tests.parent().and_then(|deps| deps.parent()).expect("a folder above");
    let path = target.join("examples").join(format!("{name}{}", std::env::consts::EXE_SUFFIX));
    assert!(path.exists(), "{path:?}: `cargo test` builds it, and `--test it` does not");
    path
}

/// Returns the output of an example, on the server at this address or on one that it starts.
async fn run(command: std::process::Command, uri: Option<&str>) -> String {
    let mut command = Command::from(command);
    match uri {
        Some(uri) => command.env("MONGODB_URI", uri),
        None => command.env_remove("MONGODB_URI"),
    };
    command.stdin(Stdio::null()).kill_on_drop(true);
    // Some start ten processes, one after the other.
    let output = timeout(MUCH_PATIENCE, command.output()).await.expect("the example ends");
    let output = output.expect("an end");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}\n{errors}", String::from_utf8_lossy(&output.stdout));
    String::from_utf8(output.stdout).expect("readable output")
}

/// The line with each token as `TOKEN`, and with each number of seconds that depends on the machine as `SOME`.
fn masked(line: &str, tokens: &mut Vec<u64>) -> String {
    let mut words: Vec<String> = Vec::new();
    for word in line.split(' ') {
        let bare = word.trim_end_matches([',', '.', ':']);
        let is_number = bare.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
        let mask = match is_number {
            true if bare.len() > 9 => {
                tokens.push(bare.parse().expect("a token"));
                "TOKEN"
            }
            true if words.last().is_some_and(|it| it == "after") => "SOME",
            _ => bare,
        };
        words.push(format!("{mask}{}", &word[bare.len()..]));
    }
    words.join(" ")
}

/// Runs an example on the server that the tests share, and asserts that it prints this, and rising tokens.
async fn assert_prints(name: &str, expected: &str) {
    assert_prints_with(name, Some(Server::shared().uri()), expected).await;
}

/// The same, on the server at this address or on one that the example starts.
pub(crate) async fn assert_prints_with(name: &str, uri: Option<&str>, expected: &str) {
    let printed = run(command(example(name)), uri).await;
    let mut tokens = Vec::new();
    let lines: Vec<String> = printed.lines().map(|line| masked(line, &mut tokens)).collect();
    assert_eq!(lines, expected.lines().collect::<Vec<_>>());
    assert!(tokens.is_sorted_by(|earlier, later| earlier < later), "{printed}");
}

#[tokio::test]
async fn quickstart_shows_contention_a_wrong_value_and_a_takeover() {
    let expected = "\
1. Set up: a collection with a unique index on `name` and a TTL index on `expiresAt`.

2. Alice and Bob want `invoice:42`. Alice is first and works for half a second.
   Alice is granted the lease, with fencing token TOKEN.
   Bob asks without waiting: busy, alice has it.
   Bob waits instead, and is granted it after SOME s.
   Bob's token is TOKEN: greater, so a late write of Alice's can be told.

3. Carol holds `report`. Mallory knows the name, and not the value.
   Mallory releases it with a wrong value: NotHeld.
   Carol still holds it: true.
   Carol releases it with hers: Released.

4. Dave takes `backup` for one second, and crashes.
   Erin waits, and is granted it after SOME s: the ttl, and 1 s for the clocks.
   Her token is greater than Dave's: true.
   Dave comes back and releases what was his: NotHeld. Nothing is touched.

Done: 0 leases left to release at shutdown.
";
    // Without an address. The others start one in the same way.
    assert_prints_with("quickstart", None, expected).await;
}

#[tokio::test]
async fn in_memory_runs_its_tests_without_a_server_or_a_program() {
    let mut alone = command("env");
    alone.args(["-i", "PATH="]).arg(example("in_memory"));
    let expected = "\
acquire: an invoice is billed once by two processes
queue: waiting calls are served in their order
loss: work stops when its lease is lost
fencing: the ledger refuses a holder that has missed its loss
election: another process leads when the leader is lost
faults: a lost reply bills nothing twice
";
    assert_eq!(run(alone, None).await, expected);
}

#[tokio::test]
async fn leader_shows_two_processes_that_take_turns_over_a_crash() {
    let expected = "\
Ann and Ben, two processes, stand for leader.
  Ann leads, with fencing token TOKEN.
  Ben stands.
  The database says: ann leads.
Ann crashes.
  Ben leads, with fencing token TOKEN after SOME s: Ann's ttl, and 1 s for the clocks.
  The database says: ben leads.
Ann is started again, and follows.
  Ann stands.
Cem follows too, and is stopped before he has led.
  Cem stands.
  Cem has stopped.
Ben is stopped.
  Ben has stopped.
  Ann leads, with fencing token TOKEN, and has not waited for a ttl: true.
";
    assert_prints("leader", expected).await;
}

#[tokio::test]
async fn scheduled_job_shows_a_skipped_and_a_taken_over_run() {
    let expected = "\
It is two o'clock, on both machines.
  Machine one runs the job, with fencing token TOKEN.
  Machine two skips it, for machine one is at it.
  Machine one is done.
Machine two's clock is late: there it is two o'clock only now.
  Machine two skips it, for it has been run: the name stays taken for `at_least`.
The next day.
  Machine two runs the job, with fencing token TOKEN.
  It crashes in the middle of the work.
  Machine one skips it, for machine two is at it.
Machine one is told again and again.
  Machine one runs the job, with fencing token TOKEN after SOME s: the ttl, and 1 s for the clocks.
  Machine one is done.
";
    assert_prints("scheduled_job", expected).await;
}

#[tokio::test]
async fn semaphore_shows_five_of_eight_and_the_permit_of_a_crash() {
    let expected = "\
Eight workers want to call tenant:7. At most 5 may do so at a time.
  Ann works.
  Ben works.
  Cem works.
  Dora works.
  Emil works.
  Fay waits.
  Gus waits.
  Hana waits.
  The observer reads: 5 of 5 permits are in use, and 3 in the queue.
Ann crashes in the middle of her work.
  Fay works after SOME s: Ann's ttl, and 1 s for the clocks.
  The observer reads: 5 of 5 permits are in use, and 2 in the queue.
Ben is done.
  Gus works, and has not waited for a ttl: true.
  The observer reads: 5 of 5 permits are in use, and 1 in the queue.
All the others are done, one after the other.
  Hana works.
  The observer reads: no permit is in use.
";
    assert_prints("semaphore", expected).await;
}

#[cfg(unix)]
#[tokio::test]
async fn checkpoint_shows_a_take_over_that_counts_each_order_once() {
    let expected = "\
Ann adds up the orders.
  Ann begins with the next order.
  Ann reads an order of 10.
  Her checkpoint is stored, with a total of 10.
She reads the next order, and is stopped before she stores it.
  Ann reads an order of 20.
Ben is granted the lease when Ann's has expired.
  Ben goes on after a total of 10.
  Ben reads an order of 20.
Ann wakes before Ben has stored anything of his own.
  Her checkpoint is refused: Ben has claimed it.
  His checkpoint is stored, with a total of 30.
The total is 30: each order counts once.
";
    assert_prints("checkpoint", expected).await;
}
