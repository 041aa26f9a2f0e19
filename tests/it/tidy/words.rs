//! Names, sentences and sizes of the house: one name means one thing, and comments are plain.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;

use super::{ALL, HOUSE, files, files_below, root};

/// Names that items had before they got those of the field. They name nothing any more.
const FORMER_NAMES: &str = "\
    Asking Ask Take Takes Combiner Combine Company Lines Line Member Heirloom Places Place \
    PlaceGuard Beat Reaper Releases Leave Seen Look Which Target Expected HandOn Successor \
    Limits UnderWay Answered Wary Terms Tick Told Nudge";

/// The private half of a handle that is cheap to clone, and what its lock guards: each file may have its own.
const PRIVATE_HALVES: [&str; 2] = ["Inner", "State"];

/// Types that the specification and one other file declare under one name.
const ALSO_IN_SPEC: [(&str, &str); 6] = [
    // The same type, with texts as identities.
    ("Admission", "texts.rs"),
    ("GrantMatch", "texts.rs"),
    ("Promoted", "texts.rs"),
    // The thing of the glossary, as the document shows it and as its process knows it.
    ("Grant", "hold/mod.rs"),
    ("Holder", "rules/holder.rs"),
    // The one rule of admission, in either of its definitions.
    ("Room", "commands/admission.rs"),
];

/// How many entries `src` may have, and how many lines `ARCHITECTURE.md`.
const ENTRIES_MAX: usize = 30;
const ARCHITECTURE_LINES_MAX: usize = 220;

/// The ways of `ARCHITECTURE.md`, and how many files each may have.
const WAYS: [(&str, usize); 5] = [
    ("### The way of an acquire\n", 17),
    ("### The way of a lost reply\n", 6),
    ("### The way of a release\n", 10),
    ("### The way of a hand-off\n", 8),
    ("### The way of a permit\n", 3),
];

const TERMS_MAX: usize = 25;

/// The terms of the glossary, and the files below the folders of `HOUSE` that name a type, a module, a function or a
/// constant so. A name of several words, a field and a variable are not looked at. The public `Attempt` is the outcome
/// of the one attempt of `try_acquire`, and `Lane::blocked` is the lane of commands about blocked documents.
const BEARERS: &str = "\
lease: lib.rs lease.rs election.rs
grant: format.rs rules/ids.rs spec/document.rs hold/mod.rs acquire/call.rs
holder: format.rs rules/mod.rs rules/holder.rs spec/document.rs commands/snapshot.rs \
    hold/mod.rs refusal.rs
reader:
permit:
limit: format.rs rules/permits.rs commands/acquire_reply.rs acquire/semaphore.rs layer.rs
value: format.rs spec/document.rs texts.rs commands/renew.rs acquire/mod.rs lease.rs
token: lib.rs token.rs commands/acquire_parts.rs commands/reply.rs acquire/call.rs lease.rs
fence: fencing/mod.rs fencing/fence.rs
guard: spec/renew.rs commands/renew.rs transaction/mod.rs transaction/guard.rs
echo: commands/mod.rs
validity: rules/timing.rs
attempt: spec/mod.rs acquire/mod.rs acquire/call.rs batch/op.rs batch/acquires.rs \
    batch/releases.rs runner/mod.rs runner/memory.rs
maybe_applied: rules/outcome.rs
queue: format.rs spec/mod.rs spec/document.rs commands/mod.rs
entry: format.rs spec/document.rs spec/attempt.rs commands/acquire.rs wait/waiters.rs
heartbeat: spec/queue.rs commands/mod.rs commands/heartbeat.rs commands/queue.rs wait/mod.rs
admission: spec/mod.rs spec/document.rs commands/mod.rs texts.rs
hand_off:
release: lib.rs spec/mod.rs commands/mod.rs leases.rs memory.rs lease.rs manager.rs several/mod.rs \
    election.rs
abandon: rules/attempts.rs release/call_state.rs
leave:
detach: lease.rs
tombstone: rules/mod.rs spec/release.rs commands/release.rs batch/releases.rs
blocked: rules/mod.rs rules/slots.rs
";

#[test]
fn one_name_means_one_thing() {
    let mut places: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let all = HOUSE.into_iter().flat_map(files_below);
    for (path, text) in all.filter(|(path, _)| !path.contains("tests")) {
        for name in types(&text) {
            places.entry(name.to_owned()).or_default().push(path.clone());
        }
    }
    assert!(places.len() > 150, "{} types", places.len());
    let mut found = String::new();
    for (name, other) in ALSO_IN_SPEC {
        let paths = places.get_mut(name).unwrap_or_else(|| panic!("no type `{name}`"));
        let is_twice = paths.len() == 2 && paths.iter().any(|path| path.starts_with("spec/"));
        assert!(is_twice && paths.iter().any(|path| path == other), "`{name}`: {paths:?}");
        paths.pop();
    }
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
    let lines = text.lines().take_while(|line| *line != "mod tests {");
    let outside = lines.filter(|line| !line.starts_with(' ')).filter_map(declaration);
    outside.filter(|(kind, _)| TYPES.contains(kind)).map(|(_, name)| name)
}

