//! No test here counts or measures what a busy machine changes. Such a test is in `tests/alone`, or has a paused clock.

use std::collections::BTreeSet;

use super::{files_below, is_code};

/// Texts of clocks and counts, with the reasons why no load makes a test fail that has them, and those tests.
const MEASURES: [(&str, &str, &str); 9] = [
    (
        "elapsed()",
        "nothing is too early, which no load changes",
        "absent.rs deadlines.rs renewal.rs waiting.rs",
    ),
    (
        "elapsed()",
        "the clock is paused",
        "election.rs events.rs late_majority.rs late_majority/acquiring.rs \
         late_majority/ending.rs late_majority/holding.rs late_majority/waiting.rs line/terms.rs \
         logs.rs memory/bounds.rs memory/cleanup.rs memory/overload.rs memory/stream.rs \
         memory/time.rs memory/wire.rs options.rs several/convoy.rs several/trouble.rs shutdown.rs",
    ),
    (
        "elapsed()",
        "it decides how long a test goes on, or what it may ask",
        "loss.rs together/tokens.rs tower_layer.rs",
    ),
    ("elapsed()", "the bound is the patience of a test", "obstinate.rs"),
    ("command_counts()", "nothing of a kind is sent", "churn.rs tower_layer/keys.rs"),
    (
        "command_counts()",
        "something has been sent",
        "renewal.rs together/releases.rs together/tokens.rs",
    ),
    (
        "crate::spy",
        "nothing of a kind is sent",
        "permits/refused.rs queue_faults/no_stream.rs transactions/refused.rs user_strings.rs",
    ),
    ("crate::spy", "something has been sent", "blocked/acquires.rs"),
    (
        "crate::spy",
        "what is in the commands, however often they are sent",
        "clients.rs fence/parts.rs first_upsert.rs together/tokens.rs together/without_majority.rs",
    ),
];

#[test]
fn no_test_beside_others_counts_or_measures() {
    for text in MEASURES.iter().map(|(text, ..)| *text).collect::<BTreeSet<_>>() {
        let known = MEASURES.iter().filter(|(of, ..)| *of == text);
        let known: BTreeSet<&str> = known.flat_map(|(.., of)| of.split_whitespace()).collect();
        let has = |code: &str| code.lines().any(|line| is_code(line) && line.contains(text));
        let found = files_below("tests/it").filter(|(path, code)| {
            // This one only names it.
            !path.starts_with("tidy/") && has(code)
        });
        let found: BTreeSet<String> = found.map(|(path, _)| path).collect();
        let found: BTreeSet<&str> = found.iter().map(String::as_str).collect();
        assert_eq!(found, known, "`{text}`: move it to `tests/alone`, or give a reason here");
    }
}
