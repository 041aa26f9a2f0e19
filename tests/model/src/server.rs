//! What the server does to the document of one lease, as pure functions: the pipelines of the library's commands.
//!
//! It needs nothing but `std`. The model checker explores it, and the library's own tests compare it with a real
//! server (`src/commands/tests/agreement.rs`), so that the model is about the commands that are sent.
//!
//! Values are small numbers, and times are numbers without a unit. `now` is `$$NOW`, which the server takes when a
//! command arrives: it may be older than the document that the command finds when it writes.

/// A holder's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Value(pub(crate) u8);

/// The value of a lease that was ended and whose name is kept for a while.
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
    /// Something of another type, which nobody may take for a time. As a text it sorts before every date.
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
    pub(crate) allowance: i64,
    pub(crate) writes: i64,
}

/// The document of one lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Document {
    pub(crate) value: Option<Value>,
    pub(crate) expiry: Expiry,
    pub(crate) grant: Option<Grant>,
}

/// What one attempt of an acquire call asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Ask {
    pub(crate) value: Value,
    pub(crate) id: GrantId,
    pub(crate) ttl: i64,
    pub(crate) allowance: i64,
    pub(crate) sent: i64,
}

/// One grant, as renewals and guards name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Key {
    pub(crate) value: Value,
    pub(crate) id: GrantId,
}

/// Which of a value's grants a release means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Which {
    /// Whatever it is.
    Any,
    /// This one.
    Grant(GrantId),
    /// Any of this call's, but for the one that its caller took.
    Call(u8, Option<GrantId>),
}

/// How an expiry is written. The commands use [`Write::Max`]; the other one is what must be found to be wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Write {
    /// It only ever rises.
    Max,
    /// It is overwritten.
    Plain,
}

/// What an acquire was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Acquired {
    /// The lease is the caller's, by the grant with this identity.
    Granted(GrantId),
    /// It is not.
    Refused,
}

impl Document {
    /// The identity of the grant, where the grant speaks of the holder.
    pub(crate) fn holders_grant(&self) -> Option<GrantId> {
        self.grant.filter(|grant| self.value == Some(grant.value)).map(|grant| grant.id)
    }

    fn is_free(&self, asks: Value, now: i64) -> bool {
        match self.expiry {
            Expiry::Absent => true,
            Expiry::At(at) => at <= now || self.value == Some(asks),
            Expiry::Damaged => false,
        }
    }

    fn is(&self, key: Key) -> bool {
        self.value == Some(key.value) && self.grant.is_some_and(|grant| grant.id == key.id)
    }

    /// The document with its expiry moved on by what stands in its grant.
    fn prolonged(mut self, now: i64, sent: i64, write: Write) -> Document {
        if let Some(grant) = &mut self.grant {
            let until = now + grant.ttl + grant.allowance;
            self.expiry = match write {
                Write::Max => later(self.expiry, until),
                Write::Plain => Expiry::At(until),
            };
            grant.sent = sent;
            grant.writes += 1;
        }
        self
    }
}

/// `$max`: a date sorts behind what is absent, and behind the damage that is modelled here.
fn later(expiry: Expiry, until: i64) -> Expiry {
    match expiry {
        Expiry::Absent | Expiry::Damaged => Expiry::At(until),
        Expiry::At(at) => Expiry::At(at.max(until)),
    }
}