#[test]
fn no_sentence_begins_with_a_riddle() {
    let mut found = String::new();
    for (path, text) in ALL.into_iter().flat_map(files) {
        for (number, line) in text.lines().enumerate() {
            if comment(line).is_some_and(begins_with_a_riddle) {
                writeln!(found, "{}:{}: {}", path.display(), number + 1, line.trim()).unwrap();
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
    let architecture = architecture();
    let lines = architecture.lines().count();
    assert!(lines <= ARCHITECTURE_LINES_MAX, "{lines} lines");
    for (way, files_max) in WAYS {
        let (_, section) = architecture.split_once(way).unwrap_or_else(|| panic!("no {way}"));
        let section = section.split("\n##").next().unwrap();
        let quoted = section.split('`').skip(1).step_by(2);
        let is_file = |text: &&str| {
            let is_below = |folder: &str| text.starts_with(&format!("{folder}/"));
            text.ends_with(".rs") && HOUSE.into_iter().any(is_below)
        };
        let named: BTreeSet<_> = quoted.filter(is_file).collect();
        assert!((1..=files_max).contains(&named.len()), "{way}: {} files", named.len());
        let head = format!("{} files", named.len());
        assert!(section.contains(&head), "{way}: it does not say {head}");
        for file in named {
            assert!(root().join(file).is_file(), "{way}: no {file}");
        }
    }
}

#[test]
fn a_glossary_term_names_one_thing() {
    let architecture = architecture();
    let (_, glossary) = architecture.split_once("\n## Glossary\n").unwrap();
    let rows = glossary.lines().filter_map(|line| line.strip_prefix("| ")?.split(" |").next());
    let terms = rows.filter(|row| *row != "term" && !row.starts_with("---"));
    let terms: Vec<_> = terms.map(|term| term.replace([' ', '-'], "_")).collect();
    let bearers: Vec<_> = BEARERS.lines().map(|line| line.split_once(':').unwrap()).collect();
    assert!((10..=TERMS_MAX).contains(&terms.len()), "{} terms", terms.len());
    let known: Vec<_> = bearers.iter().map(|(term, _)| *term).collect();
    assert_eq!(terms, known, "the glossary and `BEARERS`");
    let mut found = String::new();
    let mut named = 0;
    let all = HOUSE.into_iter().flat_map(files_below);
    for (path, text) in all.filter(|(path, _)| !path.contains("tests")) {
        for name in declared(&text) {
            if let Some((_, files)) = bearers.iter().find(|(term, _)| *term == name) {
                named += 1;
                if !files.split_whitespace().any(|file| file == path) {
                    writeln!(found, "{path}: is `{name}` the thing of the glossary?").unwrap();
                }
            }
        }
    }
    assert!(named > 50, "{named} declarations");
    assert!(found.is_empty(), "rename it, or add its file to `BEARERS`:\n{found}");
}

#[test]
fn declarations_are_found_in_every_form() {
    let text = "pub(crate) struct Grant {\n    pub async fn hand_off(\nconst MAYBE_APPLIED: u8\n\
                pub const fn limit(self)\npub mod entry {\n    type Value: Clone;\n\
                // fn guard()\nlet fn_echo = 1;";
    let names: Vec<_> = declared(text).collect();
    assert_eq!(names, ["grant", "hand_off", "maybe_applied", "limit", "entry", "value"]);
}

/// The names of the types, modules, functions and constants of a file, with their words in lower case.
fn declared(text: &str) -> impl Iterator<Item = String> {
    text.lines().filter_map(declaration).map(|(_, name)| snake(name))
}

const TYPES: [&str; 4] = ["struct", "enum", "trait", "type"];
const OTHERS: [&str; 4] = ["mod", "fn", "const", "static"];

/// The kind and the name of what a line declares, in a trait or a function too.
fn declaration(line: &str) -> Option<(&str, &str)> {
    let line = line.trim_start();
    let line = match line.strip_prefix("pub(") {
        Some(rest) => rest.split_once(") ")?.1,
        None => line.strip_prefix("pub ").unwrap_or(line),
    };
    let line = line.strip_prefix("async ").unwrap_or(line);
    let line = line.strip_prefix("const fn ").map_or(line, |_| &line["const ".len()..]);
    let (kind, rest) = line.split_once(' ')?;
    let name = rest.split(|letter: char| !letter.is_alphanumeric() && letter != '_').next()?;
    let is_known = TYPES.contains(&kind) || OTHERS.contains(&kind);
    (is_known && !name.is_empty()).then_some((kind, name))
}

/// The same name in lower case, with its words separated by `_`.
fn snake(name: &str) -> String {
    let mut snake = String::new();
    let mut is_inside_word = false;
    for letter in name.chars() {
        if letter.is_uppercase() && is_inside_word {
            snake.push('_');
        }
        is_inside_word = letter.is_lowercase();
        snake.extend(letter.to_lowercase());
    }
    snake
}

fn architecture() -> String {
    fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap()
}
