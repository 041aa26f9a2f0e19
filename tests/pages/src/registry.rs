//! The front page of the library's package in a registry: the README, with links that work there.

use std::path::{Component, Path, PathBuf};

use crate::packages::Package;

/// Where docs.rs shows the files of a package's newest version.
pub const PACKED: &str = "https://docs.rs/crate/";

/// A page with other links: `address` gives the new target of a link, or none if the text is to stay without one.
///
/// # Panics
///
/// When a link has no beginning or no end.
#[must_use]
pub fn relinked(page: &str, address: impl Fn(&str) -> Option<String>) -> String {
    let mut written = String::new();
    let mut rest = page;
    while let Some((text, link)) = rest.split_once("](") {
        let (target, behind) = link.split_once(')').expect("the end of a link");
        written.push_str(text);
        let begin = written.rfind('[').expect("the beginning of a link");
        // A registry shows no picture of the package's, so its text becomes a link to it.
        let is_picture = written[..begin].ends_with('!');
        match address(target) {
            Some(address) => written.push_str(&format!("]({address})")),
            None => drop(written.remove(begin)),
        }
        if is_picture {
            written.remove(begin - 1);
        }
        rest = behind;
    }
    written + rest
}

/// The address of what a page at the top of the repository links to. None for files that no package contains.
#[must_use]
pub fn address(target: &str, packages: &[Package]) -> Option<String> {
    if target.contains("://") || target.starts_with('#') {
        return Some(target.to_owned());
    }
    let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
    let path = plain(Path::new(path));
    let hash = if anchor.is_empty() { "" } else { "#" };
    packages.iter().find_map(|package| {
        let inside = path.strip_prefix(&package.folder).ok()?.to_str()?;
        let is_packed = package.files.contains(inside);
        is_packed.then(|| format!("{PACKED}{}/latest/source/{inside}{hash}{anchor}", package.name))
    })
}

/// The path without `.` and `..`.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => drop(plain.pop()),
            Component::CurDir => {}
            Component::Normal(_) | Component::RootDir | Component::Prefix(_) => plain.push(part),
        }
    }
    plain
}

/// The marks around the parts of the README that are for readers of the repository.
const LEFT_OUT: [&str; 2] =
    ["<!-- not in a registry: begin -->\n\n", "<!-- not in a registry: end -->\n\n"];

/// The front page of the library's package.
///
/// # Panics
///
/// When the part that is left out does not begin or does not end.
#[must_use]
pub fn front_page(readme: &str, packages: &[Package]) -> String {
    let (above, rest) = readme.split_once(LEFT_OUT[0]).expect("the beginning of what is left out");
    let (_, below) = rest.split_once(LEFT_OUT[1]).expect("the end of what is left out");
    let page = relinked(&(above.to_owned() + below), |target| address(target, packages));
    format!("<!-- `cargo run -p mongo-lease-pages` writes this page from the README. -->\n\n{page}")
}
