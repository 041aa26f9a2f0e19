//! The core: it is pure, and its rooms are independent where they check each other.

use std::fmt::Write;
use std::fs;

use super::{files_below, is_code, root};

#[test]
fn the_core_is_pure() {
    const IMPURE: [&str; 10] = [
        "async ",
        ".await",
        "std::time::Instant",
        "SystemTime",
        "Utc::now",
        "Local::now",
        "DateTime::now",
        "ObjectId::new",
        "std::thread",
        "std::env",
    ];
    // None of these is a driver, a runtime, or a source of times.
    const PURE: [&str; 5] = ["bson2", "bson3", "chrono", "humantime", "serde"];
    let manifest = fs::read_to_string(root().join("core/Cargo.toml")).unwrap();
    let dependencies = manifest.split_once("[dependencies]\n").unwrap().1;
    let dependencies = dependencies.split_once("\n[").unwrap().0.lines();
    let names: Vec<&str> =
        dependencies.filter_map(|line| Some(line.split_once(" = ")?.0)).collect();
    assert_eq!(names, PURE, "what the core depends on");
    let mut found = String::new();
    let mut files = 0;
    for (path, text) in files_below("core/src") {
        // Those of the commands have a server.
        if path.starts_with("commands/tests/") {
            continue;
        }
        files += 1;
        for (number, line) in text.lines().enumerate().filter(|(_, line)| is_code(line)) {
            let at = format!("core/src/{path}:{}", number + 1);
            for word in IMPURE.iter().filter(|word| line.contains(**word)) {
                writeln!(found, "{at}: `{word}`").unwrap();
            }
            for target in line.split("crate::").skip(1).filter(|it| !may_import(&path, it)) {
                writeln!(found, "{at}: imports `{target}`").unwrap();
            }
        }
    }
    assert!(files > 30, "{files} files");
    assert!(found.is_empty(), "what is not pure in the core:\n{found}");
}

/// Whether this file of the core may import from this module of it.
///
/// The effects and the decisions are two things: neither knows the other, but for the type of permits. So are an effect
/// and the command that has it, which are compared with each other: commands use types of the specification alone. The
/// store in memory carries out the effects.
fn may_import(path: &str, target: &str) -> bool {
    let is = |modules: &[&str]| {
        let module = target.split(|it: char| !it.is_ascii_alphanumeric() && it != '_').next();
        module.is_some_and(|module| modules.contains(&module))
    };
    let room = path.split(['/', '.']).next().unwrap_or_default();
    match room {
        "commands" if path.starts_with("commands/memory/") => true,
        "commands" => !is(&["spec"]) || is_type(target),
        "memory" => !is(&["commands"]),
        // The specification's types as both have them.
        "texts" => is(&["bson", "format", "rules", "spec"]),
        "info" | "schema" => is(&["bson", "format", "info", "rules"]),
        "spec" => target.starts_with("rules::permits"),
        "lib" => true,
        _ => false,
    }
}

/// Whether a path ends in the name of a type.
fn is_type(path: &str) -> bool {
    let path = path.split(|it: char| !it.is_ascii_alphanumeric() && it != '_' && it != ':').next();
    let name = path.and_then(|path| path.rsplit("::").next());
    name.is_some_and(|name| name.starts_with(|first: char| first.is_ascii_uppercase()))
}

#[test]
fn each_effect_in_the_specification_has_its_command() {
    let functions = |path: &str, text: &str| -> Vec<String> {
        // Other programs send those of neighbours.
        let is_ours = path.starts_with("spec/") && path != "spec/neighbours.rs";
        let lines = text.lines().filter_map(|line| line.strip_prefix("pub fn "));
        let names =
            lines.map(|line| line.chars().take_while(|it| *it != '<' && *it != '(').collect());
        names.filter(|_| is_ours).collect()
    };
    let mut effects: Vec<String> = Vec::new();
    let mut named: Vec<String> = Vec::new();
    for (path, text) in files_below("core/src") {
        effects.extend(functions(&path, &text));
        if path.starts_with("commands/") && !path.contains("tests") {
            let links = text.split("`spec::").skip(1);
            let names = links.filter_map(|link| link.split_once('`')?.0.rsplit("::").next());
            named.extend(names.map(str::to_owned));
        }
    }
    effects.sort_unstable();
    named.sort_unstable();
    named.dedup();
    assert!(effects.len() > 10, "{effects:?}");
    assert_eq!(effects, named);
}
