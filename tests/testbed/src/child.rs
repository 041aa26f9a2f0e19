//! Child processes that do not inherit ignored signals from our own parent.

use std::ffi::OsStr;
use std::process::{Command, Stdio};
use std::sync::OnceLock;

/// A command that starts this program with the default disposition of every signal, where the system's `env` can do
/// that (GNU coreutils from 8.31 on). Elsewhere the program inherits ours.
///
/// Under `nohup`, and in a script's background, SIGHUP, SIGINT and SIGQUIT are ignored, and a program inherits that. A
/// test that sends one of these would then wait for an end that does not come. The process id is the program's: `env`
/// becomes the program.
#[must_use]
pub fn command(program: impl AsRef<OsStr>) -> Command {
    if !env_sets_defaults() {
        return Command::new(program);
    }
    let mut command = Command::new("env");
    command.arg(DEFAULT_SIGNALS).arg(program);
    command
}

const DEFAULT_SIGNALS: &str = "--default-signal";

/// Checked once for the process.
fn env_sets_defaults() -> bool {
    static SETS_DEFAULTS: OnceLock<bool> = OnceLock::new();
    *SETS_DEFAULTS.get_or_init(|| {
        let mut probe = Command::new("env");
        probe.args([DEFAULT_SIGNALS, "true"]);
        probe.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        probe.status().is_ok_and(|status| status.success())
    })
}
