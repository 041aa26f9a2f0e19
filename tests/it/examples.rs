//! The examples say what they are meant to say.

use std::path::PathBuf;
use std::process::Command;

/// What an example printed. Cargo builds the examples along with the tests, into the folder beside theirs.
fn run(example: &str) -> String {
    let test = std::env::current_exe().expect("the path of this test");
    let folder = test.parent().and_then(|deps| deps.parent()).expect("the folder of the build");
    let path: PathBuf = folder.join("examples").join(example);
    let output = Command::new(&path).output().unwrap_or_else(|error| {
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
fn quickstart_shows_two_contenders_a_wrong_value_and_a_take_over() {
    let printed = run("quickstart");
    let lines: Vec<String> =
        printed.lines().filter(|line| !line.is_empty()).map(without_numbers).collect();
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
    assert_eq!(lines, expected);
    let tokens: Vec<u64> = printed
        .split(|character: char| !character.is_ascii_digit())
        .filter(|digits| digits.len() > 15)
        .map(|digits| digits.parse().expect("a token"))
        .collect();
    assert_eq!(tokens.len(), 2);
    assert!(tokens[0] < tokens[1], "tokens do not rise: {tokens:?}");
}
