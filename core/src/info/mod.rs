//! The state of a lease, as its document shows it.

mod metadata;
pub mod text;

use std::fmt;
use std::time::Duration;

use crate::bson::{DateTime as BsonDate, Document};
use crate::format;
use crate::rules::ids::{GrantId, ManagerId};
use crate::rules::permits::LIMIT_MAX;
use crate::rules::time::{from_millis, millis_up};
use crate::rules::tombstone::is_tombstone;
use chrono::{DateTime, SecondsFormat, Utc};
use serde::{Serialize, Serializer};
use text::printable;

pub use metadata::{MetadataError, to_document};

/// A lease as its document shows it: its holder, its start and its remaining time.
///
/// It is a snapshot: the lease may already have been released, renewed, or granted to another holder. A document of
/// another program has a name, a value and an expiry; the other fields are then `None` or empty.
///
/// A [lease that several hold](LeaseInfo::shared) has no single holder: `value`, `owner`, `acquired_at` are `None`, and
/// `metadata` is empty. [`holders`](LeaseInfo::holders) has them for each holder.
///
/// # Serialization
///
/// As JSON it has the keys of `mongo-lease ls --json`, each always present, and null if unknown; and then `waiting`,
/// `held_here`, `shared` and `holders`. `state` is a word; dates are RFC 3339 in UTC, with a sign before a year after
/// 9999; `remaining_ms` is in whole milliseconds, rounded down; `metadata` is as BSON serializes it. `value` is among
/// them, also in each of `holders`: anybody who knows it can release the lease, so take it out before you show the JSON
/// to others.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct LeaseInfo {
    /// The lease's name.
    pub name: String,
    /// Whether the lease is held.
    pub state: LeaseState,
    /// The holder, as `label@host:pid`. `None` if another program holds the lease.
    pub owner: Option<String>,
    /// The holder's value. `None` if the document has none, or one that is not a string.
    pub value: Option<String>,
    /// When the lease was granted, by the server's clock. `None` if another program holds it.
    #[serde(serialize_with = "as_rfc_3339")]
    pub acquired_at: Option<DateTime<Utc>>,
    /// When the lease runs out unless it is renewed, by the server's clock. `None` if the document has no date there.
    /// Of a lease that several hold, the latest of its holders' expiries.
    #[serde(serialize_with = "as_rfc_3339")]
    pub expires_at: Option<DateTime<Utc>>,
    /// The time from the server's reply to the expiry; zero if that has passed. `None` without a date.
    ///
    /// In the refusal of a call for permits, it is the time until the first holder's expiry.
    #[serde(rename = "remaining_ms", serialize_with = "as_known_millis")]
    pub remaining: Option<Duration>,
    /// The metadata that the holder attached, as they are stored. Empty if another program holds the lease.
    pub metadata: Document,
    /// How many permits are in use: 1 while one holder has the whole lease, and 0 while it is free.
    ///
    /// `None` if it is unknown: in the refusal of an exclusive call by several holders; for a damaged lease; and
    /// where the list of holders is corrupt. Nobody is admitted beside a corrupt list: the lease is free at
    /// `expires_at`.
    pub in_use: Option<u32>,
    /// The most permits that may be in use: the smallest limit of the holders, and 1 while one has the whole lease.
    /// `None` while nobody holds the lease, and where `in_use` is `None`.
    pub limit: Option<u32>,
    /// How many entries the queue has: one for each manager that waits, and up to 16 for one with calls for permits.
    /// Those of a process that has died count for up to 10 s more.
    pub waiting: u32,
    /// Whether this very process holds the lease: a manager that it has made was granted it. Two containers with one
    /// host name and one process id are two processes, and so is a forked child.
    pub held_here: bool,
    /// Whether the lease is held by several at once, by permits of a semaphore or as readers.
    pub shared: bool,
    /// The holders of a lease that several hold, in the order in which they were admitted.
    ///
    /// `LeaseManager::get` and `LeaseManager::list` read them. In errors the list is empty.
    pub holders: Vec<LeaseHolder>,
    /// The id of the holder's grant. `None` if another program holds the lease.
    #[doc(hidden)]
    #[serde(skip)]
    pub grant_id: Option<GrantId>,
}

