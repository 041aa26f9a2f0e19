//! The release archive: what `cli/release/make` packs, `install.sh` installs, and the installed programs work.
//!
//! To pack programs takes a processor for a quarter of a minute, so `.ci/full packages` runs this.

#![cfg(unix)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

use mongo_lease_testbed::{Server, command};

fn release(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("release").join(file)
}

/// A folder of this test's own, which is removed at its end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let folder = format!("mongo-lease-{name}-{}", std::process::id());
        let folder = std::env::temp_dir().join(folder);
        fs::create_dir(&folder).unwrap();
        Folder(folder)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // A second failure would hide the first.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Packs the programs of this build, and returns the path of the archive.
fn make(out: &Path) -> PathBuf {
    let programs = Path::new(env!("CARGO_BIN_EXE_mongo-lease")).parent().expect("a folder");
    let migrate = programs.join("mongo-lease-migrate");
    let advice = "`cargo build` builds it";
    assert!(migrate.is_file(), "{} is not there: {advice}", migrate.display());
    let mut make = command(release("make"));
    make.arg("--out").arg(out).arg("--binaries").arg(stripped(programs));
    let output = make.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let said = String::from_utf8(output.stdout).unwrap();
    PathBuf::from(said.trim_end())
}

/// The programs of this folder without what debuggers need, which would take most of the time to pack.
fn stripped(programs: &Path) -> &'static Path {
    static STRIPPED: OnceLock<PathBuf> = OnceLock::new();
    STRIPPED.get_or_init(|| {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("stripped");
        fs::create_dir_all(&folder).unwrap();
        for program in ["mongo-lease", "mongo-lease-migrate"] {
            let mut strip = command("strip");
            strip.arg("-o").arg(folder.join(program)).arg(programs.join(program));
            let output = strip.output().expect("`strip` comes with the linker");
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        }
        folder
    })
}

/// The archive of this test run, in a folder of its own; or another one, which `tests/packages/run` has made.
fn archive() -> &'static Path {
    static ARCHIVE: OnceLock<PathBuf> = OnceLock::new();
    ARCHIVE.get_or_init(|| {
        if let Some(made) = std::env::var_os("MONGO_LEASE_TEST_ARCHIVE") {
            return made.into();
        }
        let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join("archive");
        // The programs may have changed since an earlier run.
        let _ = fs::remove_dir_all(&out);
        make(&out)
    })
}

/// Runs `install.sh` as it stands beside the archive.
fn install(arguments: &[&str]) -> Output {
    let mut install = command("sh");
    install.arg(archive().with_file_name("install.sh")).args(arguments).env_remove("DESTDIR");
    install.output().unwrap()
}

fn refusal(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The files below a folder, by their paths below it.
fn below(folder: &Path) -> Vec<String> {
    let (mut found, mut folders) = (Vec::new(), vec![folder.to_path_buf()]);
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                found.push(path.strip_prefix(folder).unwrap().to_str().unwrap().to_owned());
            }
        }
    }
    found.sort();
    found
}

