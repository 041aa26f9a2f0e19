//! The rules of the house that a machine can check. A failure names the file and the line.

mod circles;
mod exact;
mod pure;
mod words;

use std::fmt::Write;
use std::fs;
use std::path::PathBuf;

/// The modules from the top down: each may import those below it, and no other.
///
/// `manager`, `acquire` and `lease` are the public face, and the modules above them are built on that alone. They share
/// `engine`. Below it come the tasks, the runner, and at the bottom what knows nothing of the others. The protocol with
/// its commands is a package of its own, `core`, and so is what carries them out in memory, `memory`.
const MODULES: &str = "\
    election scheduled_job several builder manager acquire transaction lease list fencing engine \
    wait hold release indexes retry batch hints runner telemetry options error failure memory \
    clock token lock mistake";

/// The folders of the library and of the packages that it is made of. Files are named by their paths below them.
const HOUSE: [&str; 4] = ["src", "core/src", "memory/src", "tower/src"];

/// Banned texts, and the files that may contain each.
const BANS: [(&str, &[&str]); 17] = [
    // Tasks are started in one place, which knows them all.
    ("tokio::spawn", &["runner/"]),
    ("task::spawn", &["runner/"]),
    (".spawn_on(", &["runner/"]),
    ("spawn_blocking", &[]),
    // Clocks and randomness are read in one place.
    ("Instant::now(", &["clock/"]),
    // The store in memory has a date of its own in place of a server's.
    ("SystemTime", &["clock/memory.rs"]),
    ("Utc::now", &[]),
    ("Local::now", &[]),
    ("DateTime::now", &[]),
    ("Realtime", &[]),
    ("rand::", &["clock/"]),
    ("tokio::time", &["clock/"]),
    // Commands are sent by the runner; those of a transaction need its session.
    ("run_command(", &["runner/", "transaction/"]),
    // And they are written in `core`. A fence is the user's own filter.
    ("doc! {", &["fencing/"]),
    // The driver decides which BSON library it is.
    ("use bson", &[]),
    ("todo!(", &[]),
    ("println!(", &[]),
];

/// All folders with code.
const ALL: [&str; 9] =
    ["src", "core", "memory", "tower", "tests", "migrations", "cli", "examples", "benches"];

/// The folders with tests that must not wait for a time or start processes by themselves.
const TESTS: &str = "\
    tests/it tests/alone tests/tools tests/core/tests tests/processes/tests tests/security \
    tests/mongoose/tests tests/frameworks/tests tests/model/tests tests/pages/tests \
    migrations/tests cli/tests examples/axum_service/tests \
    examples/observability/tests examples/cron_jobs/tests";

/// Texts that are banned from tests. Other processes are started by the testbed's `command`: else they inherit which
/// signals are ignored, and a test depends on who has started it.
const TEST_BANS: [&str; 3] = ["#[ignore", "sleep(", "Command::new("];

#[test]
fn everything_is_in_its_room() {
    let mut found = String::new();
    for (path, number, line) in code_lines("src").filter(|(path, ..)| !path.contains("tests")) {
        for (banned, rooms) in BANS {
            if line.contains(banned) && !rooms.iter().any(|room| path.starts_with(room)) {
                writeln!(found, "src/{path}:{number}: `{banned}`").unwrap();
            }
        }
    }
    for (path, text) in TESTS.split_whitespace().flat_map(files) {
        // One place polls, with a deadline, for states without events.
        if path.ends_with("tidy.rs") || path.ends_with("patience.rs") {
            continue;
        }
        for (number, line) in text.lines().enumerate() {
            for banned in TEST_BANS.iter().filter(|banned| line.contains(**banned)) {
                writeln!(found, "{}:{}: `{banned}`", path.display(), number + 1).unwrap();
            }
        }
    }
    assert!(found.is_empty(), "out of their rooms:\n{found}");
}

