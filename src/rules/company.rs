//! When calls that come at the same time travel together, in one command.
//!
//! As in a group commit: a lone call goes at once, and so do a few at the same time. When more are under way, those
//! that come wait until they are as many as those, or until there is room; and then go together. Nobody waits for
//! company, and there is no timer: what comes back lets go who waits.

/// How many commands are under way at most. So many lone calls never wait.
pub(crate) const UNDER_WAY_MAX: usize = 4;

/// The most calls that travel in one command. Beyond that a command takes ever longer, and is hardly cheaper a call.
pub(crate) const TOGETHER_MAX: usize = 250;

/// The commands of one kind that are under way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Company {
    commands: usize,
    calls: usize,
}

impl Company {
    /// So many wait: how many of them go now, together.
    #[must_use]
    pub(crate) fn go(&mut self, waiting: usize) -> usize {
        // With fewer than that, the server would be paid for ever more commands with ever fewer calls.
        let are_enough = self.calls < UNDER_WAY_MAX || waiting >= self.calls.min(TOGETHER_MAX);
        if waiting == 0 || self.commands >= UNDER_WAY_MAX || !are_enough {
            return 0;
        }
        let go = waiting.min(TOGETHER_MAX);
        self.commands += 1;
        self.calls += go;
        go
    }

    /// A command with so many calls has come back, or takes so long that nobody should wait for it any more.
    pub(crate) fn came_back(&mut self, calls: usize) {
        self.commands = self.commands.saturating_sub(1);
        self.calls = self.calls.saturating_sub(calls);
    }
}
