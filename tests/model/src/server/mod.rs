//! The server's effect on the document of one lease, as pure functions: the pipelines of the library's commands.
//!
//! The module needs nothing but `std`. The model checker explores it, and the library's own tests compare it with a
//! real server (`src/commands/tests/agreement`). So the model is about the commands that are really sent.
//!
//! Values are small numbers, and times are numbers without a unit. `now` is `$$NOW`, which the server takes when a
//! command arrives: it may be older than the document that the command finds when it writes.

mod queue;
mod release;
mod take;

pub(crate) use queue::{Element, Entry, Promoted, Queue, QueueOptions, heartbeat};
pub(crate) use release::{
    HandOffTo, LONG_AGO, foreign_release, foreign_take, hand_off, is_meant, release, release_later,
    tombstone, ttl_delete,
};
pub(crate) use take::{Taken, said_to, take};

/// A holder's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Value(pub(crate) u8);

/// The value of a tombstone.
pub(crate) const NOBODY: Value = Value(u8::MAX);

/// The identity of a grant: an acquire call, and the number of its attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct GrantId {
    pub(crate) call: u8,
    pub(crate) attempt: u8,
}

/// `expiresAt`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Expiry {
    /// Missing, or null.
    Absent,
    /// A date.
    At(i64),
    /// A value of another type, which is never read as a time. As a text it sorts before every date.
    Damaged,
}

/// `grant`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Grant {
    pub(crate) value: Value,
    pub(crate) id: GrantId,
    pub(crate) sent: i64,
    pub(crate) acquired_at: i64,
    pub(crate) ttl: i64,
    pub(crate) max_clock_skew: i64,
    pub(crate) writes: i64,
}

/// The document of one lease.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Document {
    pub(crate) value: Option<Value>,
    pub(crate) expiry: Expiry,
    pub(crate) grant: Option<Grant>,
    pub(crate) queue: Queue,
    pub(crate) promoted: Option<Promoted>,
}

/// The request of one attempt of an acquire call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct AcquireRequest {
    pub(crate) value: Value,
    pub(crate) id: GrantId,
    pub(crate) ttl: i64,
    pub(crate) max_clock_skew: i64,
    pub(crate) sent: i64,
    /// How it waits in the queue where the lease is not free. `None`: it does not wait.
    pub(crate) joins: Option<QueueOptions>,
    /// A call of the same process that has given up, and whose entry this one takes over.
    pub(crate) predecessor: Option<Value>,
}

/// One grant, as renewals and guards name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Key {
    pub(crate) value: Value,
    pub(crate) id: GrantId,
}

/// Which of a value's grants a release ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum GrantMatch {
    /// Whatever it is.
    Any,
    /// This one.
    Grant(GrantId),
    /// Any of this call's, except the one that its caller got.
    Call(u8, Option<GrantId>),
}

/// How an expiry is written. The commands use [`Write::Max`]; the other one is a mistake that must be found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Write {
    /// The expiry only rises.
    Max,
    /// The expiry is overwritten.
    Plain,
}

/// The protections of the commands that can be switched off. The search must find each that is off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Build {
    /// How the expiry of the caller's own lease is written again.
    pub(crate) again: Write,
    /// How a heartbeat writes the time from which an entry counts, and the time until which it lives.
    pub(crate) heartbeat: (Write, Write),
    /// A promotion counts from the newest heartbeat, where `$$NOW` is older.
    pub(crate) promotes_from_beat: bool,
    /// A take-over by a waiter does the same.
    pub(crate) takes_over_from_beat: bool,
    /// Waiters go before newcomers.
    pub(crate) keeps_turns: bool,
    /// A lease without a live waiter is free after its hand-off.
    pub(crate) frees: bool,
    /// A waiter that leaves the queue hands off a lease to which it was promoted.
    pub(crate) leaver_hands_on: bool,
    /// A repeated attempt keeps its entry's position.
    pub(crate) keeps_places: bool,
    /// The first waiter is promoted.
    pub(crate) promotes_first: bool,
    /// A tombstone has no holder.
    pub(crate) tombstones_are_nobodys: bool,
}