/// One holder of a [lease that several hold](LeaseInfo::shared), with its permits.
///
/// # Serialization
///
/// As JSON it has one key for each field, each always present, in the forms of [`LeaseInfo`], with `remaining_ms` for
/// the remaining time. `value` is among them: take it out before you show the JSON to others.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct LeaseHolder {
    /// The holder, as `label@host:pid`. `None` if its record has none.
    pub owner: Option<String>,
    /// The holder's value. Its permits can be released with it.
    pub value: String,
    /// How many permits it has: 1 for a shared lease.
    pub permits: u32,
    /// The most permits that may be in use while it holds: 1,000 for a shared lease.
    pub limit: u32,
    /// When it was admitted, by the server's clock.
    #[serde(serialize_with = "as_rfc_3339")]
    pub acquired_at: Option<DateTime<Utc>>,
    /// When its permits become free unless it renews them, by the server's clock.
    #[serde(serialize_with = "as_rfc_3339")]
    pub expires_at: Option<DateTime<Utc>>,
    /// The time from the server's reply to that expiry.
    #[serde(rename = "remaining_ms", serialize_with = "as_millis")]
    pub remaining: Duration,
    /// The metadata that the holder attached, as they are stored.
    pub metadata: Document,
    /// Whether this very process is the holder, as of a [lease](LeaseInfo::held_here).
    pub held_here: bool,
    /// The id of its grant.
    #[doc(hidden)]
    #[serde(skip)]
    pub grant_id: Option<GrantId>,
}

/// Whether a lease is held. Serialized as a word: `held`, `free` or `damaged`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LeaseState {
    /// The lease is held.
    Held,
    /// The lease has expired, or its document has no expiry. The next attempt gets it.
    Free,
    /// Its `expiresAt` is neither a date nor missing. The lease counts as held, by an unknown holder, until a person
    /// repairs the document.
    Damaged {
        /// The BSON type found there, as the server names it; `unknown` where nothing shows it.
        found: String,
    },
}

impl LeaseHolder {
    /// A holder without what its grant shows. The dates are milliseconds of the server's clock.
    #[doc(hidden)]
    pub fn without_grant(
        value: String,
        permits: u32,
        limit: u32,
        expires_at: i64,
        now: i64,
    ) -> LeaseHolder {
        LeaseHolder {
            value,
            owner: None,
            permits,
            limit,
            acquired_at: None,
            expires_at: DateTime::from_timestamp_millis(expires_at),
            remaining: from_millis(expires_at.saturating_sub(now)),
            metadata: Document::new(),
            held_here: false,
            grant_id: None,
        }
    }
}

impl LeaseInfo {
    /// A lease without what its grant, its queue and its holders show. The dates are milliseconds of the server's
    /// clock.
    #[doc(hidden)]
    pub fn without_grant(
        name: String,
        value: Option<String>,
        state: LeaseState,
        expires_at: Option<i64>,
        now: Option<i64>,
    ) -> LeaseInfo {
        let is_held = state != LeaseState::Free;
        let shared = is_held && value.as_deref().is_some_and(LeaseInfo::is_shared_value);
        let (in_use, limit) = match &state {
            LeaseState::Held if !shared => (Some(1), Some(1)),
            LeaseState::Free => (Some(0), None),
            LeaseState::Held | LeaseState::Damaged { .. } => (None, None),
        };
        LeaseInfo {
            name,
            value,
            state,
            owner: None,
            acquired_at: None,
            expires_at: expires_at.and_then(DateTime::from_timestamp_millis),
            // Dates may be so far apart that the difference overflows.
            remaining: expires_at.zip(now).map(|(at, now)| from_millis(at.saturating_sub(now))),
            metadata: Document::new(),
            in_use,
            limit,
            waiting: 0,
            held_here: false,
            shared,
            holders: Vec::new(),
            grant_id: None,
        }
    }

