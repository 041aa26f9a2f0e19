//! Terminal: lent to the command while it runs, for it has a process group of its own, and a terminal listens to one
//! group only.

use nix::sys::signal::{SigSet, Signal as NixSignal};
use rustix::io::Result;
use rustix::process::{Pid, getpgrp};
use rustix::stdio::stdin;
use rustix::termios::{isatty, tcgetpgrp, tcsetpgrp};

/// The terminal that standard input is.
pub(super) struct Terminal {
    ours: Pid,
}

impl Terminal {
    /// The terminal, where standard input is one.
    pub(super) fn of_the_process() -> Option<Terminal> {
        isatty(stdin()).then(|| Terminal { ours: getpgrp() })
    }

    /// Whether it listens to us.
    pub(super) fn is_ours(&self) -> bool {
        tcgetpgrp(stdin()) == Ok(self.ours)
    }

    /// Lets it listen to a group, if it listens to us: a background job has nothing to lend.
    pub(super) fn lend(&self, group: Pid) {
        if self.is_ours() {
            let _ = quietly(|| tcsetpgrp(stdin(), group));
        }
    }

    /// Lets it listen to us again, if it listens to that group.
    pub(super) fn take_back(&self, group: Pid) {
        if tcgetpgrp(stdin()) == Ok(group) {
            let _ = quietly(|| tcsetpgrp(stdin(), self.ours));
        }
    }
}

/// Without being stopped for it: that is what happens to a background group which touches the terminal.
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
