//! Lends the terminal to the command. The command has its own process group, and a terminal serves only one group.

use nix::sys::signal::{SigSet, Signal as NixSignal};
use rustix::io::Result;
use rustix::process::{Pid, getpgrp};
use rustix::stdio::stdin;
use rustix::termios::{isatty, tcgetpgrp, tcsetpgrp};

/// The terminal on standard input.
pub(super) struct Terminal {
    ours: Pid,
}

impl Terminal {
    /// The terminal, if standard input is one.
    pub(super) fn of_the_process() -> Option<Terminal> {
        isatty(stdin()).then(|| Terminal { ours: getpgrp() })
    }

    /// Whether our group owns the terminal.
    pub(super) fn is_ours(&self) -> bool {
        tcgetpgrp(stdin()) == Ok(self.ours)
    }

    /// Gives the terminal to a group, if ours owns it. A background job has nothing to lend.
    pub(super) fn lend(&self, group: Pid) {
        if self.is_ours() {
            let _ = quietly(|| tcsetpgrp(stdin(), group));
        }
    }

    /// Takes the terminal back, if that group owns it.
    pub(super) fn take_back(&self, group: Pid) {
        if tcgetpgrp(stdin()) == Ok(group) {
            let _ = quietly(|| tcsetpgrp(stdin(), self.ours));
        }
    }
}

/// Acts with SIGTTOU blocked, which would otherwise stop a background group that changes the terminal.
fn quietly(act: impl FnOnce() -> Result<()>) -> Result<()> {
    let mut touching = SigSet::empty();
    touching.add(NixSignal::SIGTTOU);
    let is_blocked = touching.thread_block().is_ok();
    let done = act();
    if is_blocked {
        let _ = touching.thread_unblock();
    }
    done
}