/// Grants the lease if it is free. `again` is how the expiry of what is the caller's already is written.
pub(crate) fn acquire(
    found: Option<Document>,
    ask: &Ask,
    now: i64,
    again: Write,
) -> (Option<Document>, Acquired) {
    // The upsert makes an empty document, and the pipeline finds it.
    let before = found.unwrap_or(Document { value: None, expiry: Expiry::Absent, grant: None });
    if !before.is_free(ask.value, now) {
        return (found, Acquired::Refused);
    }
    let until = now + ask.ttl + ask.allowance;
    let is_mine = before.value == Some(ask.value);
    let expiry = match again {
        Write::Max if is_mine => later(before.expiry, until),
        Write::Max | Write::Plain => Expiry::At(until),
    };
    let writes = before.grant.map_or(0, |grant| grant.writes) + 1;
    let grant = match before.grant.filter(|grant| is_mine && grant.value == ask.value) {
        Some(mine) => Grant {
            sent: ask.sent,
            ttl: mine.ttl.max(ask.ttl),
            allowance: mine.allowance.max(ask.allowance),
            writes,
            ..mine
        },
        None => Grant {
            value: ask.value,
            id: ask.id,
            sent: ask.sent,
            acquired_at: now,
            ttl: ask.ttl,
            allowance: ask.allowance,
            writes,
        },
    };
    let after = Document { value: Some(ask.value), expiry, grant: Some(grant) };
    (Some(after), Acquired::Granted(grant.id))
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
        Some(_) | None => (found, false),
    }
}

/// What a transaction that begins with a guard will commit; nothing when the lease is not the caller's.
pub(crate) fn guard(found: Option<Document>, key: Key, now: i64, sent: i64) -> Option<Document> {
    let (after, is_there) = renew(found, key, now, sent, Write::Max);
    after.filter(|_| is_there)
}

/// Takes up a grant that has not run out.
pub(crate) fn resume(
    found: Option<Document>,
    key: Key,
    now: i64,
    sent: i64,
) -> (Option<Document>, bool) {
    match found {
        Some(document) if matches!(document.expiry, Expiry::At(at) if at > now) => {
            renew(found, key, now, sent, Write::Max)
        }
        Some(_) | None => (found, false),
    }
}

/// Deletes the document where its holder is the one who is meant, and says whether it did.
pub(crate) fn release(
    found: Option<Document>,
    value: Value,
    which: Which,
) -> (Option<Document>, bool) {
    match found {
        Some(document) if is_meant(&document, value, which) => (None, true),
        Some(_) | None => (found, false),
    }
}

/// Ends a lease, and keeps its name until it has been held for so long; says whether it was there.
pub(crate) fn release_later(
    found: Option<Document>,
    value: Value,
    which: Which,
    hold_at_least: i64,
) -> (Option<Document>, bool) {
    match found {
        Some(mut document) if is_meant(&document, value, which) => {
            document.value = Some(NOBODY);
            if let Some(grant) = &mut document.grant {
                grant.value = NOBODY;
                document.expiry = Expiry::At(grant.acquired_at + hold_at_least);
            }
            (Some(document), true)
        }
        Some(_) | None => (found, false),
    }
}

fn is_meant(document: &Document, value: Value, which: Which) -> bool {
    let id = document.grant.map(|grant| grant.id);
    let is_the_grant = match which {
        Which::Any => true,
        Which::Grant(meant) => id == Some(meant),
        Which::Call(call, except) => id.is_some_and(|id| id.call == call) && id != except,
    };
    document.value == Some(value) && is_the_grant
}

/// What the TTL monitor leaves of it when it looks.
pub(crate) fn ttl_delete(found: Option<Document>, now: i64) -> Option<Document> {
    found.filter(|document| !matches!(document.expiry, Expiry::At(at) if at <= now))
}

/// A program with the usual recipe takes what has run out: it writes `value` and `expiresAt`, and nothing else.
pub(crate) fn foreign_take(
    found: Option<Document>,
    value: Value,
    now: i64,
    ttl: i64,
) -> (Option<Document>, bool) {
    let before = found.unwrap_or(Document { value: None, expiry: Expiry::Absent, grant: None });
    let is_free = match before.expiry {
        Expiry::Absent => true,
        Expiry::At(at) => at <= now,
        Expiry::Damaged => false,
    };
    match is_free {
        true => {
            (Some(Document { value: Some(value), expiry: Expiry::At(now + ttl), ..before }), true)
        }
        false => (found, false),
    }
}
