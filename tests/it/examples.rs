//! The examples print what they should.

use std::ffi::OsStr;
use std::path::PathBuf;

use mongo_lease_testbed::command;

/// Runs an example, and returns its output. Cargo builds the examples along with the tests, into the folder beside
/// theirs.
fn run(example: &str) -> String {
    run_by(example, &[])
}

/// The same, by another program with these arguments.
fn run_by(example: &str, program: &[&str]) -> String {
    let test = std::env::current_exe().expect("the path of this test");
    let folder = test.parent().and_then(|deps| deps.parent()).expect("the folder of the build");
    let path: PathBuf = folder.join("examples").join(example);
    let mut line = program.iter().map(OsStr::new).chain([path.as_os_str()]);
    let mut command = command(line.next().expect("at least the example"));
    let output = command.args(line).output().unwrap_or_else(|error| {
        panic!("{}: {error}; `cargo test` builds it, and `--test it` does not", path.display())
    });
    assert!(
        output.status.success(),
        "{example} failed:\n{}\n{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).expect("readable output")
}

/// The same line with every number as `#`: tokens and times differ from run to run.
fn without_numbers(line: &str) -> String {
    let mut masked = String::new();
    for character in line.chars() {
        match character {
            '0'..='9' if masked.ends_with('#') => {}
            '0'..='9' => masked.push('#'),
            other => masked.push(other),
        }
    }
    masked
}

#[test]
fn quickstart_shows_contention_a_wrong_value_and_a_takeover() {
    let printed = run("quickstart");
    let expected = [
        "#. Set up: a collection with a unique index on `name` and a TTL index on `expiresAt`.",
        "#. Alice and Bob want `invoice:#`. Alice is first and works for half a second.",
        "   Alice is granted the lease, with fencing token #.",
        "   Bob asks without waiting: busy, alice has it.",
        "   Bob waits instead, and is granted it after #.# s.",
        "   Bob's token is #: greater, so a late write of Alice's can be told.",
        "#. Carol holds `report`. Mallory knows the name, and not the value.",
        "   Mallory releases it with a wrong value: NotHeld.",
        "   Carol still holds it: true.",
        "   Carol releases it with hers: Released.",
        "#. Dave takes `backup` for one second, and crashes.",
        "   Erin waits, and is granted it after # s: the ttl, and # s for the clocks.",
        "   Her token is greater than Dave's: true.",
        "   Dave comes back and releases what was his: NotHeld. Nothing is touched.",
        "Done: # leases left to release at shutdown.",
    ];
    assert_eq!(lines(&printed), expected);
    let tokens = tokens(&printed);
    assert_eq!(tokens.len(), 2);
    assert!(tokens[0] < tokens[1], "tokens do not rise: {tokens:?}");
}

/// The lines of its output, without empty ones and with numbers replaced.
fn lines(printed: &str) -> Vec<String> {
    printed.lines().filter(|line| !line.is_empty()).map(without_numbers).collect()
}

/// The numbers that are long enough to be tokens, in their order.
fn tokens(printed: &str) -> Vec<u64> {
    printed
        .split(|character: char| !character.is_ascii_digit())
        .filter(|digits| digits.len() > 15)
        .map(|digits| digits.parse().expect("a token"))
        .collect()
}

#[test]
fn in_memory_runs_its_tests_without_a_server_or_a_program() {
    let printed = run_by("in_memory", &["env", "-i", "PATH="]);
    let expected = [
        "acquire: an invoice is billed once by two processes",
        "queue: waiting calls are served in their order",
        "loss: work stops when its lease is lost",
        "fencing: the ledger refuses a holder that has missed its loss",
        "election: another process leads when the leader is lost",
        "faults: a lost reply bills nothing twice",
    ];
    assert_eq!(printed.lines().collect::<Vec<_>>(), expected);
}

#[test]
fn leader_shows_two_processes_that_take_turns_over_a_crash() {
    let printed = run("leader");
    let expected = [
        "Ann and Ben, two processes, stand for leader.",
        "  Ann leads, with fencing token #.",
        "  Ben stands.",
        "  The database says: ann leads.",
        "Ann crashes.",
        "  Ben leads, with fencing token # after # s: Ann's ttl, and # s for the clocks.",
        "  The database says: ben leads.",
        "Ann is started again, and follows.",
        "  Ann stands.",
        "Cem follows too, and is stopped before he has led.",
        "  Cem stands.",
        "  Cem has stopped.",
        "Ben is stopped.",
        "  Ben has stopped.",
        "  Ann leads, with fencing token #, and has not waited for a ttl: true.",
    ];
    assert_eq!(lines(&printed), expected);
    let tokens = tokens(&printed);
    assert_eq!(tokens.len(), 3);
    assert!(tokens.is_sorted(), "tokens do not rise: {tokens:?}");
}

#[test]
fn scheduled_job_shows_a_skipped_and_a_taken_over_run() {
    let printed = run("scheduled_job");
    let expected = [
        "It is two o'clock, on both machines.",
        "  Machine one runs the job, with fencing token #.",
        "  Machine two skips it, for machine one is at it.",
        "  Machine one is done.",
        "Machine two's clock is late: there it is two o'clock only now.",
        "  Machine two skips it, for it has been run: the name stays taken for `at_least`.",
        "The next day.",
        "  Machine two runs the job, with fencing token #.",
        "  It crashes in the middle of the work.",
        "  Machine one skips it, for machine two is at it.",
        "Machine one is told again and again.",
        "  Machine one runs the job, with fencing token # after # s: \
         the ttl, and # s for the clocks.",
        "  Machine one is done.",
    ];
    assert_eq!(lines(&printed), expected);
    let tokens = tokens(&printed);
    assert_eq!(tokens.len(), 3);
    assert!(tokens.is_sorted(), "tokens do not rise: {tokens:?}");
}

#[test]
fn semaphore_shows_five_of_eight_and_the_permit_of_a_crash() {
    let printed = run("semaphore");
    let expected = [
        "Eight workers want to call tenant:#. At most # may do so at a time.",
        "  Ann works.",
        "  Ben works.",
        "  Cem works.",
        "  Dora works.",
        "  Emil works.",
        "  Fay waits.",
        "  Gus waits.",
        "  Hana waits.",
        "  The observer reads: 5 of 5 permits are in use, and 3 in the queue.",
        "Ann is done.",
        "  Fay works, and has not waited for a ttl: true.",
        "  The observer reads: 5 of 5 permits are in use, and 2 in the queue.",
        "Ben crashes in the middle of his work.",
        "  Gus works after # s: Ben's ttl, and # s for the clocks.",
        "  The observer reads: 5 of 5 permits are in use, and 1 in the queue.",
        "All the others are done, one after the other.",
        "  Hana works.",
        "  The observer reads: no permit is in use.",
    ];
    // The counts are what is to be shown.
    let with_counts = |line: &str| match line.contains("The observer reads") {
        true => line.to_owned(),
        false => without_numbers(line),
    };
    let lines: Vec<String> = printed.lines().map(with_counts).collect();
    assert_eq!(lines, expected);
}

#[cfg(unix)]
#[test]
fn checkpoint_shows_a_take_over_that_counts_each_order_once() {
    let printed = run("checkpoint");
    let expected = [
        "Ann adds up the orders.",
        "  Ann begins with the next order.",
        "  Ann reads an order of 10.",
        "  Her checkpoint is stored, with a total of 10.",
        "She reads the next order, and is stopped before she stores it.",
        "  Ann reads an order of 20.",
        "Ben is granted the lease when Ann's has expired.",
        "  Ben goes on after a total of 10.",
        "  Ben reads an order of 20.",
        "Ann wakes before Ben has stored anything of his own.",
        "  Her checkpoint is refused: Ben has claimed it.",
        "  His checkpoint is stored, with a total of 30.",
        "The total is 30: each order counts once.",
    ];
    assert_eq!(printed.lines().collect::<Vec<_>>(), expected);
}
