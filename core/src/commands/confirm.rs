//! Writes that the primary has carried out, and that no majority has yet: what their replies mean, and the read that
//! confirms them.
//!
//! A write whose majority is late is answered with its whole result and a write concern error. So it was applied on
//! that primary, and a failover may undo it. It is not sent again. A majority read from the time of the write on is
//! answered when a majority has come so far, and shows whether the write is still there: by the id of the grant and by
//! the echo, for the id alone may be that of an earlier write. Nobody believes in a grant before that.

use chrono::{DateTime, Utc};

use super::find::{documents, find_holders, read_with_own_holders};
use super::*;
use crate::rules::outcome::Applied;

/// The writes that somebody relies on after a reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reliance {
    /// Nothing that a failover could undo. So the reply counts as soon as the command is applied: a refusal, a place in
    /// the queue, a heartbeat, and a write that matched nothing.
    Nothing,
    /// These writes have to last.
    Writes(Vec<Trace>),
    /// A write that no read can show: it counts as maybe applied.
    Untraceable,
}

/// The mark of a write that a read shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trace {
    /// This grant was made or prolonged by a command that was sent at this moment. Where the reply shows when the server
    /// made it, the read has to show the same: after a failover a late copy of the command may have made it once more,
    /// and the token of the first time is older than that grant.
    Grant { key: GrantKey, sent: Instant, acquired_at: Option<DateTime<Utc>> },
    /// This grant has ended.
    End(GrantKey),
}

/// A write that no majority has yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unconfirmed {
    /// The time of the write, or of a later one: a read that confirms it has to see everything up to here.
    pub at: Timestamp,
    /// Why it was not confirmed in time, in the server's words.
    pub message: String,
}

/// Decodes a reply that says "ok". Where nobody [relies](Command::relies_on) on an unconfirmed one, it counts all the
/// same.
///
/// # Errors
///
/// As [`Command::decode`]; and if the write is not confirmed, and the reply does not say when it happened.
pub fn applied<C: Command>(
    command: &C,
    reply: &Document,
    sent: Instant,
) -> Result<Applied<C::Reply, Unconfirmed>, DecodeError> {
    let decoded = command.decode(reply, sent)?;
    let Some((message, _)) = write_concern_error(reply) else {
        return Ok(Applied::Confirmed(decoded));
    };
    match reply::token(reply) {
        Ok(at) => Ok(Applied::Unconfirmed(decoded, Unconfirmed { at, message })),
        Err(_) if command.relies_on(&decoded).is_any() => Err(DecodeError::Reply(message)),
        Err(_) => Ok(Applied::Confirmed(decoded)),
    }
}

impl Reliance {
    /// For a reply that relies on this grant alone.
    pub(crate) fn on_grant(
        key: GrantKey,
        sent: Instant,
        acquired_at: Option<DateTime<Utc>>,
    ) -> Reliance {
        Reliance::Writes(vec![Trace::Grant { key, sent, acquired_at }])
    }

    /// For a reply that relies on the end of these grants. Some of them may be known by their call alone.
    pub fn on_ends<'a>(targets: impl IntoIterator<Item = &'a ReleaseTarget>) -> Reliance {
        let ends = targets.into_iter().map(|it| it.key().map(Trace::End));
        ends.collect::<Option<_>>().map_or(Reliance::Untraceable, Reliance::Writes)
    }

    /// Whether a failover could undo anything that counts.
    pub fn is_any(&self) -> bool {
        *self != Reliance::Nothing
    }
}

impl Trace {
    /// The grant that it is about.
    pub fn key(&self) -> &GrantKey {
        let (Trace::Grant { key, .. } | Trace::End(key)) = self;
        key
    }

    /// Whether the document of this lease, as a majority read has shown it by `now`, is as the write has left it.
    ///
    /// A newer echo is that of a later write to the same grant, which only prolonged it. One from the future is no echo
    /// of ours.
    pub fn is_shown(&self, found: Option<&SharedSnapshot>, now: Instant) -> bool {
        let shown = found.and_then(|found| found.grant_of(self.key()));
        match self {
            Trace::Grant { sent, acquired_at, .. } => shown.is_some_and(|(shown, made_at)| {
                let is_echo = shown.is_some_and(|it| (echo(*sent)..=echo(now)).contains(&it));
                is_echo && acquired_at.is_none_or(|it| made_at == Some(it))
            }),
            Trace::End(_) => shown.is_none(),
        }
    }
}

/// Whether a majority read that has found these documents by `now` shows all of these writes.
pub fn are_shown(traces: &[Trace], found: &[SharedSnapshot], now: Instant) -> bool {
    let seen = |name: &str| found.iter().find(|found| found.lease.info.name == name);
    traces.iter().all(|trace| trace.is_shown(seen(trace.key().name()), now))
}

impl SharedSnapshot {
    /// The echo that the document shows of this grant, and when the server made it; `None` if the grant is not there.
    fn grant_of(&self, key: &GrantKey) -> Option<(Option<i64>, Option<DateTime<Utc>>)> {
        let is_it = |value: Option<&str>, id: Option<&GrantId>| {
            (value, id.map(GrantId::as_str)) == (Some(key.value()), Some(key.grant_id()))
        };
        if is_it(self.lease.info.value.as_deref(), self.lease.info.grant_id.as_ref()) {
            return Some((self.lease.sent, self.lease.info.acquired_at));
        }
        let own = self.holders.iter().find(|it| is_it(it.value.as_deref(), it.id.as_ref()));
        own.map(|holder| (holder.sent, holder.acquired_at))
    }
}

/// Reads the leases of these grants as a majority has them, as soon as it has all writes up to a time.
#[derive(Clone, Debug)]
pub struct FindWritten {
    /// The grants.
    pub grants: Vec<GrantKey>,
    /// The time.
    pub after: Timestamp,
}

impl Command for FindWritten {
    type Reply = Vec<SharedSnapshot>;
    const LANE: Lane = Lane::Critical;

    fn build(&self, collection: &str, _sent: Instant) -> Document {
        let mut command = find_holders(collection, &self.grants);
        command.insert("readConcern", with(majority_read(), "afterClusterTime", self.after));
        command
    }

    fn needs_majority_read(&self) -> bool {
        true
    }

    fn sees_all_until(&self) -> Option<Timestamp> {
        Some(self.after)
    }

    fn decode(&self, reply: &Document, _sent: Instant) -> Result<Vec<SharedSnapshot>, DecodeError> {
        Ok(documents(reply)?.map(read_with_own_holders).collect())
    }
}
