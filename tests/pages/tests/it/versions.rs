//! The versions on the pages are those of the manifests.

use std::fs;

use mongo_lease_pages::packages::{cargo, root};
use serde_json::Value;

/// "1.88.0" and "1.88" are one version.
fn short(version: &str) -> String {
    version.split('.').take(2).collect::<Vec<_>>().join(".")
}

/// The minimum Rust version of a package in the lock file, and its own version.
fn of(package: &str) -> (String, String) {
    let metadata = cargo(&["metadata", "--locked", "--format-version", "1"], &[]);
    let metadata: Value = serde_json::from_str(&metadata).expect("JSON");
    let packages = metadata["packages"].as_array().expect("the packages");
    let found = packages.iter().find(|it| it["name"] == package).expect("the package");
    let text = |key: &str| short(found[key].as_str().expect("a version"));
    (text("rust_version"), text("version"))
}

#[test]
fn the_minimum_rust_version_is_the_drivers() {
    let ((ours, _), (drivers, driver)) = (of("mongo-lease"), of("mongodb"));
    assert_eq!(ours, drivers, "the pages say that it follows the driver's");
    let read = |page: &str| fs::read_to_string(root().join(page)).expect("a page");
    let said = format!("It is {ours}, as that of `mongodb` {driver}.");
    assert!(read("docs/compatibility.md").contains(&said), "{said}");
    assert!(read("README.md").contains(&format!("It needs Rust {ours}")), "{ours}");
}
