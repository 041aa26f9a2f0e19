//! The public interface of each package that promises one is the listing in `tests/pages/interface`.
//!
//! rustdoc writes the interface as JSON, which is unstable: a variable makes a stable rustdoc write it, and the format
//! belongs to the compiler's version.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::{env, fs};

use mongo_lease_pages::packages::{Package, cargo, packages, root};
use public_api::Builder;
use serde_json::Value;

use super::links;

/// The version of the format that `public-api` reads.
const FORMAT: u64 = 57;

/// The words on the front page of a package whose library promises nothing.
const NO_PROMISE: &str = "any release may change any item here";

/// The interface of a package, as rustdoc writes it.
struct Written {
    file: PathBuf,
    json: Value,
}

/// Writes the interfaces of these packages. None if this rustdoc writes another format.
fn write(packages: &[&Package]) -> Option<BTreeMap<String, Written>> {
    // The folder of the documentation: the dependencies of both are compiled once.
    let (target, _guard) = links::folder();
    let (rustdoc, folder) = (unstable_rustdoc(), target.to_str().expect("a readable path"));
    let mut arguments = vec!["doc", "--locked", "--no-deps", "--lib", "--target-dir", folder];
    // Without the package's name before them: the library is a dev-dependency of itself, and would mean that one.
    let features = packages.iter().flat_map(|package| package.features.iter());
    let features = features.map(String::as_str).collect::<Vec<_>>().join(",");
    arguments.extend(["--features", &features]);
    arguments.extend(packages.iter().flat_map(|package| ["-p", &package.name]));
    let variables = [
        ("RUSTDOC", rustdoc.to_str().expect("a readable path")),
        ("RUSTDOCFLAGS", "-Zunstable-options --output-format json"),
    ];
    let _shown = cargo(&arguments, &variables);
    let mut written = BTreeMap::new();
    for package in packages {
        let file = target.join("doc").join(crate_name(&package.name)).with_extension("json");
        let text = fs::read_to_string(&file).expect("what rustdoc has written");
        let json: Value = serde_json::from_str(&text).expect("JSON");
        if json["format_version"] != FORMAT {
            // Written past the test's captured output.
            writeln!(
                std::io::stderr(),
                "NOT RUN, for want of a rustdoc that writes format {FORMAT} (this one writes {}): \
                 the comparison of the public interface",
                json["format_version"]
            )
            .expect("stderr");
            return None;
        }
        written.insert(package.name.clone(), Written { file, json });
    }
    Some(written)
}

impl Written {
    /// A line for each item.
    fn lines(&self) -> Vec<String> {
        let interface = Builder::from_rustdoc_json(&self.file)
            .omit_blanket_impls(true)
            .omit_auto_trait_impls(true)
            .build()
            .expect("the interface");
        interface.items().map(|item| item.to_string()).collect()
    }

    /// The items of this other crate that are exported again.
    fn exported_from(&self, other: &str) -> BTreeSet<String> {
        let items = self.json["index"].as_object().expect("the items").values();
        let sources = items.filter_map(|item| item["inner"]["use"]["source"].as_str());
        let prefix = format!("{}::", crate_name(other));
        sources.filter(|it| it.starts_with(&prefix)).map(str::to_owned).collect()
    }
}

fn crate_name(package: &str) -> String {
    package.replace('-', "_")
}

/// A rustdoc that may use what is unstable. The variable is for it alone: for cargo it would also change how the
/// dependencies are compiled.
fn unstable_rustdoc() -> PathBuf {
    use std::os::unix::fs::PermissionsExt;
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("rustdoc");
    let rustdoc = env::var("RUSTDOC").unwrap_or_else(|_| "rustdoc".to_owned());
    fs::write(&file, format!("#!/bin/sh\nRUSTC_BOOTSTRAP=1 exec '{rustdoc}' \"$@\"\n")).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
    file
}

fn promises(package: &Package) -> bool {
    let page = root().join(&package.folder).join(&package.front_page);
    let page = fs::read_to_string(page).expect("a front page");
    package.has_library
        && !page.split_whitespace().collect::<Vec<_>>().join(" ").contains(NO_PROMISE)
}

/// Whether a line is about this item: its path, and no longer one. An item of another one that only has it as the type
/// of an argument, a field or a constant is not.
fn concerns(line: &str, item: &str) -> bool {
    let is_impl = line.starts_with("impl") || line.starts_with("pub use");
    let end = if is_impl { None } else { line.find('(').into_iter().chain(line.find(": ")).min() };
    line[..end.unwrap_or(line.len())].match_indices(item).any(|(at, _)| {
        let behind = line[at + item.len()..].chars().next();
        !behind.is_some_and(|it| it.is_alphanumeric() || it == '_')
    })
}

/// The package's own items, and those of other packages that it exports.
fn listing(package: &Package, all: &BTreeMap<String, Written>) -> String {
    let own = &all[&package.name];
    let mut lines = own.lines();
    for (other, theirs) in all.iter().filter(|(name, _)| **name != package.name) {
        let items = own.exported_from(other);
        if items.is_empty() {
            continue;
        }
        let theirs = theirs.lines();
        for item in &items {
            let about = theirs.iter().filter(|line| concerns(line, item));
            let before = lines.len();
            lines.extend(about.cloned());
            assert!(lines.len() > before, "{item} is not in the interface of {other}");
        }
    }
    lines.join("\n")
}

#[test]
fn the_public_interface_is_the_listing() {
    let packages = packages();
    let promising: Vec<_> = packages.iter().filter(|it| promises(it)).collect();
    assert!(promising.iter().any(|it| it.name == "mongo-lease"), "{promising:?}");
    let folder = root().join("tests/pages/interface");
    // And of those whose items they may export.
    let is_read = |it: &&Package| {
        it.has_library
            && (promises(it) || promising.iter().any(|other| other.needs.contains(&it.name)))
    };
    let read: Vec<_> = packages.iter().filter(is_read).collect();
    let Some(written) = write(&read) else { return };
    for package in &promising {
        let listing = listing(package, &written);
        assert!(listing.lines().count() > 100, "{}: {listing}", package.name);
        let mut settings = insta::Settings::clone_current();
        settings.set_snapshot_path(&folder);
        settings.set_prepend_module_to_snapshot(false);
        settings.set_omit_expression(true);
        settings.set_description(
            "To accept a change: \
             INSTA_UPDATE=always cargo test -p mongo-lease-pages --features built interface",
        );
        settings.bind(|| insta::assert_snapshot!(package.name.as_str(), listing));
    }
    let kept = fs::read_dir(folder).expect("the listings").map(|it| it.unwrap().file_name());
    let kept = kept.filter_map(|name| Some(name.to_str()?.strip_suffix(".snap")?.to_owned()));
    let kept: BTreeSet<String> = kept.collect();
    assert_eq!(kept, promising.iter().map(|it| it.name.clone()).collect(), "a listing is left");
}

#[test]
fn a_line_concerns_the_item_whose_path_it_has() {
    assert!(concerns("pub fn a::Info::name(&self)", "a::Info"));
    assert!(!concerns("pub fn a::Information::name(&self)", "a::Info"));
    assert!(!concerns("pub a::Other::info: a::Info", "a::Info"));
    assert!(concerns("impl core::clone::Clone for a::Info", "a::Info"));
}