    /// Whether the lease was held when the server answered. A damaged one counts as held.
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.state != LeaseState::Free
    }

    /// Whether this `value` marks a document that has outlived its holder.
    ///
    /// A release with `hold_at_least` keeps the name reserved for a while, and one with `tombstones` leaves the
    /// document to the TTL monitor. Such a value begins with `released:`, and no holder has one.
    #[must_use]
    pub fn is_tombstone_value(value: &str) -> bool {
        is_tombstone(value)
    }

    /// Whether this `value` marks a document that several hold at once: it is no holder's.
    ///
    /// [`value`](LeaseInfo::value) is then `None`. It is for programs that read the documents, or their change stream,
    /// themselves.
    #[must_use]
    pub fn is_shared_value(value: &str) -> bool {
        value == format::SHARED_VALUE
    }

    /// Makes it ready for users: sets `held_here`, and takes away `mongo-lease/shared`, which is no holder's.
    /// `manager` is one of this process.
    #[doc(hidden)]
    pub fn recognize(&mut self, manager: &ManagerId) {
        self.value.take_if(|value| LeaseInfo::is_shared_value(value));
        // By the grant: the value may be the caller's own, or that of a lease that another process has resumed.
        let is_ours = |grant_id: Option<&GrantId>| {
            grant_id.is_some_and(|id| manager.has_process_made(id.as_str()))
        };
        for holder in &mut self.holders {
            holder.held_here = is_ours(holder.grant_id.as_ref());
        }
        let is_held_here =
            is_ours(self.grant_id.as_ref()) || self.holders.iter().any(|holder| holder.held_here);
        self.held_here = self.is_held() && is_held_here;
    }

    /// Sets the permits in use and the limit, by the permits and the limit of each holder: unknown, where they are
    /// numbers that no call can ask for.
    #[doc(hidden)]
    pub fn count_permits(&mut self, holders: impl IntoIterator<Item = (u32, u32)>) {
        let (mut in_use, mut limit) = (0_u32, u32::MAX);
        for (permits, own_limit) in holders {
            in_use = in_use.saturating_add(permits);
            limit = limit.min(own_limit);
        }
        let are_valid = [limit, in_use].iter().all(|it| (1..=LIMIT_MAX).contains(it));
        self.in_use = are_valid.then_some(in_use);
        self.limit = are_valid.then_some(limit);
    }

    /// The limit of a lease that several hold, where it is smaller than that of a call: two programs disagree, unless a
    /// deployment is going on.
    #[doc(hidden)]
    pub fn limit_below(&self, of_call: u32) -> Option<u32> {
        self.limit.filter(|limit| self.shared && *limit < of_call)
    }

    /// Sets the holders of a lease that several hold, with what follows from them. No holder: the list is corrupt.
    #[doc(hidden)]
    pub fn set_holders(&mut self, holders: Vec<LeaseHolder>) {
        self.count_permits(holders.iter().map(|holder| (holder.permits, holder.limit)));
        self.holders = holders;
    }
}

impl Serialize for LeaseState {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(match self {
            LeaseState::Held => "held",
            LeaseState::Free => "free",
            LeaseState::Damaged { .. } => "damaged",
        })
    }
}

