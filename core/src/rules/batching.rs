//! Group commit: when calls share a command, how long that may take, and how it is split when one of its documents is
//! blocked.
//!
//! A lone call is sent at once, and so are a few concurrent ones. When more are in progress, new calls wait until as
//! many of them have gathered, or until there is room; then they share one command. A completed command flushes the
//! queue, and so does one that takes longer than `PATIENCE` in `batch`.

use std::collections::HashSet;
use std::time::Duration;

use super::Instant;

/// The maximum number of concurrent commands. Up to this number, lone calls never wait.
pub const UNDER_WAY_MAX: usize = 4;

/// The maximum number of calls in one command. A larger one is hardly cheaper per call.
pub const BATCH_MAX: usize = 250;

/// The commands of one kind that are in progress.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Batching {
    commands: usize,
    calls: usize,
    /// The calls that go alone because they have little time.
    alone: usize,
    /// How long a command takes: a moving average.
    typical: Duration,
}

impl Batching {
    /// Whether any of the `waiting` calls may go now.
    pub fn may_go(&self, waiting: usize) -> bool {
        // With fewer calls, the server would get ever more commands with ever fewer calls in each.
        let are_enough = self.calls < UNDER_WAY_MAX || waiting >= self.calls.min(BATCH_MAX);
        waiting > 0 && self.commands < UNDER_WAY_MAX && are_enough
    }

    /// Returns how many of the `waiting` calls go now, in one command.
    #[must_use]
    pub fn go(&mut self, waiting: usize) -> usize {
        if !self.may_go(waiting) {
            return 0;
        }
        let go = waiting.min(BATCH_MAX);
        self.commands += 1;
        self.calls += go;
        go
    }

    /// A command with this many calls is answered, or too slow to wait for.
    pub fn came_back(&mut self, calls: usize) {
        self.commands = self.commands.saturating_sub(1);
        self.calls = self.calls.saturating_sub(calls);
    }

    /// Whether a call with little time goes alone now. Only a few do at a time: under load, all calls come to have
    /// little time.
    #[must_use]
    pub fn go_alone(&mut self) -> bool {
        let goes = self.alone < UNDER_WAY_MAX;
        self.alone += usize::from(goes);
        goes
    }

    /// A call that went alone is answered.
    pub fn alone_came_back(&mut self) {
        self.alone = self.alone.saturating_sub(1);
    }

    /// A command was answered after this time.
    pub fn took(&mut self, took: Duration) {
        self.typical = (self.typical * 3 + took) / 4;
    }

    /// How long a command takes.
    pub fn typical(&self) -> Duration {
        self.typical
    }
}

/// Whether a call that has waited, and has this much time left, is not worth sending, as its caller would have gone
/// when the answer comes.
///
/// Otherwise a process with more calls than the server carries out would send each of them just before its time is
/// over. `typical` is how long a command takes; after one that took very long, it is more than calls have. So a call is
/// sent in any case if it has more than an eighth of an attempt's time.
pub fn is_too_late(left: Duration, typical: Duration, timeout: Duration) -> bool {
    left.is_zero() || left < typical.min(timeout / 8)
}

/// Whether the server itself was slow, and no document of a command held it up: its answer took much longer than the
/// time `asked`, after which it was told to give up. Then the command is sent again as a whole.
pub fn is_server_slow(asked: Duration, took: Duration) -> bool {
    took > asked * 2 + BOUND_MIN
}

/// The shortest time limit of a batch.
pub const BOUND_MIN: Duration = Duration::from_millis(250);
/// The longest time limit of a batch, however slow the server is.
pub const BOUND_MAX: Duration = Duration::from_secs(60);
/// The longest time limit of a command whose document is known to be blocked.
pub const BLOCKED_BOUND_MAX: Duration = Duration::from_secs(1);

/// The server's time limit for one kind of command.
///
/// A statement that waits for a transaction uses up the time limit, and delays all other statements of its command by
/// as much. So the limit is four times the duration of a command that went through. If none went through meanwhile, no
/// document is blocked, but the server is slow: then the limit doubles.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bound {
    took: Duration,
    doublings: u32,
    /// When the last command went through, and when the bound was last doubled; the clock's start means never.
    went_through_at: Instant,
    doubled_at: Instant,
}

impl Bound {
    /// The time limit of the next command.
    pub fn get(&self) -> Duration {
        let bound = BOUND_MIN.max(self.took * 4);
        bound.saturating_mul(1 << self.doublings.min(16)).min(BOUND_MAX)
    }

    /// The time limit of a command whose document is known to be blocked.
    pub fn get_blocked(&self) -> Duration {
        self.get().min(BLOCKED_BOUND_MAX)
    }

