//! The core and the store in memory: they are pure, and the rooms of the core are independent where they check each
//! other.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::fs;

use super::{code_lines, files_below, root};

/// Words of what is not pure, separated by bars.
const IMPURE: &str = "\
    async |.await|std::time::Instant|SystemTime|Utc::now|Local::now|DateTime::now|ObjectId::new|\
    std::thread|std::env|std::fs|std::io|std::net|std::process";

#[test]
fn the_core_is_pure() {
    // None of these is a driver, a runtime, or a source of times.
    let pure = ["bson2", "bson3", "chrono", "humantime", "serde"];
    // The tests of the commands have a server, and those of the specification the documents of a server.
    assert_pure("core", &pure, 30, &["commands/tests/", "spec/tests.rs"], may_import);
}

#[test]
fn the_store_in_memory_is_pure() {
    // Its documents know nothing of the commands that are carried out on them.
    let may_import = |path: &str, target: &str| match path {
        "journal.rs" | "late.rs" | "leases.rs" | "majority.rs" | "pattern.rs" => {
            ["bson", "journal", "late", "leases", "mistake", "rules", "spec", "texts"]
                .iter()
                .any(|module| target.starts_with(&format!("{module}::")))
        }
        _ => true,
    };
    assert_pure("memory", &["chrono", "mongo-lease-core"], 5, &["tests.rs"], may_import);
}

/// A simulation calls it on its one thread, with a clock that stands.
#[test]
fn the_checker_is_pure() {
    // The first two are maps.
    let pure = ["foldhash", "indexmap", "mongo-lease-core", "serde", "serde_json"];
    assert_pure("tests/checker", &pure, 5, &[], |_, _| true);
}

/// The packages that a package depends on.
fn dependencies(package: &str) -> Vec<String> {
    let manifest = fs::read_to_string(root().join(package).join("Cargo.toml")).unwrap();
    let dependencies = manifest.split_once("[dependencies]\n").unwrap().1;
    let dependencies = dependencies.split_once("\n[").unwrap().0.lines();
    dependencies.filter_map(|line| Some(line.split_once(" = ")?.0.to_owned())).collect()
}

/// Asserts that a package depends on these packages alone, and that in its code, of more files than that and without
/// these tests, no line is impure or imports a module that it may not.
fn assert_pure(
    package: &str,
    pure: &[&str],
    files_min: usize,
    tests: &[&str],
    may_import: impl Fn(&str, &str) -> bool,
) {
    assert_eq!(dependencies(package), pure, "what {package} depends on");
    let (mut files, mut found) = (BTreeSet::new(), String::new());
    for (path, number, line) in code_lines(&format!("{package}/src")) {
        if tests.iter().any(|tests| path.starts_with(tests)) {
            continue;
        }
        let at = format!("{package}/src/{path}:{number}");
        for word in IMPURE.split('|').filter(|word| line.contains(word)) {
            writeln!(found, "{at}: `{word}`").unwrap();
        }
        let targets = line.split("crate::").skip(1).chain(line.split("_core::").skip(1));
        for target in targets.filter(|target| !may_import(&path, target)) {
            writeln!(found, "{at}: imports `{target}`").unwrap();
        }
        files.insert(path);
    }
    assert!(files.len() > files_min, "{} files in {package}", files.len());
    assert!(found.is_empty(), "what is not pure in {package}:\n{found}");
}

/// Whether this file of the core may import from this module of it.
///
/// The effects and the decisions are two things: neither knows the other, but for the type of permits. So are an effect
/// and the command that has it, which are compared with each other: commands use types of the specification alone.
fn may_import(path: &str, target: &str) -> bool {
    let is = |modules: &[&str]| {
        let module = target.split(|it: char| !it.is_ascii_alphanumeric() && it != '_').next();
        module.is_some_and(|module| modules.contains(&module))
    };
    let room = path.split(['/', '.']).next().unwrap_or_default();
    match room {
        "commands" => !is(&["spec"]) || is_type(target),
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
    let (mut effects, mut named) = (Vec::<String>::new(), BTreeSet::<String>::new());
    for (path, text) in files_below("core/src") {
        // Other programs send those of neighbours.
        if path.starts_with("spec/") && path != "spec/neighbours.rs" {
            let functions = text.lines().filter_map(|line| line.strip_prefix("pub fn "));
            let names = functions.filter_map(|line| line.split(['<', '(']).next());
            effects.extend(names.map(str::to_owned));
        }
        if path.starts_with("commands/") && !path.contains("tests") {
            let links = text.split("`spec::").skip(1);
            let names = links.filter_map(|link| link.split_once('`')?.0.rsplit("::").next());
            named.extend(names.map(str::to_owned));
        }
    }
    effects.sort_unstable();
    assert!(effects.len() > 10, "{effects:?}");
    assert_eq!(effects, named.into_iter().collect::<Vec<_>>());
}
