//! Reads built pages, and says which of their links lead nowhere.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};

use html5gum::{DefaultEmitter, StartTag, Token, Tokenizer};
use percent_encoding::percent_decode_str;
use url::Url;

/// The pages of a folder, and of those below it.
pub(crate) struct Site {
    pages: HashMap<PathBuf, Page>,
}

struct Page {
    links: Vec<String>,
    /// The ids that a fragment can name.
    anchors: HashSet<String>,
}

/// The part of a page in which rustdoc repeats the documentation of other crates' traits. Links there are those crates'
/// own: rustdoc leaves them as they are written unless it is told where these crates are documented, as on docs.rs.
const FOREIGN: &str = "blanket-implementations-list";

/// The target of a link.
enum Target {
    /// A file, and an anchor in it.
    Local(PathBuf, Option<String>),
    External(Url),
}

/// The result of following all links.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    pub(crate) defects: Vec<String>,
    /// How many pages were read.
    pub(crate) pages: usize,
    /// How many links to files were followed.
    pub(crate) local: usize,
    /// The links that leave the folder for another site.
    pub(crate) external: Vec<Url>,
}

impl Site {
    pub(crate) fn read(folder: &Path) -> Site {
        let mut pages = HashMap::new();
        let mut folders = vec![folder.to_path_buf()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(&folder).expect("a folder") {
                let path = entry.expect("an entry").path();
                if path.is_dir() {
                    folders.push(path);
                } else if path.extension().is_some_and(|extension| extension == "html") {
                    let html = fs::read_to_string(&path).expect("a page");
                    pages.insert(path, Page::read(&html));
                }
            }
        }
        Site { pages }
    }

    /// Follows every link of every page below this folder.
    pub(crate) fn follow(&self, folder: &Path) -> Findings {
        let mut findings = Findings::default();
        for (path, page) in self.pages.iter().filter(|(path, _)| path.starts_with(folder)) {
            findings.pages += 1;
            for link in &page.links {
                let defect = match target(path, link) {
                    Ok(Target::Local(file, anchor)) => {
                        findings.local += 1;
                        self.defect(&file, anchor.as_deref())
                    }
                    Ok(Target::External(url)) => {
                        findings.external.push(url);
                        None
                    }
                    Err(defect) => Some(defect),
                };
                if let Some(defect) = defect {
                    findings.defects.push(format!("{}: {link}: {defect}", path.display()));
                }
            }
        }
        findings.defects.sort();
        findings
    }

    /// The defect of a link to this place, if it has one.
    fn defect(&self, file: &Path, anchor: Option<&str>) -> Option<String> {
        let Some(page) = self.pages.get(file) else {
            return (!file.is_file()).then(|| "there is no such file".to_owned());
        };
        let anchor = anchor.filter(|anchor| !anchor.is_empty())?;
        (!page.has(anchor)).then(|| "there is no such anchor".to_owned())
    }
}

impl Page {
    fn read(html: &str) -> Page {
        let mut page = Page { links: Vec::new(), anchors: HashSet::new() };
        let mut emitter: DefaultEmitter = DefaultEmitter::default();
        // A script may hold text that looks like a tag.
        emitter.naively_switch_states(true);
        // How many elements are open in the list of foreign documentation.
        let mut foreign = 0_usize;
        for Ok(token) in Tokenizer::new_with_emitter(html, emitter) {
            if let Token::StartTag(tag) = token {
                let is_div = tag.name.as_slice() == b"div";
                let begins = page.enter(&tag, foreign > 0).as_deref() == Some(FOREIGN);
                foreign += usize::from(is_div && (foreign > 0 || begins));
            } else if let Token::EndTag(tag) = token
                && tag.name.as_slice() == b"div"
            {
                foreign = foreign.saturating_sub(1);
            }
        }
        page
    }