fn whole_millis(duration: &Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// For `#[serde(serialize_with)]`: whole milliseconds, rounded down.
pub fn as_millis<S: Serializer>(duration: &Duration, to: S) -> Result<S::Ok, S::Error> {
    whole_millis(duration).serialize(to)
}

/// The same where it may be unknown.
#[doc(hidden)]
pub fn as_known_millis<S: Serializer>(known: &Option<Duration>, to: S) -> Result<S::Ok, S::Error> {
    known.as_ref().map(whole_millis).serialize(to)
}

/// The date in UTC with a `Z`, as the command line prints it. A year after 9999 has five digits and a sign.
fn as_rfc_3339<S: Serializer>(date: &Option<DateTime<Utc>>, to: S) -> Result<S::Ok, S::Error> {
    let text = |date: &DateTime<Utc>| {
        let short = BsonDate::from_millis(date.timestamp_millis()).try_to_rfc3339_string();
        short.unwrap_or_else(|_| date.to_rfc3339_opts(SecondsFormat::AutoSi, true))
    };
    date.as_ref().map(text).serialize(to)
}

impl fmt::Display for LeaseInfo {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "lease {:?} ", self.name)?;
        match &self.state {
            LeaseState::Free if self.waiting > 0 => {
                return write!(formatter, "is free, with {} in the queue", self.waiting);
            }
            LeaseState::Free => return formatter.write_str("is free"),
            LeaseState::Damaged { found } => {
                return write!(formatter, "is damaged: its expiresAt is of type {found}");
            }
            LeaseState::Held if self.shared => match self.in_use.zip(self.limit) {
                Some((in_use, limit)) => {
                    write!(formatter, "has {in_use} of {limit} permits in use")?;
                    let first = self.holders.iter().map(|holder| holder.remaining).min();
                    return match first.or(self.remaining) {
                        Some(first) => {
                            write!(formatter, "; the first expires in {}", seconds(first))
                        }
                        None => Ok(()),
                    };
                }
                None => formatter.write_str("is held by several")?,
            },
            LeaseState::Held if self.value.as_deref().is_some_and(is_tombstone) => {
                formatter.write_str("is released, but its name stays reserved")?;
            }
            LeaseState::Held => match &self.owner {
                Some(owner) => write!(formatter, "is held by {}", printable(owner))?,
                None => formatter.write_str("is held by another program")?,
            },
        }
        match self.remaining {
            Some(remaining) => write!(formatter, " for {} more", human(remaining)),
            None => Ok(()),
        }
    }
}

/// A time below a minute in seconds with one decimal, a longer one in whole seconds. Rounded up.
fn seconds(duration: Duration) -> String {
    let tenths = duration.as_millis().div_ceil(100);
    match u64::try_from(tenths).unwrap_or(u64::MAX) {
        tenths @ 0..600 => format!("{}.{} s", tenths / 10, tenths % 10),
        tenths => human(Duration::from_secs(tenths.div_ceil(10))),
    }
}

const DAY: Duration = Duration::from_secs(24 * 3600);

/// The duration in whole milliseconds, rounded up: `366days`, `1s 667ms`. Months and years have no fixed length, so a
/// long duration is given in days.
pub fn human(duration: Duration) -> String {
    let whole = from_millis(millis_up(duration));
    let days = whole.as_secs() / DAY.as_secs();
    let rest = whole - DAY * u32::try_from(days).unwrap_or(u32::MAX);
    let rest_of_day = || humantime::format_duration(rest);
    match (days, rest.is_zero()) {
        (0, _) => rest_of_day().to_string(),
        (1, true) => "1day".to_owned(),
        (1, false) => format!("1day {}", rest_of_day()),
        (days, true) => format!("{days}days"),
        (days, false) => format!("{days}days {}", rest_of_day()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_told_in_days_and_whole_milliseconds() {
        for (duration, text) in [
            (Duration::ZERO, "0s"),
            (Duration::from_nanos(1), "1ms"),
            (Duration::from_nanos(1_666_666_666), "1s 667ms"),
            (Duration::from_secs(90), "1m 30s"),
            (DAY, "1day"),
            (DAY * 366, "366days"),
            (DAY * 31 + Duration::from_secs(3600), "31days 1h"),
        ] {
            assert_eq!(human(duration), text);
        }
        assert!(human(Duration::MAX).ends_with("807ms"), "{}", human(Duration::MAX));
    }
}