/// The commands with all protections.
pub(crate) const AS_BUILT: Build = Build {
    again: Write::Max,
    heartbeat: (Write::Max, Write::Max),
    promotes_from_beat: true,
    takes_over_from_beat: true,
    keeps_turns: true,
    frees: true,
    leaver_hands_on: true,
    keeps_places: true,
    promotes_first: true,
    tombstones_are_nobodys: true,
};

/// The answer to an acquire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Acquired {
    /// The lease is the caller's, by the grant with this identity.
    Granted(GrantId),
    /// It is not.
    Refused {
        /// How many waiters are before the caller, if it is in the queue.
        ahead: Option<usize>,
        /// How long the lease still has a holder.
        remaining: Option<i64>,
    },
}

impl Document {
    /// The document with which an upsert begins.
    fn empty() -> Document {
        let queue = Queue::Absent;
        Document { value: None, expiry: Expiry::Absent, grant: None, queue, promoted: None }
    }

    /// The identity of the grant, where the grant belongs to the holder.
    pub(crate) fn holders_grant(&self) -> Option<GrantId> {
        self.grant.filter(|grant| self.value == Some(grant.value)).map(|grant| grant.id)
    }

    fn is_free(&self, ask: &AcquireRequest, now: i64) -> bool {
        match self.expiry {
            Expiry::Absent => true,
            Expiry::At(at) => at <= now || self.is_of(ask),
            Expiry::Damaged => false,
        }
    }

    /// Whether the holder is the caller, or the call whose entry the caller takes over.
    fn is_of(&self, ask: &AcquireRequest) -> bool {
        self.value.is_some_and(|value| ask.owns(value))
    }

    fn is(&self, key: Key) -> bool {
        self.value == Some(key.value) && self.grant.is_some_and(|grant| grant.id == key.id)
    }

    /// The document with its expiry prolonged by the ttl in its grant.
    fn prolonged(mut self, now: i64, sent: i64, write: Write) -> Document {
        if let Some(grant) = &mut self.grant {
            let until = now + grant.ttl + grant.max_clock_skew;
            self.expiry = match write {
                Write::Max => later(self.expiry, until),
                Write::Plain => Expiry::At(until),
            };
            grant.sent = sent;
            grant.writes += 1;
        }
        self
    }

    fn writes(&self) -> i64 {
        self.grant.map_or(0, |grant| grant.writes)
    }
}

impl AcquireRequest {
    /// Whether a queue entry with this value is the caller's.
    fn owns(&self, value: Value) -> bool {
        value == self.value || Some(value) == self.predecessor
    }
}

/// `$max`: a date sorts behind an absent value, and behind the damage that is modelled here.
fn later(expiry: Expiry, until: i64) -> Expiry {
    match expiry {
        Expiry::Absent | Expiry::Damaged => Expiry::At(until),
        Expiry::At(at) => Expiry::At(at.max(until)),
    }
}

/// Grants a free lease that no earlier waiter wants; else adds a caller that waits to the queue.
pub(crate) fn acquire(
    found: Option<Document>,
    ask: &AcquireRequest,
    now: i64,
    build: &Build,
) -> (Option<Document>, Acquired) {
    // The upsert makes an empty document, and the pipeline finds it.
    let before = found.unwrap_or_else(Document::empty);
    let line = queue::line(&before, ask, now);
    let is_turn = line.first().is_none_or(|first| ask.owns(first.value)) || !build.keeps_turns;
    if before.is_free(ask, now) && (before.is_of(ask) || is_turn) {
        let (after, id) = granted(before, ask, now, &line, build);
        return (Some(after), Acquired::Granted(id));
    }
    let remaining = match before.expiry {
        Expiry::At(at) => Some((at - now).max(0)),
        Expiry::Absent | Expiry::Damaged => None,
    };
    let after = queue::joined(before, ask, now, line, build);
    let ahead = ask.joins.and_then(|_| after.queue.place(ask.value));
    (Some(after), Acquired::Refused { ahead, remaining })
}

