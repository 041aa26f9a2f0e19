//! The pages of this repository: each command in them works as written, each link leads somewhere, and everything that
//! needs an explanation has one.

mod commands;
mod complete;
mod links;

use std::path::{Path, PathBuf};

/// The languages of code on pages. Commands are `sh`: under another name they would not be run.
const LANGUAGES: [&str; 10] =
    ["sh", "text", "rust,no_run", "rust", "no_run", "toml", "json", "js", "java", "go"];

/// The top of the repository.
fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the repository")
}

fn read(page: &Path) -> String {
    std::fs::read_to_string(page).unwrap_or_else(|error| panic!("{}: {error}", page.display()))
}

/// The files in a folder and below it with this ending, sorted by name.
fn files(folder: &Path, end: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        // The README once more, with other links, which `mongo-lease-pages` follows.
        if path == root().join("registry") {
            continue;
        }
        if path.is_dir() && name != "target" && name != "node_modules" && !name.starts_with('.') {
            found.extend(files(&path, end));
        } else if path.is_file() && name.ends_with(end) {
            found.push(path);
        }
    }
    found.sort();
    found
}

/// A page's lines, each with the language of the code that it belongs to.
fn lines(page: &str) -> impl Iterator<Item = (Option<&str>, &str)> {
    let mut language = None;
    page.lines().filter_map(move |line| match line.trim_start().strip_prefix("```") {
        Some(begins) => {
            assert!(begins.is_empty() || LANGUAGES.contains(&begins), "{begins}: what is that?");
            language = language.is_none().then_some(begins);
            None
        }
        None => Some((language, line)),
    })
}

/// The texts in backticks.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}
