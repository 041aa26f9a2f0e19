//! The hook: a command of the user that runs once, when the lease is lost.
//!
//! It runs beside the end of the command under the lease, and delays none of its signals.

use std::ffi::OsString;
use std::io;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::Pid;
use tokio::process::Command;
use tokio::time::timeout;

use super::child::kill;

/// How long the hook may run. Its process group is killed then.
const LONGEST: Duration = Duration::from_secs(10);

/// The hook of one run.
pub(super) struct Hook {
    /// For `sh -c`.
    pub(super) command: OsString,
    pub(super) name: String,
    pub(super) token: String,
}

impl Hook {
    /// Runs the hook to its end, or for as long as it may run. Returns a message if it failed.
    pub(super) async fn run(&self, reason: &str) -> Option<String> {
        let failed = |why: String| Some(format!("the --on-lost command {why}"));
        match self.run_to_end(reason).await {
            Ok(Some(status)) if status.success() => None,
            Ok(Some(status)) => failed(format!("failed: {status}")),
            Ok(None) => failed(format!("was killed after {}s", LONGEST.as_secs())),
            Err(error) => failed(format!("cannot be run: {error}")),
        }
    }

    async fn run_to_end(&self, reason: &str) -> io::Result<Option<ExitStatus>> {
        let mut command = Command::new("sh");
        command.arg("-c").arg(&self.command).stdin(Stdio::null());
        command.env("MONGO_LEASE_NAME", &self.name).env("MONGO_LEASE_TOKEN", &self.token);
        command.env("MONGO_LEASE_LOST_REASON", reason).env_remove("MONGODB_URI");
        // In a group of its own: neither the end of the command nor a signal of the terminal reaches it.
        let mut process = command.process_group(0).spawn()?;
        let group = process.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
        if let Ok(ended) = timeout(LONGEST, process.wait()).await {
            return ended.map(Some);
        }
        if let Some(group) = group {
            kill(group);
        }
        process.wait().await.map(|_killed| None)
    }
}