fn granted(
    before: Document,
    ask: &AcquireRequest,
    now: i64,
    line: &[Entry],
    build: &Build,
) -> (Document, GrantId) {
    let old = line.iter().find(|entry| ask.owns(entry.value));
    let newer = old.filter(|old| old.heartbeat_at > now);
    let from = newer.filter(|_| build.takes_over_from_beat).map_or(now, |old| old.heartbeat_at);
    let sent = newer.map_or(ask.sent, |old| old.sent);
    let until = from + ask.ttl + ask.max_clock_skew;
    let is_mine = before.value == Some(ask.value);
    let expiry = match build.again {
        Write::Max if is_mine => later(before.expiry, until),
        Write::Max | Write::Plain => Expiry::At(until),
    };
    let writes = before.writes() + 1;
    let grant = match before.grant.filter(|grant| is_mine && grant.value == ask.value) {
        Some(mine) => Grant {
            sent,
            ttl: mine.ttl.max(ask.ttl),
            max_clock_skew: mine.max_clock_skew.max(ask.max_clock_skew),
            writes,
            ..mine
        },
        None => Grant {
            value: ask.value,
            id: ask.id,
            sent,
            acquired_at: now,
            ttl: ask.ttl,
            max_clock_skew: ask.max_clock_skew,
            writes,
        },
    };
    let others = line.iter().filter(|entry| !ask.owns(entry.value)).copied();
    // A value that is no list counts as no queue, and stays where it is.
    let queue = match before.queue {
        Queue::Damaged => Queue::Damaged,
        Queue::Absent | Queue::List(_) => Queue::of(others),
    };
    let value = Some(ask.value);
    (Document { value, expiry, grant: Some(grant), queue, ..before }, grant.id)
}

/// Inserts a document with a grant where there is none. Else it does nothing, and does not say who holds.
pub(crate) fn insert(
    found: Option<Document>,
    ask: &AcquireRequest,
    now: i64,
    build: &Build,
) -> (Option<Document>, Option<Acquired>) {
    match found {
        None => {
            let (after, answer) = acquire(None, ask, now, build);
            (after, Some(answer))
        }
        found => (found, None),
    }
}

/// Prolongs one grant, and says whether it was there.
pub(crate) fn renew(
    found: Option<Document>,
    key: Key,
    now: i64,
    sent: i64,
    write: Write,
) -> (Option<Document>, bool) {
    match found {
        Some(document) if document.is(key) && matches!(document.expiry, Expiry::At(_)) => {
            (Some(document.prolonged(now, sent, write)), true)
        }
        found => (found, false),
    }
}

/// The document that a transaction with a guard will commit. `None` when the lease is not the caller's.
pub(crate) fn guard(found: Option<Document>, key: Key, now: i64, sent: i64) -> Option<Document> {
    let (after, is_there) = renew(found, key, now, sent, Write::Max);
    after.filter(|_| is_there)
}

/// Resumes a grant that has not expired, under a fresh id: then the key is used up. A grant that was resumed under that
/// id already is found again.
pub(crate) fn resume(
    found: Option<Document>,
    key: Key,
    fresh: GrantId,
    now: i64,
    sent: i64,
) -> (Option<Document>, bool) {
    let resumed = Key { id: fresh, ..key };
    match found {
        Some(document)
            if matches!(document.expiry, Expiry::At(at) if at > now)
                && (document.is(key) || document.is(resumed)) =>
        {
            let mut document = document.prolonged(now, sent, Write::Max);
            document.grant = document.grant.map(|grant| Grant { id: fresh, ..grant });
            (Some(document), true)
        }
        found => (found, false),
    }
}
