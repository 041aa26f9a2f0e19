//! Names, sentences and sizes of the house: one name means one thing, and comments are plain.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;

use super::{files, files_below, root};

/// Names that items had before they got those of the field. They name nothing any more.
const FORMER_NAMES: &str = "\
    Asking Ask Take Takes Combiner Combine Company Lines Line Member Heirloom Places Place \
    PlaceGuard Beat Reaper Releases Leave Seen Look Which Target Expected HandOn Successor \
    Limits UnderWay Answered Wary Terms Tick Told Nudge";

/// The private half of a handle that is cheap to clone, and what its lock guards: each file may have its own.
const PRIVATE_HALVES: [&str; 2] = ["Shared", "State"];

/// How many entries `src` may have, and which ways of `ARCHITECTURE.md` may have so many files.
const ENTRIES_MAX: usize = 30;
const WAYS: [(&str, usize); 2] = [("## The way of an acquire", 15), ("## The way of a release", 8)];

#[test]
fn one_name_means_one_thing() {
    let mut places: BTreeMap<String, Vec<String>> = BTreeMap::new();
    // The specification gives the parts of a command the names that they have in the command.
    let is_counted = |path: &str| !path.contains("tests") && !path.starts_with("spec/");
    let all = files_below("src").chain(files_below("core/src"));
    for (path, text) in all.filter(|(path, _)| is_counted(path)) {
        for name in types(&text) {
            places.entry(name.to_owned()).or_default().push(path.clone());
        }
    }
    assert!(places.len() > 150, "{} types", places.len());
    let mut found = String::new();
    for (name, paths) in &places {
        if paths.len() > 1 && !PRIVATE_HALVES.contains(&name.as_str()) {
            writeln!(found, "`{name}` is declared in {}", paths.join(" and ")).unwrap();
        }
        if FORMER_NAMES.split_whitespace().any(|former| former == name) {
            writeln!(found, "`{name}` is a former name: {}", paths.join(", ")).unwrap();
        }
    }
    assert!(found.is_empty(), "names:\n{found}");
}

/// The types and traits that a file declares outside of functions and tests.
fn types(text: &str) -> impl Iterator<Item = &str> {
    text.lines().take_while(|line| *line != "mod tests {").filter_map(|line| {
        let line = ["pub(crate) ", "pub(super) ", "pub "]
            .iter()
            .find_map(|visible| line.strip_prefix(visible))
            .unwrap_or(line);
        let rest =
            ["struct ", "enum ", "trait ", "type "].iter().find_map(|it| line.strip_prefix(it))?;
        rest.split(|letter: char| !letter.is_alphanumeric()).next()
    })
}

#[test]
fn no_sentence_begins_with_a_riddle() {
    let mut found = String::new();
    for folder in ["src", "core", "tests", "migrations", "cli", "examples", "benches"] {
        for (path, text) in files(folder) {
            for (number, line) in text.lines().enumerate() {
                if comment(line).is_some_and(begins_with_a_riddle) {
                    writeln!(found, "{}:{}: {}", path.display(), number + 1, line.trim()).unwrap();
                }
            }
        }
    }
    assert!(found.is_empty(), "sentences that begin with who, what or that:\n{found}");
}

#[test]
fn a_riddle_is_found() {
    for line in ["// Who waits is told.", "/// A b. What is c is d.", "//! - That is e, is f."] {
        assert!(comment(line).is_some_and(begins_with_a_riddle), "{line}");
    }
    let plain =
        ["let a = \"// Who\";", "// The waiter that waits.", "// It is what it is.", "// Whose"];
    for line in plain {
        assert!(!comment(line).is_some_and(begins_with_a_riddle), "{line}");
    }
}

fn comment(line: &str) -> Option<&str> {
    line.trim_start().strip_prefix("//").map(|rest| rest.trim_start_matches(['/', '!']))
}

fn begins_with_a_riddle(comment: &str) -> bool {
    let begins = |text: &str| {
        let text = text.trim_start().trim_start_matches("- ");
        ["Who", "What", "That"].iter().any(|word| {
            text.strip_prefix(word).is_some_and(|rest| !rest.starts_with(char::is_alphanumeric))
        })
    };
    begins(comment)
        || [". ", ": ", "! ", "? "].iter().any(|end| comment.split(end).skip(1).any(begins))
}

#[test]
fn the_house_is_as_small_as_it_says() {
    let entries = fs::read_dir(root().join("src")).unwrap().count();
    assert!(entries <= ENTRIES_MAX, "{entries} entries in src");
    let architecture = fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    for (way, files_max) in WAYS {
        let (_, section) = architecture.split_once(way).unwrap_or_else(|| panic!("no {way}"));
        let section = section.split("\n## ").next().unwrap();
        let rows = section.lines().filter(|line| line.starts_with("| ") && line.contains(".rs`"));
        let named: Vec<_> = rows.filter_map(|row| row.split('`').nth(1)).collect();
        assert!((1..=files_max).contains(&named.len()), "{way}: {} files", named.len());
        for file in named {
            let is_there =
                [file.to_owned(), format!("src/{file}")].iter().any(|it| root().join(it).is_file());
            assert!(is_there, "{way}: no {file}");
        }
    }
}