    /// Takes an element's links and its anchor, which it returns.
    fn enter(&mut self, tag: &StartTag<()>, is_foreign: bool) -> Option<String> {
        let mut anchor = None;
        for (name, value) in &tag.attributes {
            let value = String::from_utf8_lossy(value).into_owned();
            match name.as_slice() {
                b"href" | b"src" if !is_foreign => self.links.push(value),
                b"id" => anchor = Some(value),
                _ => {}
            }
        }
        self.anchors.extend(anchor.clone());
        anchor
    }

    /// Whether a browser finds the anchor: as it is written, or decoded. `7-12` names lines of a source page.
    fn has(&self, anchor: &str) -> bool {
        let is_line = |text: &str| text.parse::<u32>().is_ok() && self.anchors.contains(text);
        self.anchors.contains(anchor)
            || self.anchors.contains(&*percent_decode_str(anchor).decode_utf8_lossy())
            || anchor.split_once('-').is_some_and(|(first, last)| is_line(first) && is_line(last))
    }
}

/// Resolves a link on this page.
fn target(page: &Path, link: &str) -> Result<Target, String> {
    let base = Url::from_file_path(page).map_err(|()| "not an absolute path".to_owned())?;
    let url = base.join(link).map_err(|error| error.to_string())?;
    match url.scheme() {
        "file" => {
            let anchor = url.fragment().map(str::to_owned);
            let file = url.to_file_path().map_err(|()| "not a path".to_owned())?;
            Ok(Target::Local(file, anchor))
        }
        "https" if url.has_host() => Ok(Target::External(url)),
        scheme => Err(format!("a link of the scheme {scheme}")),
    }
}

#[test]
fn a_broken_link_is_found() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("broken-links");
    fs::create_dir_all(folder.join("crate/below")).expect("a folder");
    let write = |file: &str, html: &str| fs::write(folder.join(file), html).expect("a page");
    // A page of the tool's, which is not ours to mend.
    write("settings.html", r#"<a href="missing.html">x</a>"#);
    write(
        "crate/index.html",
        r##"<h1 id="top">A page</h1><a href="below/other.html#there">x</a><a href='#top'>x</a>
        <a href="below/source.html#1-2">x</a><img src="a.svg"><a href="https://example.org/">x</a>
        <a href="#">x</a> <a href="below/other.html?search=x">x</a> <!-- <a href="no"> -->
        <a href="../settings.html">x</a> <a href="#a%3Cb%3E">x</a> <p id="a%3Cb%3E"></p>
        <script>document.write(`<a href="no">`)</script>
        <div id="blanket-implementations-list"><div><a href="no">x</a></div><a href="no">x</a>
        <p id="inherited"></p></div><a href="#inherited">x</a>"##,
    );
    write("crate/a.svg", "<svg/>");
    write(
        "crate/below/other.html",
        r##"<p id="there"><a href="../index.html">x</a><a href="missing.html">x</a>
        <a href="#missing">x</a><img src="../missing.svg"><a href="source.html#1-3">x</a>
        <a href="../index.html#missing">x</a><a href="http://example.org/">x</a>
        <div><div></div></div><a href="https://">x</a><a href="../below">x</a>"##,
    );
    write("crate/below/source.html", r#"<a id="1"></a><a id="2"></a>"#);
    let findings = Site::read(&folder).follow(&folder.join("crate"));
    let page = folder.join("crate/below/other.html");
    let defect = |link: &str| format!("{}: {link}", page.display());
    let expected = [
        defect("#missing: there is no such anchor"),
        defect("../below: there is no such file"),
        defect("../index.html#missing: there is no such anchor"),
        defect("../missing.svg: there is no such file"),
        defect("http://example.org/: a link of the scheme http"),
        defect("https://: empty host"),
        defect("missing.html: there is no such file"),
        defect("source.html#1-3: there is no such anchor"),
    ];
    assert_eq!(findings.defects, expected);
    let counts = (findings.pages, findings.local, findings.external.len());
    assert_eq!(counts, (3, 16, 1), "{findings:?}");
}
