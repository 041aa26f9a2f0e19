//! The documentation, as docs.rs builds it: every link of every page leads somewhere.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use mongo_lease_pages::packages::{Package, cargo, packages};

use super::checker::Site;

/// Where docs.rs shows the files of the newest package, each under its path.
const PACKAGED: &str = "/crate/mongo-lease/latest/source/";

/// For the folder of the documentation: cargo empties a crate's part of it before it writes there.
static WRITING: Mutex<()> = Mutex::new(());

/// The folder of the documentation, for as long as nobody else may write there.
pub(crate) fn folder() -> (PathBuf, MutexGuard<'static, ()>) {
    let guard = WRITING.lock().unwrap_or_else(PoisonError::into_inner);
    (Path::new(env!("CARGO_TARGET_TMPDIR")).join("docs.rs"), guard)
}

/// The library.
fn library() -> Package {
    packages().into_iter().find(|it| it.name == "mongo-lease").expect("the library")
}

/// Builds the documentation into a folder of its own.
fn build(target: &Path, features: &str) -> PathBuf {
    let folder = target.to_str().expect("a readable path");
    let arguments = ["doc", "--locked", "--no-deps", "-p", "mongo-lease"];
    let arguments = [&arguments[..], &["--features", features, "--target-dir", folder]].concat();
    // On docs.rs the toolchain is a nightly one, and `--cfg docsrs` names the features beside the items.
    let _shown = cargo(&arguments, &[("RUSTDOCFLAGS", "-D warnings")]);
    target.join("doc")
}

#[test]
fn each_link_of_the_documentation_leads_somewhere() {
    let package = library();
    let (target, _guard) = folder();
    let folder = build(&target, &package.features.join(","));
    let site = Site::read(&folder);
    let pages = site.follow(&folder.join("mongo_lease"));
    let sources = site.follow(&folder.join("src"));
    let defects = [pages.defects, sources.defects].concat();
    assert!(defects.is_empty(), "broken links:\n{}", defects.join("\n"));
    assert!(pages.pages > 40 && sources.pages > 40, "{}, {}", pages.pages, sources.pages);
    assert!(pages.local > 4_000 && sources.local > 100, "{}, {}", pages.local, sources.local);
    let on_docs_rs = pages.external.iter().filter(|url| url.host_str() == Some("docs.rs"));
    let files = on_docs_rs.filter_map(|url| url.path().strip_prefix(PACKAGED));
    let files: BTreeSet<&str> = files.collect();
    assert!(files.len() > 5, "{files:?}: the links to the pages are not found any more");
    for file in files {
        assert!(package.files.contains(file), "{file} is not in the package");
    }
}
