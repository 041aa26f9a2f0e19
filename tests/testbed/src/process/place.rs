//! Where a server's data are.

use std::path::{Path, PathBuf};
use std::{env, ffi::OsStr};

/// The file system in memory of Linux.
const MEMORY: &str = "/dev/shm";

/// A test server writes some 20 MB, and a run has some dozens of them. In a container this may be 64 MB in all.
const FREE_MIN: u64 = 2 << 30;

/// Where a server's data are.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) enum DataPlace {
    /// In memory, if the machine has room for it and nobody asked for another folder by `TMPDIR`.
    #[default]
    Memory,
    /// In the system's folder for temporary files.
    Disk,
}

impl DataPlace {
    /// The folder in which each server has one.
    pub(super) fn root(self) -> PathBuf {
        let asked_for = env::var_os("TMPDIR").is_some_and(|folder| folder != OsStr::new(""));
        match self {
            DataPlace::Memory if !asked_for && free_bytes(MEMORY.as_ref()) >= FREE_MIN => {
                PathBuf::from(MEMORY)
            }
            DataPlace::Memory | DataPlace::Disk => env::temp_dir(),
        }
    }
}

/// How much can be written into this folder: nothing if it is not there.
fn free_bytes(folder: &Path) -> u64 {
    rustix::fs::statvfs(folder).map_or(0, |system| {
        if system.f_flag.contains(rustix::fs::StatVfsMountFlags::RDONLY) {
            return 0;
        }
        system.f_bavail.saturating_mul(system.f_frsize)
    })
}