/// The standard output of an installed program, which succeeds.
fn printed(prefix: &Path, program: &str, arguments: &[&str], uri: &str) -> String {
    let mut installed: Command = command(prefix.join("bin").join(program));
    let output = installed.args(arguments).env("MONGODB_URI", uri).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

const INSTALLED: [&str; 14] = [
    "bin/mongo-lease",
    "bin/mongo-lease-migrate",
    "share/bash-completion/completions/mongo-lease",
    "share/bash-completion/completions/mongo-lease-migrate",
    "share/doc/mongo-lease/LICENSE-APACHE",
    "share/doc/mongo-lease/LICENSE-MIT",
    "share/doc/mongo-lease/README.md",
    "share/doc/mongo-lease/installed",
    "share/fish/vendor_completions.d/mongo-lease-migrate.fish",
    "share/fish/vendor_completions.d/mongo-lease.fish",
    "share/man/man1/mongo-lease-migrate.1",
    "share/man/man1/mongo-lease.1",
    "share/zsh/site-functions/_mongo-lease",
    "share/zsh/site-functions/_mongo-lease-migrate",
];

#[tokio::test]
async fn what_the_archive_installs_works_and_goes_again() {
    let folder = Folder::new("installed");
    let (archive, prefix) = (archive().to_str().unwrap(), folder.0.join("prefix"));
    let to = ["--prefix", prefix.to_str().unwrap()];
    let installed = install(&[&[archive][..], &to].concat());
    assert!(installed.status.success(), "{installed:?}");

    let files = below(&prefix);
    for file in INSTALLED {
        assert!(files.iter().any(|it| it == file), "{file} is not in {files:?}");
    }
    for page in files.iter().filter(|it| it.starts_with("share/man/")) {
        let page = fs::read_to_string(prefix.join(page)).unwrap();
        assert!(page.contains(".TH mongo-lease") && page.contains(".SH NAME"), "{page}");
    }

    let database = Server::shared().database().await;
    let uri = Server::shared().uri().replacen("/?", &format!("/{}?", database.name()), 1);
    let version = printed(&prefix, "mongo-lease", &["--version"], &uri);
    assert_eq!(version.trim_end(), concat!("mongo-lease ", env!("CARGO_PKG_VERSION")));
    printed(&prefix, "mongo-lease-migrate", &["up"], &uri);
    let ran = printed(&prefix, "mongo-lease", &["run", "a", "--", "echo", "done"], &uri);
    assert_eq!(ran, "done\n");

    // A second time, over what is there; and a file of an earlier version goes.
    let old = prefix.join("share/man/man1/mongo-lease-old.1");
    fs::write(&old, "").unwrap();
    let list = prefix.join("share/doc/mongo-lease/installed");
    let before = fs::read_to_string(&list).unwrap();
    fs::write(&list, format!("{before}share/man/man1/mongo-lease-old.1\n")).unwrap();
    let again = install(&[&[archive][..], &to].concat());
    assert!(again.status.success(), "{again:?}");
    assert_eq!((below(&prefix), fs::read_to_string(&list).unwrap()), (files, before));

    // Files of others stay.
    fs::write(prefix.join("bin/other"), "").unwrap();
    let removed = install(&[&["--uninstall"][..], &to].concat());
    assert!(removed.status.success(), "{removed:?}");
    assert_eq!(below(&prefix), ["bin/other"]);
    let removed = install(&[&["--uninstall"][..], &to].concat());
    assert!(refusal(&removed).contains("nothing is installed"), "{removed:?}");
}

#[test]
fn an_archive_that_was_changed_is_not_installed() {
    let folder = Folder::new("changed");
    let changed = folder.0.join(archive().file_name().unwrap());
    let sum = |archive: &Path| format!("{}.sha256", archive.display());
    fs::copy(sum(archive()), sum(&changed)).unwrap();
    let prefix = folder.0.join("prefix");
    let arguments = [changed.to_str().unwrap(), "--prefix", prefix.to_str().unwrap()];
    let mut bytes = fs::read(archive()).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&changed, &bytes).unwrap();
    let why = refusal(&install(&arguments));
    assert!(why.contains("Nothing was installed"), "{why}");
    fs::remove_file(sum(&changed)).unwrap();
    let why = refusal(&install(&arguments));
    assert!(why.contains("cannot be checked"), "{why}");
    assert!(!prefix.exists());
    let why = refusal(&install(&["no-such-archive.tar.gz"]));
    assert!(why.contains("there is no such file"), "{why}");
}

#[test]
fn two_archives_of_one_build_are_the_same() {
    let folder = Folder::new("second");
    let [first, second] = [archive(), &make(&folder.0)].map(|archive| fs::read(archive).unwrap());
    assert!(first == second, "{} and {} bytes", first.len(), second.len());
}

/// The programs of this build need a loader where they are built for a C library that is loaded.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[test]
fn programs_that_need_a_loader_are_not_packed_as_static_ones() {
    let folder = Folder::new("not-static");
    let programs = Path::new(env!("CARGO_BIN_EXE_mongo-lease")).parent().expect("a folder");
    let mut make = command(release("make"));
    make.args(["--target", "x86_64-unknown-linux-musl", "--out"]).arg(&folder.0);
    let output = make.arg("--binaries").arg(programs).output().unwrap();
    let why = refusal(&output);
    assert!(why.contains("is not static: it asks for a loader"), "{why}");
    assert!(below(&folder.0).is_empty());
}
