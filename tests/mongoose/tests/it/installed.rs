//! Mongoose, installed from the lock file: below the target folder, and never into the sources.

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use mongo_lease_testbed::command;
use serde_json::Value;

/// The requirements of a machine.
const WANTED: &str =
    "these tests need Node.js 20.19 or later with npm on the PATH, and nothing has been tested";

/// The folder with the program and its packages. The first caller installs them, by `npm ci`.
pub(crate) fn folder() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(install)
}

/// The message for a program that does not start.
pub(crate) fn complaint(error: &dyn std::fmt::Display) -> String {
    format!("{error}; {WANTED}")
}

fn sources() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("neighbour")
}

fn install() -> PathBuf {
    let mut files: Vec<(String, String)> = fs::read_dir(sources())
        .unwrap()
        .map(|entry| entry.unwrap())
        .map(|entry| (entry.file_name().into_string().unwrap(), entry.path()))
        .map(|(name, path)| (name, fs::read_to_string(path).unwrap()))
        .collect();
    files.sort();
    // Named by its contents, so it is never found incomplete or out of date.
    let mut hasher = DefaultHasher::new();
    files.hash(&mut hasher);
    let root = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let folder = root.join(format!("neighbour-{:016x}", hasher.finish()));
    if folder.exists() {
        return folder;
    }
    let started = root.join(format!("neighbour-{}-begun", std::process::id()));
    fs::create_dir_all(&started).unwrap();
    for (name, text) in &files {
        fs::write(started.join(name), text).unwrap();
    }
    npm_ci(&started);
    if let Err(error) = fs::rename(&started, &folder) {
        // Another process was faster.
        assert!(folder.exists(), "{}: {error}", folder.display());
        fs::remove_dir_all(&started).unwrap();
    }
    folder
}

fn npm_ci(folder: &Path) {
    let told = ["ci", "--engine-strict", "--ignore-scripts", "--no-audit", "--no-fund"];
    let ran = command("npm").args(told).current_dir(folder).output();
    let ran = ran.unwrap_or_else(|error| panic!("{}", complaint(&error)));
    assert!(
        ran.status.success(),
        "`npm ci` has failed, and nothing has been tested; {WANTED}, and a registry in reach:\n{}",
        String::from_utf8_lossy(&ran.stderr)
    );
}

fn json(file: &str) -> Value {
    serde_json::from_str(&fs::read_to_string(sources().join(file)).unwrap()).unwrap()
}

#[test]
fn the_lock_file_pins_versions_and_hashes_and_names_no_registry() {
    let (package, lock) = (json("package.json"), json("package-lock.json"));
    for (name, version) in package["dependencies"].as_object().unwrap() {
        let version = version.as_str().unwrap();
        assert!(version.chars().all(|c| c.is_ascii_digit() || c == '.'), "{name} {version}");
        assert_eq!(lock["packages"][format!("node_modules/{name}")]["version"], version);
    }
    let packages = lock["packages"].as_object().unwrap();
    assert!(packages.len() > 1);
    for (name, package) in packages.iter().filter(|(name, _)| !name.is_empty()) {
        assert!(package["integrity"].as_str().unwrap().starts_with("sha512-"), "{name}");
        // Otherwise packages would come from there, whatever registry the machine's npm is configured for.
        assert!(package.get("resolved").is_none(), "{name} names where it came from");
    }
}