    /// A command went through and took this long.
    pub fn went_through(&mut self, now: Instant, took: Duration) {
        // A short command after a long one says little about the next long one.
        self.took = took.min(BOUND_MAX).max(self.took - self.took / 8);
        self.doublings = 0;
        self.went_through_at = self.went_through_at.max(now);
    }

    /// A command that was sent at `sent` ran into its time limit.
    pub fn timed_out(&mut self, now: Instant, sent: Instant) {
        // Doubles once for all commands that were in progress together.
        if self.went_through_at < sent && self.doubled_at < sent {
            self.doublings = (self.doublings + 1).min(16);
            self.doubled_at = now;
        }
    }
}

/// The most leases that one command renews.
pub const RENEWALS_MAX: usize = 2_000;
/// The most waiters of which one command sends the heartbeats.
pub const HEARTBEATS_MAX: usize = 1_000;

/// The time of each piece of a batch that had so much: one blocked document among thousands is isolated while there is
/// still time for the others.
pub fn piece_time(time: Duration) -> Duration {
    time * 2 / 3
}

/// The number of pieces when a batch with a blocked statement is split.
const PIECES: usize = 8;

/// Splits a batch; calls for one document stay together. Returns the batch as an error if all its calls are for one
/// document: then that document is blocked.
pub fn pieces<T>(batch: Vec<T>, name: impl Fn(&T) -> &str) -> Result<Vec<Vec<T>>, Vec<T>> {
    let mut documents = by_document(batch, name);
    if documents.len() < 2 {
        return Err(documents.pop().unwrap_or_default());
    }
    let a_piece = documents.len().div_ceil(PIECES);
    let mut pieces = Vec::new();
    let mut documents = documents.into_iter().peekable();
    while documents.peek().is_some() {
        pieces.push(documents.by_ref().take(a_piece).flatten().collect());
    }
    Ok(pieces)
}

/// Divides calls into those about blocked documents, in a group a document, and the others.
///
/// A document that is blocked for one call is blocked for all calls about it. With a command a call, those about one
/// document would keep the others out of the few slots for blocked documents.
pub fn apart<T>(
    calls: Vec<T>,
    name: impl Fn(&T) -> &str,
    is_blocked: impl Fn(&T) -> bool,
) -> (Vec<Vec<T>>, Vec<T>) {
    let blocked = calls.iter().filter(|call| is_blocked(call));
    let blocked: HashSet<String> = blocked.map(|call| name(call).to_owned()).collect();
    let (alone, together): (Vec<T>, Vec<T>) =
        calls.into_iter().partition(|call| blocked.contains(name(call)));
    (by_document(alone, name), together)
}

fn by_document<T>(mut calls: Vec<T>, name: impl Fn(&T) -> &str) -> Vec<Vec<T>> {
    calls.sort_by(|one, other| name(one).cmp(name(other)));
    let mut groups: Vec<Vec<T>> = Vec::new();
    for call in calls {
        match groups.last_mut() {
            Some(group) if name(&group[0]) == name(&call) => group.push(call),
            _ => groups.push(vec![call]),
        }
    }
    groups
}

/// Waiters by what a look has found, after a heartbeat matched fewer documents than it named.
#[derive(Debug, PartialEq, Eq)]
pub struct AfterLook<T> {
    /// Their entries are not there.
    pub gone: Vec<T>,
    /// Perhaps they had no heartbeat.
    pub again: Vec<T>,
    /// They had the heartbeat.
    pub confirmed: Vec<T>,
}

/// Divides the waiters of a heartbeat that matched so many documents.
///
/// A statement for several entries of a document matches only where all are there. If more documents are complete than
/// have matched, a call has joined again since: then nobody knows which of them had the heartbeat.
pub fn after_look<T>(
    waiters: Vec<T>,
    matched: usize,
    name: impl Fn(&T) -> &str,
    is_there: impl Fn(&T) -> bool,
) -> AfterLook<T> {
    let (mut gone, mut there) = (Vec::new(), Vec::new());
    for document in by_document(waiters, name) {
        let entries = document.len();
        let (present, absent): (Vec<T>, Vec<T>) = document.into_iter().partition(&is_there);
        there.push((present, entries, absent.is_empty()));
        gone.extend(absent);
    }
    let is_known = there.iter().filter(|(_, _, is_complete)| *is_complete).count() <= matched;
    let (mut confirmed, mut again) = (Vec::new(), Vec::new());
    for (present, entries, is_complete) in there {
        let is_confirmed = entries == 1 || is_known && is_complete;
        if is_confirmed { confirmed.extend(present) } else { again.extend(present) }
    }
    AfterLook { gone, again, confirmed }
}