#[test]
fn files_functions_and_lines_are_short() {
    let mut found = String::new();
    for (path, text) in ALL.into_iter().flat_map(files) {
        let path = path.display();
        let code = text.lines().filter(|line| is_code(line)).count();
        if code > 300 {
            writeln!(found, "{path}: {code} lines of code, and 300 are allowed").unwrap();
        }
        for (number, line) in text.lines().enumerate() {
            let width = line.chars().count();
            // A row of a table cannot be wrapped.
            let is_row = line.trim_start().trim_start_matches(['/', '!']).starts_with(" |");
            let limit = if is_code(line) { 100 } else { 120 };
            if width > limit && !is_row {
                writeln!(found, "{path}:{}: {width} columns", number + 1).unwrap();
            }
        }
        for (number, length) in functions(&text).filter(|(_, length)| *length > 70) {
            writeln!(found, "{path}:{number}: a function of {length} lines").unwrap();
        }
    }
    assert!(found.is_empty(), "too long:\n{found}");
}

#[test]
fn the_driver_is_required_without_a_ceiling() {
    let manifest = fs::read_to_string(root().join("Cargo.toml")).unwrap();
    for line in manifest.lines() {
        assert!(!line.starts_with("bson ="), "the bson crate is named: {line}");
        // Newer releases fix vulnerabilities, and an exact requirement keeps them out.
        assert!(!line.contains("\"=") && !line.contains("\"~"), "a ceiling: {line}");
    }
    assert!(manifest.contains("mongodb = { version = \"3."), "the driver is not required");
}

fn rank(module: &str) -> Option<usize> {
    MODULES.split_whitespace().position(|known| known == module)
}

fn is_code(line: &str) -> bool {
    let line = line.trim_start();
    !line.is_empty() && !line.starts_with("//")
}

/// The functions of a file, each with its first line and its number of lines: rustfmt puts the closing brace under the
/// first letter.
fn functions(text: &str) -> impl Iterator<Item = (usize, usize)> {
    let lines: Vec<&str> = text.lines().collect();
    (0..lines.len()).filter_map(move |begin| {
        let (line, code) = (lines[begin], lines[begin].trim_start());
        let is_function = code.starts_with("fn ")
            || code.starts_with("async fn ")
            || code.starts_with("pub") && code.contains(" fn ");
        // A trait's method may have no body: then the signature ends with a semicolon.
        let signature_end = lines[begin..].iter().find(|line| line.ends_with(['{', ';', '}']))?;
        if !is_function || !signature_end.ends_with('{') {
            return None;
        }
        let close = format!("{}}}", " ".repeat(line.len() - code.len()));
        let length = lines[begin..].iter().position(|line| *line == close)?;
        Some((begin + 1, length + 1))
    })
}

/// The Rust files below a folder, with their paths below it.
fn files_below(folder: &str) -> impl Iterator<Item = (String, String)> {
    let source = root().join(folder);
    files(folder).into_iter().map(move |(path, text)| {
        let path = path.strip_prefix(&source).unwrap().to_str().unwrap().replace('\\', "/");
        (path, text)
    })
}

/// The lines of code below a folder, with the file's path below it and the number of the line.
fn code_lines(folder: &str) -> impl Iterator<Item = (String, usize, String)> {
    files_below(folder).flat_map(|(path, text)| {
        let lines = text.lines().enumerate().filter(|(_, line)| is_code(line));
        let numbered = lines.map(|(number, line)| (path.clone(), number + 1, line.to_owned()));
        numbered.collect::<Vec<_>>()
    })
}

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// The Rust files below a folder.
pub(crate) fn files(folder: &str) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    let mut folders = vec![root().join(folder)];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten() {
            let entry = entry.unwrap().path();
            if entry.is_dir() && !entry.ends_with("target") {
                folders.push(entry);
            } else if entry.extension().is_some_and(|extension| extension == "rs") {
                let text = fs::read_to_string(&entry).unwrap();
                found.push((entry, text));
            }
        }
    }
    assert!(!found.is_empty() || folder == "migrations/tests", "no files below {folder}");
    found
}
