//! The packages that are to be published, as cargo packs them.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

/// A package that is to be published.
#[derive(Clone, Debug)]
pub struct Package {
    /// Its name.
    pub name: String,
    /// Its folder, from the top of the repository; empty for the top itself.
    pub folder: PathBuf,
    /// Its front page in a registry, from its folder.
    pub front_page: String,
    /// The features that its documentation has.
    pub features: Vec<String>,
    /// Whether it has a library.
    pub has_library: bool,
    /// The packages that it depends on.
    pub needs: BTreeSet<String>,
    /// The files that cargo packs.
    pub files: BTreeSet<String>,
}

/// The top of the repository.
///
/// # Panics
///
/// When it is not there.
#[must_use]
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the repository")
}

/// Runs a program in a folder, and returns its output.
///
/// # Errors
///
/// When it cannot be started.
pub fn output_of(
    program: impl AsRef<OsStr>,
    arguments: &[&str],
    folder: &Path,
) -> io::Result<Output> {
    Command::new(program).args(arguments).current_dir(folder).output()
}

/// Runs cargo at the top of the repository, and returns its output.
///
/// # Panics
///
/// When it fails, with what it has said.
#[must_use]
pub fn cargo(arguments: &[&str], variables: &[(&str, &str)]) -> String {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(arguments).current_dir(root()).envs(variables.iter().copied());
    let output = command.output().expect("cargo");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "cargo {arguments:?}:\n{errors}");
    String::from_utf8(output.stdout).expect("readable output")
}

/// The packages of the workspace that are to be published.
///
/// # Panics
///
/// When cargo does not list them.
#[must_use]
pub fn packages() -> Vec<Package> {
    let metadata = cargo(&["metadata", "--locked", "--no-deps", "--format-version", "1"], &[]);
    let metadata: Value = serde_json::from_str(&metadata).expect("JSON");
    let all = metadata["packages"].as_array().expect("the packages");
    // An empty list of registries is the word for `publish = false`.
    let published = all.iter().filter(|it| it["publish"].is_null());
    published.map(|it| read(it, &root())).collect()
}

fn read(package: &Value, root: &Path) -> Package {
    let text = |value: &Value| value.as_str().expect("a text").to_owned();
    let name = text(&package["name"]);
    let manifest = PathBuf::from(text(&package["manifest_path"]));
    let folder = manifest.parent().expect("a folder").strip_prefix(root).expect("below the top");
    let features = package["metadata"]["docs"]["rs"]["features"].as_array();
    let needs = package["dependencies"].as_array().expect("the dependencies");
    let needs = needs.iter().filter(|it| it["kind"].is_null());
    let targets = package["targets"].as_array().expect("the targets");
    let is_library = |target: &Value| target["kind"].as_array().is_some_and(|it| it[0] == "lib");
    let list = cargo(&["package", "--list", "--locked", "--allow-dirty", "-p", &name], &[]);
    Package {
        folder: folder.to_owned(),
        front_page: text(&package["readme"]),
        features: features.into_iter().flatten().map(text).collect(),
        has_library: targets.iter().any(is_library),
        needs: needs.map(|it| text(&it["name"])).collect(),
        files: list.lines().map(|line| line.replace('\\', "/")).collect(),
        name,
    }
}
