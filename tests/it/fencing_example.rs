//! `examples/fencing.rs` prints what it should.

use std::path::PathBuf;
use std::process::Stdio;

use mongo_lease_testbed::command;
use tokio::process::Command;

use crate::patience::soon;

/// Cargo builds the examples along with the tests: `target/…/examples/`, beside `target/…/deps/`
/// where this binary is.
pub(crate) fn example(name: &str) -> PathBuf {
    let tests = std::env::current_exe().expect("a path");
    let target = tests.parent().and_then(|deps| deps.parent()).expect("a folder above");
    target.join("examples").join(format!("{name}{}", std::env::consts::EXE_SUFFIX))
}

/// Long numbers are tokens, and durations in seconds depend on the machine.
fn without_numbers(line: &str) -> String {
    let is_number = |word: &str| word.bytes().all(|byte| byte.is_ascii_digit());
    let mut words: Vec<&str> = Vec::new();
    for word in line.split(' ') {
        let bare = word.trim_end_matches([',', '.']);
        let after = words.last() == Some(&"after");
        words.push(match is_number(bare) {
            true if bare.len() > 9 => "TOKEN",
            true if after => "SOME",
            _ => word,
        });
    }
    words.join(" ")
}

const SAID: &str = "\
The stock is 10 apples. Who holds the lease `stock` may change it.

By token
  A holder, in a process of its own, is granted the lease for 1 s.
  Its token is TOKEN It writes 9 apples: accepted.
  Then it is stopped in the middle of its work, and cannot renew the lease.
  A successor is granted it after SOME s: the ttl, and 1 s for the clocks.
  Its token is TOKEN which is greater. It writes 5: accepted.
  The holder wakes. It does not look at the lease, and writes 8: refused.
  Why: the document has seen the newer token. No clock takes part in that.
  Asked, its lease says: it is lost.
  There are 5 apples.

By transaction
  Another holder begins a transaction, guards it, and writes 4 apples in it: accepted.
  It is stopped before its commit.
  The lease has run out. But the guard is a write to the lease's own document: as
  long as the transaction is open, nobody is granted the lease. The server ends the
  transaction when it has been open for too long, and a successor is granted it.
  It writes 3: accepted.
  The holder wakes, and commits: refused.
  Why: either the guard is committed or the lease is granted to another, never both.
  There are 3 apples.
";

// It takes 6 s: two leases expire, and the server aborts a transaction.
#[tokio::test]
async fn the_example_of_fencing_says_what_happens_and_why_it_is_safe() {
    let run = Command::from(command(example("fencing")))
        .env_remove("MONGODB_URI")
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output();
    let output = soon("the end of the example", run).await.expect("cargo has built it");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let said = String::from_utf8(output.stdout).unwrap();
    let said: Vec<String> = said.lines().map(without_numbers).collect();
    let expected: Vec<&str> = SAID.lines().collect();
    assert_eq!(said, expected, "{errors}");
}
