//! Group commit: when calls that come at the same time go in one command, how long that command may take, and how it is
//! split when one of its documents is held up.
//!
//! A lone call goes at once, and so do a few at the same time. When more are under way, those that come wait until they
//! are as many as those, or until there is room; then they go in one command. There is no timer: a completed command
//! flushes the queue.

use std::time::Duration;

use super::time::Instant;

/// How many commands are under way at most. So many lone calls never wait.
pub(crate) const UNDER_WAY_MAX: usize = 4;

/// The most calls of one command. Beyond that a command takes ever longer, and is hardly cheaper a call.
pub(crate) const BATCH_MAX: usize = 250;

/// The commands of one kind that are under way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Batching {
    commands: usize,
    calls: usize,
}

impl Batching {
    /// So many wait: how many of them go now, in one command.
    #[must_use]
    pub(crate) fn go(&mut self, waiting: usize) -> usize {
        // With fewer than that, the server would be paid for ever more commands with ever fewer calls.
        let are_enough = self.calls < UNDER_WAY_MAX || waiting >= self.calls.min(BATCH_MAX);
        if waiting == 0 || self.commands >= UNDER_WAY_MAX || !are_enough {
            return 0;
        }
        let go = waiting.min(BATCH_MAX);
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

/// The least time that a batch gets.
pub(crate) const BOUND_MIN: Duration = Duration::from_millis(250);
/// The most, whatever a slow server has taken.
pub(crate) const BOUND_MAX: Duration = Duration::from_secs(60);
/// The most that a command gets whose document is known to be held up.
pub(crate) const HELD_UP_BOUND_MAX: Duration = Duration::from_secs(1);

/// For how long the server may work on a command of one kind.
///
/// A statement that waits for a transaction waits for as long as it may, and so does every other one of its command. So
/// a command may take four times as long as one did that went through. A server that is slow without holding anything
/// up is told from one document that is held up by whether any command went through meanwhile: where none did, the
/// bound doubles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bound {
    took: Duration,
    doublings: u32,
    /// When the last command went through, and when the bound was doubled last.
    went_through_at: Instant,
    doubled_at: Instant,
}

impl Default for Bound {
    fn default() -> Bound {
        let never = Instant::START;
        Bound { took: Duration::ZERO, doublings: 0, went_through_at: never, doubled_at: never }
    }
}

impl Bound {
    /// For how long the next command may take.
    pub(crate) fn get(&self) -> Duration {
        let bound = BOUND_MIN.max(self.took * 4);
        bound.saturating_mul(1 << self.doublings.min(16)).min(BOUND_MAX)
    }

    /// The same for a command whose document is known to be held up.
    pub(crate) fn get_held_up(&self) -> Duration {
        self.get().min(HELD_UP_BOUND_MAX)
    }

    /// A command went through that had taken so long.
    pub(crate) fn went_through(&mut self, now: Instant, took: Duration) {
        // A short one behind a long one says little about the next long one.
        self.took = took.min(BOUND_MAX).max(self.took - self.took / 8);
        self.doublings = 0;
        self.went_through_at = self.went_through_at.max(now);
    }

    /// A command that was sent at `sent` did not go through in its time.
    pub(crate) fn timed_out(&mut self, now: Instant, sent: Instant) {
        // Once for all that were under way together.
        if self.went_through_at < sent && self.doubled_at < sent {
            self.doublings = (self.doublings + 1).min(16);
            self.doubled_at = now;
        }
    }
}

/// In how many pieces a batch is sent again of which a statement was held up.
const PIECES: usize = 8;

/// The pieces in which a batch is sent again; calls for one document stay together. The batch itself where all its
/// calls are for one document: then it is that one which is held up.
pub(crate) fn pieces<T>(
    mut batch: Vec<T>,
    name: impl Fn(&T) -> &str,
) -> Result<Vec<Vec<T>>, Vec<T>> {
    batch.sort_by(|one, other| name(one).cmp(name(other)));
    let is_new = |pair: &[T]| name(&pair[0]) != name(&pair[1]);
    let documents = 1 + batch.windows(2).filter(|pair| is_new(pair)).count();
    if documents == 1 {
        return Err(batch);
    }
    let a_piece = documents.div_ceil(PIECES);
    let mut pieces: Vec<Vec<T>> = Vec::new();
    let mut in_piece = 0;
    for item in batch {
        let last = pieces.last().and_then(|piece| piece.last());
        let is_new = last.is_none_or(|last| name(last) != name(&item));
        in_piece += usize::from(is_new);
        if is_new && (in_piece > a_piece || pieces.is_empty()) {
            pieces.push(Vec::new());
            in_piece = 1;
        }
        if let Some(piece) = pieces.last_mut() {
            piece.push(item);
        }
    }
    Ok(pieces)
}
