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
    /// A command that was sent at this moment made this grant, or answered that its call has it.
    Made {
        /// The grant.
        key: GrantKey,
        /// When the command was sent. The echo has to be this one: a promotion has a newer one, and a shorter time.
        sent: Instant,
        /// When the server made the grant, as the reply shows it. After a failover a late copy of the command may have
        /// made it once more, later than its token. `None` where the reply does not show documents.
        acquired_at: Option<DateTime<Utc>>,
    },
    /// A command that was sent at this moment, or a later one, prolonged this grant.
    Prolonged(GrantKey, Instant),
    /// These grants have ended.
    End(ReleaseTarget),
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
    /// For a reply that relies on this grant alone. One whose time of origin is not known may be another one of this
    /// id.
    pub(crate) fn on_grant(
        key: GrantKey,
        sent: Instant,
        acquired_at: Option<DateTime<Utc>>,
    ) -> Reliance {
        match acquired_at {
            Some(_) => Reliance::Writes(vec![Trace::Made { key, sent, acquired_at }]),
            None => Reliance::Untraceable,
        }
    }

    /// For a reply that relies on the end of these grants.
    pub(crate) fn on_ends(targets: &[ReleaseTarget]) -> Reliance {
        Reliance::Writes(targets.iter().cloned().map(Trace::End).collect())
    }

    /// Whether a failover could undo anything that counts.
    pub fn is_any(&self) -> bool {
        *self != Reliance::Nothing
    }
}

impl Trace {
    /// The lease that it is about, and the value of its holder.
    pub fn name_and_value(&self) -> (&str, &str) {
        match self {
            Trace::Made { key, .. } | Trace::Prolonged(key, _) => (key.name(), key.value()),
            Trace::End(target) => (&target.name, &target.value),
        }
    }

    /// Whether the document of this lease, as a majority read has shown it by `now`, is as the write has left it.
    ///
    /// The echo of a renewal may be newer: a later one only prolonged the same grant. One from the future is no echo of
    /// ours.
    pub fn is_shown(&self, found: Option<&SharedSnapshot>, now: Instant) -> bool {
        let Some(found) = found else { return matches!(self, Trace::End(_)) };
        match self {
            Trace::Made { key, sent, acquired_at } => {
                found.grant_of(key).is_some_and(|(shown, made_at)| {
                    let is_same = acquired_at.is_none_or(|it| made_at == Some(it));
                    shown == Some(echo(*sent)) && is_same
                })
            }
            Trace::Prolonged(key, sent) => {
                let shown = found.grant_of(key).and_then(|(shown, _)| shown);
                shown.is_some_and(|it| (echo(*sent)..=echo(now)).contains(&it))
            }
            Trace::End(target) => {
                let is_it = |holder: &SeenHolder| {
                    holder.value.as_ref() == Some(&target.value)
                        && target.grant.has(holder.id.as_ref())
                };
                !target.is(&found.lease) && !found.holders.iter().any(is_it)
            }
        }
    }
}

/// Whether a majority read that has found these documents by `now` shows all of these writes.
pub fn are_shown(traces: &[Trace], found: &[SharedSnapshot], now: Instant) -> bool {
    let seen = |name: &str| found.iter().find(|found| found.lease.info.name == name);
    traces.iter().all(|trace| trace.is_shown(seen(trace.name_and_value().0), now))
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

/// Reads these holders of leases as a majority has them, as soon as it has all writes up to a time.
#[derive(Clone, Debug)]
pub struct FindWritten {
    /// The leases, each with the values of the holders.
    pub holders: BTreeMap<String, BTreeSet<String>>,
    /// The time.
    pub after: Timestamp,
}

/// The leases that a majority has.
#[derive(Clone, Debug, PartialEq)]
pub struct Written {
    /// Those that were looked for.
    pub found: Vec<SharedSnapshot>,
    /// A majority has all writes up to this time, and a later read shows them without a wait. The leases may be older.
    pub until: Option<Timestamp>,
}

impl Command for FindWritten {
    type Reply = Written;
    const LANE: Lane = Lane::Critical;

    fn build(&self, collection: &str, _sent: Instant) -> Document {
        let names = self.holders.keys().map(String::as_str);
        let values: BTreeSet<&str> = self.holders.values().flatten().map(String::as_str).collect();
        // A refusal tells its caller how many wait.
        let projection = snapshot::projection();
        let mut command = find_holders(collection, names, (holder::VALUE, values), projection);
        command.insert("readConcern", with(majority_read(), "afterClusterTime", self.after));
        command
    }

    fn needs_majority_read(&self) -> bool {
        true
    }

    fn sees_all_until(&self) -> Option<Timestamp> {
        Some(self.after)
    }

    fn decode(&self, reply: &Document, _sent: Instant) -> Result<Written, DecodeError> {
        let found = documents(reply)?.map(read_with_own_holders).collect();
        Ok(Written { found, until: reply::token(reply).ok() })
    }
}
