//! The documentation, as docs.rs builds it: every link of every page leads somewhere.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use mongo_lease_testbed::command;
use serde_json::Value;

use super::checker::Site;

/// Where docs.rs shows the files of the newest package, each under its path.
const PACKAGED: &str = "/crate/mongo-lease/latest/source/";

/// The top of the repository.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the repository")
}

/// Runs cargo, and returns its output.
fn cargo(arguments: &[&str], variables: &[(&str, &str)]) -> String {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = command(cargo);
    command.args(arguments).current_dir(root()).envs(variables.iter().copied());
    let output = command.output().expect("cargo");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "cargo {arguments:?}:\n{errors}");
    String::from_utf8(output.stdout).expect("readable output")
}

/// The features that the manifest gives docs.rs.
fn features() -> String {
    let metadata = cargo(&["metadata", "--locked", "--no-deps", "--format-version", "1"], &[]);
    let metadata: Value = serde_json::from_str(&metadata).expect("JSON");
    let packages = metadata["packages"].as_array().expect("the packages");
    let package = packages.iter().find(|it| it["name"] == "mongo-lease").expect("the library");
    let features = package["metadata"]["docs"]["rs"]["features"].as_array().expect("the features");
    let features: Vec<&str> = features.iter().filter_map(Value::as_str).collect();
    features.join(",")
}

/// Builds the documentation into a folder of its own.
fn build() -> PathBuf {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("docs.rs");
    let folder = target.to_str().expect("a readable path");
    let features = features();
    let arguments = ["doc", "--locked", "--no-deps", "-p", "mongo-lease"];
    let arguments = [&arguments[..], &["--features", &features, "--target-dir", folder]].concat();
    // On docs.rs the toolchain is a nightly one, and `--cfg docsrs` names the features beside the items.
    cargo(&arguments, &[("RUSTDOCFLAGS", "-D warnings")]);
    target.join("doc")
}

/// The files that the package has.
fn packaged() -> BTreeSet<String> {
    let list = cargo(&["package", "--list", "--locked", "--allow-dirty", "-p", "mongo-lease"], &[]);
    list.lines().map(|line| line.replace('\\', "/")).collect()
}

#[test]
fn each_link_of_the_documentation_leads_somewhere() {
    let folder = build();
    let site = Site::read(&folder);
    let pages = site.follow(&folder.join("mongo_lease"));
    let sources = site.follow(&folder.join("src"));
    let defects = [pages.defects, sources.defects].concat();
    assert!(defects.is_empty(), "broken links:\n{}", defects.join("\n"));
    assert!(pages.pages > 40 && sources.pages > 40, "{}, {}", pages.pages, sources.pages);
    assert!(pages.local > 5_000 && sources.local > 100, "{}, {}", pages.local, sources.local);
    let packaged = packaged();
    let on_docs_rs = pages.external.iter().filter(|url| url.host_str() == Some("docs.rs"));
    let files = on_docs_rs.filter_map(|url| url.path().strip_prefix(PACKAGED));
    let files: BTreeSet<&str> = files.collect();
    assert!(files.len() > 5, "{files:?}: the links to the pages are not found any more");
    for file in files {
        assert!(packaged.contains(file), "{file} is not in the package");
    }
}
