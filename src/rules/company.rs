//! When calls that come at the same time travel together, in one command.
//!
//! As in a group commit: a lone call goes at once. While as many commands are under way as do any good, those that come
//! wait for the next one to come back, and then go together. Nobody waits for company, and there is no timer.

/// How many commands are under way at most before calls wait for one to come back. With one, half of the callers wait
/// while the other half is answered; more bring smaller companies, and the server is paid by the command.
pub(crate) const UNDER_WAY_MAX: usize = 2;

/// The most calls that travel in one command. Beyond that a command takes ever longer, and is hardly cheaper a call.
pub(crate) const TOGETHER_MAX: usize = 100;

/// The commands of one kind that are under way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Company {
    under_way: usize,
}

impl Company {
    /// A call comes. Whether it goes at once, alone; else it is to wait.
    #[must_use]
    pub(crate) fn goes_at_once(&mut self) -> bool {
        let goes = self.under_way < UNDER_WAY_MAX;
        self.under_way += usize::from(goes);
        goes
    }

    /// A command has come back, or takes so long that nobody should wait for it any more. How many of those who wait go
    /// now, together.
    #[must_use]
    pub(crate) fn go_next(&mut self, waiting: usize) -> usize {
        let go = waiting.min(TOGETHER_MAX);
        if go == 0 {
            self.under_way = self.under_way.saturating_sub(1);
        }
        go
    }
}
