//! The front pages of the packages in a registry: each link leads somewhere.

use std::collections::HashSet;
use std::fs;

use mongo_lease_pages::packages::{Package, packages, root};
use mongo_lease_pages::registry::{PACKED, address, front_page, relinked};

/// The text of a page outside of its code.
fn prose(page: &str) -> String {
    page.split("```").step_by(2).collect()
}

fn targets(page: &str) -> Vec<String> {
    let text = prose(page);
    let links = text.split("](").skip(1).filter_map(|rest| rest.split_once(')'));
    links.map(|(target, _)| target.to_owned()).collect()
}

/// The anchors of a page's headings.
fn anchors(page: &str) -> HashSet<String> {
    let text = prose(page);
    let headings = text.lines().filter_map(|line| line.strip_prefix('#'));
    let anchor = |heading: &str| {
        let kept = heading.trim_matches('#').trim().to_lowercase();
        let kept = kept.chars().filter(|it| it.is_alphanumeric() || matches!(it, ' ' | '-' | '_'));
        kept.map(|it| if it == ' ' { '-' } else { it }).collect()
    };
    headings.map(anchor).collect()
}

fn read(package: &Package, file: &str) -> String {
    let path = root().join(&package.folder).join(file);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Why a link of the package's front page leads nowhere, if it does.
fn defect(package: &Package, target: &str, packages: &[Package]) -> Option<String> {
    let fault = |why: &str| Some(format!("{}: {target}: {why}", package.name));
    if let Some(anchor) = target.strip_prefix('#') {
        let is_there = anchors(&read(package, &package.front_page)).contains(anchor);
        return if is_there { None } else { fault("no such heading") };
    }
    let named = |name: &str| packages.iter().find(|it| it.name == name);
    if let Some(rest) = target.strip_prefix(PACKED) {
        let Some((name, file)) = rest.split_once("/latest/source/") else {
            return fault("not the address of a file");
        };
        let (file, anchor) = file.split_once('#').unwrap_or((file, ""));
        let Some(package) = named(name).filter(|it| it.files.contains(file)) else {
            return fault("no package has this file");
        };
        let is_there = anchor.is_empty() || anchors(&read(package, file)).contains(anchor);
        return if is_there { None } else { fault("no such heading") };
    }
    if let Some(rest) = target.strip_prefix("https://docs.rs/") {
        let name = rest.split('/').next().unwrap_or_default();
        return if named(name).is_some() { None } else { fault("no such package") };
    }
    if target.starts_with("https://") { None } else { fault("a registry does not know this") }
}

#[test]
fn the_librarys_front_page_is_the_readme() {
    let packages = packages();
    let package = packages.iter().find(|it| it.folder.as_os_str().is_empty()).expect("the library");
    let readme = fs::read_to_string(root().join("README.md")).expect("the README");
    let is_same = read(package, &package.front_page) == front_page(&readme, &packages);
    assert!(is_same, "{}: run `cargo run -p mongo-lease-pages`", package.front_page);
}

#[test]
fn each_link_of_a_packed_front_page_leads_somewhere() {
    let packages = packages();
    let (mut defects, mut links) = (Vec::new(), 0);
    for package in &packages {
        assert!(package.files.contains(&package.front_page), "{}: not packed", package.name);
        for target in targets(&read(package, &package.front_page)) {
            links += 1;
            defects.extend(defect(package, &target, &packages));
        }
    }
    assert!(defects.is_empty(), "dead links:\n{}", defects.join("\n"));
    assert!(links > 40, "{links}: the links are not found any more");
}

#[test]
fn a_link_that_leads_nowhere_is_found() {
    let packages = packages();
    let package = &packages[0];
    for target in [
        "docs/operators.md",
        "../docs/operators.md",
        "#no-such-heading",
        "https://docs.rs/no-such-package",
        "https://docs.rs/crate/mongo-lease/latest/source/docs/no-such-page.md",
        "https://docs.rs/crate/mongo-lease/latest/source/docs/operators.md#no-such-heading",
        "https://docs.rs/crate/mongo-lease/latest/source/examples/quickstart.rs",
        "http://example.org",
    ] {
        assert!(defect(package, target, &packages).is_some(), "{target} is accepted");
    }
    let found = "https://docs.rs/crate/mongo-lease/latest/source/docs/operators.md#roles";
    assert_eq!(defect(package, found, &packages), None);
    assert_eq!(targets("[a](b.md)\n```sh\n[c](d)\n```\n![e\nf](#g)"), ["b.md", "#g"]);
}

#[test]
fn a_link_is_written_anew_and_one_without_a_target_is_text() {
    let packages = packages();
    let page = "[a](docs/permits.md#bounds), ![b\nc](docs/life-of-a-lease.svg), \
                [d](examples/README.md), [e](#f)";
    let file = "https://docs.rs/crate/mongo-lease/latest/source/docs/";
    let expected =
        format!("[a]({file}permits.md#bounds), [b\nc]({file}life-of-a-lease.svg), d, [e](#f)");
    assert_eq!(relinked(page, |target| address(target, &packages)), expected);
}
