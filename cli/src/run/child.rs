//! The command, in a process group of its own.

use std::ffi::OsString;
use std::io;
use std::process::ExitStatus;
use std::time::Duration;

use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, kill_process, kill_process_group, test_kill_process_group,
    waitid,
};
use tokio::process::{Child as Process, Command};
use tokio::time::sleep;

use crate::clock;

/// How often to check whether a group has gone: no event reports that.
const LOOK_EVERY: Duration = Duration::from_millis(10);
/// How long the system may take to carry out SIGKILL. A process left after that is stuck in the system, or its parent
/// does not wait for it.
const DYING: Duration = Duration::from_secs(2);

/// The command.
pub(super) struct Child {
    process: Process,
    /// Its process group, whose id is the command's process id.
    pub(super) group: Pid,
}

/// The command to start, and its environment.
pub(super) struct What<'a> {
    pub(super) command: &'a [OsString],
    pub(super) shell: bool,
    pub(super) variables: [(&'static str, String); 3],
}

impl Child {
    /// Starts the command. It shares our input and output.
    pub(super) fn start(what: &What<'_>) -> io::Result<Child> {
        let mut command = match what.command {
            words if what.shell => {
                let mut shell = Command::new("sh");
                shell.arg("-c").arg(words.join(&OsString::from(" ")));
                shell
            }
            [program, arguments @ ..] => {
                let mut command = Command::new(program);
                command.args(arguments);
                command
            }
            [] => return Err(io::ErrorKind::NotFound.into()),
        };
        for (name, value) in &what.variables {
            command.env(name, value);
        }
        // The command does not get the database's password.
        command.env_remove("MONGODB_URI");
        let process = command.process_group(0).spawn()?;
        let id = process.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
        let group = id.ok_or_else(|| io::Error::other("the process has no id"))?;
        Ok(Child { process, group })
    }

    /// Waits for the end of the command.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    pub(super) async fn wait(&mut self) -> io::Result<ExitStatus> {
        self.process.wait().await
    }

    /// Passes a signal on to the processes that would have received it without us. Signals of the keyboard or of a
    /// closing terminal go to the whole group, which the terminal does not know. All others go to the command itself.
    pub(super) fn pass_on(&self, signal: Signal) {
        // It may have ended just now.
        if self.process.id().is_none() {
            return;
        }
        let _ = match signal {
            Signal::INT | Signal::QUIT | Signal::HUP => kill_process_group(self.group, signal),
            _ => kill_process(self.group, signal),
        };
    }

    /// Continues the command after a stop.
    pub(super) fn go_on(&self) {
        let _ = kill_process_group(self.group, Signal::CONT);
    }

    /// Whether the command was stopped since the last call.
    pub(super) fn was_stopped(&self) -> bool {
        let stops = WaitIdOptions::STOPPED | WaitIdOptions::NOHANG;
        let found = waitid(WaitId::Pid(self.group), stops);
        found.is_ok_and(|status| status.is_some_and(|status| status.stopped()))
    }

    /// Whether any process of its group is left.
    pub(super) fn has_group(&self) -> bool {
        test_kill_process_group(self.group) != Err(rustix::io::Errno::SRCH)
    }

    /// Ends the whole group: SIGTERM now, and SIGKILL at `kill_at`, counted from boot.
    pub(super) async fn end(&mut self, kill_at: Duration) {
        tell_to_end(self.group);
        if self.is_gone_by(kill_at).await {
            return;
        }
        kill(self.group);
        self.is_gone_by(clock::since_boot() + DYING).await;
    }

    async fn is_gone_by(&mut self, moment: Duration) -> bool {
        loop {
            // A process that has ended but was not waited for still belongs to the group.
            let is_there = matches!(self.process.try_wait(), Ok(None));
            if !is_there && !self.has_group() {
                return true;
            }
            let left = moment.saturating_sub(clock::since_boot());
            if left.is_zero() {
                return false;
            }
            sleep(left.min(LOOK_EVERY)).await;
        }
    }
}

/// Sends SIGTERM and SIGCONT to a group. A stopped group receives SIGTERM only when it continues.
pub(super) fn tell_to_end(group: Pid) {
    let _ = kill_process_group(group, Signal::TERM);
    let _ = kill_process_group(group, Signal::CONT);
}

/// Sends SIGKILL to a group.
pub(super) fn kill(group: Pid) {
    let _ = kill_process_group(group, Signal::KILL);
}
