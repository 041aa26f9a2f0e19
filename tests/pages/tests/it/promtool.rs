//! Finds `promtool`: on the `PATH`, in our cache folder, or in a pinned package of Debian that `apt-get` fetches.
//!
//! Nothing is installed: the package is unpacked into the cache folder (`$XDG_CACHE_HOME` or `~/.cache`, then
//! `mongo-lease/promtool-<version>/`).

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::sync::OnceLock;

use mongo_lease_pages::packages::output_of;

/// The package of Debian 12, and the hash of its file for this processor.
const PACKAGE: &str = "prometheus=2.42.0+ds-5+b6";
const SHA256: &str = "3b0e0255b059a7696bd4a139a4a4eb24d71df067936a61ece5093559cbc7991c";
const FOLDER: &str = "mongo-lease/promtool-2.42.0";

/// The path of promtool, looked for once; or why there is none.
pub(crate) fn find() -> Result<PathBuf, String> {
    static FOUND: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    FOUND.get_or_init(|| on_path().map_or_else(cached_or_fetched, Ok)).clone()
}

fn on_path() -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    env::split_paths(&path).map(|folder| folder.join("promtool")).find(|binary| binary.is_file())
}

fn cached_or_fetched() -> Result<PathBuf, String> {
    let set = |name: &str| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let cache = set("XDG_CACHE_HOME").filter(|folder| folder.is_absolute());
    let cache = cache.or_else(|| Some(set("HOME")?.join(".cache")));
    let home = cache.ok_or("neither XDG_CACHE_HOME nor HOME is set")?.join(FOLDER);
    let binary = home.join("usr/bin/promtool");
    if !binary.is_file() {
        if (env::consts::OS, env::consts::ARCH) != ("linux", "x86_64") {
            return Err("it is not on the PATH, and is fetched for Linux on x86-64 only".into());
        }
        fetch(&home)?;
    }
    Ok(binary)
}

/// Fetches beside `home`, and renames at the end: of two processes that do so at once, one wins.
fn fetch(home: &Path) -> Result<(), String> {
    let wrong = |error: std::io::Error| format!("{}: {error}", home.display());
    let work = home.with_extension(format!("fetch-{}", std::process::id()));
    fs::create_dir_all(&work).map_err(wrong)?;
    let result = fetch_into(&work).and_then(|unpacked| match fs::rename(unpacked, home) {
        Err(error) if !home.is_dir() => Err(wrong(error)),
        Err(_) | Ok(()) => Ok(()),
    });
    fs::remove_dir_all(&work).map_err(wrong)?;
    result
}

fn fetch_into(work: &Path) -> Result<PathBuf, String> {
    run(work, "apt-get", &["download", PACKAGE])?;
    let entries = fs::read_dir(work).map_err(|error| error.to_string())?;
    let mut files = entries.filter_map(|entry| Some(entry.ok()?.path()));
    let file = files.find(|path| path.extension().is_some_and(|it| it == "deb"));
    let file = file.ok_or("apt-get fetched no package")?;
    let file = file.to_str().ok_or("an unreadable path")?;
    let sum = run(work, "sha256sum", &[file])?;
    if !sum.starts_with(SHA256) {
        return Err(format!("the package has another hash: {sum}"));
    }
    run(work, "dpkg-deb", &["-x", file, "unpacked"])?;
    run(work, "unpacked/usr/bin/promtool", &["--version"])?;
    Ok(work.join("unpacked"))
}

fn run(folder: &Path, program: &str, arguments: &[&str]) -> Result<String, String> {
    let path = if program.contains('/') { folder.join(program) } else { program.into() };
    let output = output_of(path, arguments, folder);
    let output = output.map_err(|error| format!("{program}: {error}"))?;
    let shown = text(&output);
    if output.status.success() { Ok(shown) } else { Err(format!("{program}: {shown}")) }
}

/// The output of a program, and its errors.
pub(crate) fn text(output: &Output) -> String {
    let [out, err] = [&output.stdout, &output.stderr].map(|it| String::from_utf8_lossy(it));
    format!("{out}{err}").trim().to_owned()
}
