//! The members' wall clocks, moved by a library that is loaded before each server.
//!
//! The servers' timers count by the monotonic clock, which is left alone, as it is when somebody sets a machine's time.

use std::path::{Path, PathBuf};

use crate::cluster::{Failed, MEMBERS};

/// The environment variable with the library's path, if that is unusual.
const VARIABLE: &str = "MONGO_LEASE_FAKETIME";
/// The usual paths of the library.
const PLACES: [&str; 5] = [
    "/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1",
    "/usr/lib/aarch64-linux-gnu/faketime/libfaketimeMT.so.1",
    "/usr/lib64/faketime/libfaketimeMT.so.1",
    "/usr/lib/faketime/libfaketimeMT.so.1",
    "/usr/local/lib/faketime/libfaketimeMT.so.1",
];

/// Where the library keeps what a process shares with its children, by the process id.
const SHARED: &str = "/dev/shm";
const SHARED_NAMES: [&str; 2] = ["faketime_shm_", "sem.faketime_sem_"];

/// The clock of each member.
#[derive(Debug)]
pub(crate) struct Clocks {
    library: PathBuf,
    folder: PathBuf,
}

impl Clocks {
    /// All clocks right. Their settings are files in this folder.
    pub(crate) fn start(folder: &Path) -> Result<Clocks, Failed> {
        let named = std::env::var_os(VARIABLE).map(PathBuf::from);
        let usual = || PLACES.map(PathBuf::from).into_iter().find(|path| path.exists());
        let library = named.or_else(usual).ok_or_else(|| {
            let what = "clocks are moved by libfaketime, which was not found";
            Failed::new(format!("{what}; install it, or name its file in {VARIABLE}"))
        })?;
        let clocks = Clocks { library, folder: folder.to_owned() };
        for member in 0..MEMBERS {
            clocks.set(member, 0)?;
        }
        Ok(clocks)
    }

    /// The environment for the server of this member.
    pub(crate) fn environment(&self, member: usize) -> Vec<(String, String)> {
        let library = self.library.display().to_string();
        let file = self.file(member).display().to_string();
        let variables = [
            ("LD_PRELOAD", &library[..]),
            ("FAKETIME_TIMESTAMP_FILE", &file),
            // The setting is read once a second. The default is 10 s; reading it with each clock call would keep the
            // servers busy with nothing else.
            ("FAKETIME_CACHE_DURATION", "1"),
            ("FAKETIME_DONT_FAKE_MONOTONIC", "1"),
        ];
        variables.map(|(name, value)| (name.to_owned(), value.to_owned())).into()
    }

    /// Sets how far the member's clock is ahead of the true one, or behind it.
    pub(crate) fn set(&self, member: usize, ahead_ms: i64) -> Result<(), Failed> {
        let failed = |error| Failed::at("a member's clock", error);
        let sign = if ahead_ms < 0 { '-' } else { '+' };
        let (seconds, millis) = (ahead_ms.unsigned_abs() / 1_000, ahead_ms.unsigned_abs() % 1_000);
        // Replaced in one step: the library reads at any moment.
        let new = self.folder.join(format!("clock-{member}.new"));
        std::fs::write(&new, format!("{sign}{seconds}.{millis:03}\n")).map_err(failed)?;
        std::fs::rename(new, self.file(member)).map_err(failed)
    }

    fn file(&self, member: usize) -> PathBuf {
        self.folder.join(format!("clock-{member}"))
    }
}

impl Drop for Clocks {
    /// Removes the shared memory that the library made for a server that was killed.
    fn drop(&mut self) {
        for entry in std::fs::read_dir(SHARED).into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            let process = SHARED_NAMES.iter().find_map(|prefix| name.strip_prefix(prefix));
            let is_gone = |process: &str| !Path::new("/proc").join(process).exists();
            if process.is_some_and(is_gone) {
                let _by_another = std::fs::remove_file(entry.path());
            }
        }
    }
}
