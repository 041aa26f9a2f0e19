//! Options, with their defaults and checks.

use std::time::Duration;

use mongo_lease_core::format;
use mongo_lease_core::info::human;
use mongo_lease_core::rules::{
    LIMIT_MAX, Permits, PermitsDefect, Timing, TimingDefect, check_label, check_text, is_tombstone,
    timing, tombstone,
};
use mongo_lease_core::schema;
use mongodb::bson::{Bson, Document, RawDocumentBuf};

use crate::error::{Error, Result};

/// The maximum size of a lease's metadata, in bytes.
pub(crate) const METADATA_BYTES_MAX: usize = 4 * 1024;
/// The maximum for a call whose lease others may hold too: each write to the lease carries the metadata of all holders.
const SHARE_METADATA_BYTES_MAX: usize = 256;
/// The maximum nesting of metadata. The server's own limit is 100, for the whole command.
const METADATA_DEPTH_MAX: usize = 16;
/// The default maximum of concurrent commands of a manager. The driver's pool has 10 connections by default.
pub(crate) const MAX_IN_FLIGHT_DEFAULT: usize = 10;
/// The most names that are acquired together.
const NAMES_MAX: usize = 1_000;
/// The largest allowed value: more connections than any server has for one process.
const MAX_IN_FLIGHT_MAX: usize = 10_000;

/// The options of a manager, unchecked.
#[derive(Clone, Debug)]
pub(crate) struct ManagerOptions {
    pub(crate) collection: String,
    pub(crate) owner: String,
    pub(crate) ttl: Duration,
    pub(crate) max_clock_skew: Duration,
    pub(crate) wait: Duration,
    pub(crate) build_timeout: Duration,
    pub(crate) release_timeout: Duration,
    pub(crate) shutdown_timeout: Duration,
    pub(crate) ensure_indexes: bool,
    pub(crate) assume_indexes: bool,
    pub(crate) read_only: bool,
    pub(crate) tombstones: bool,
    pub(crate) tuning: Tuning,
}

impl Default for ManagerOptions {
    fn default() -> ManagerOptions {
        ManagerOptions {
            collection: schema::COLLECTION_DEFAULT.to_owned(),
            owner: "mongo-lease".to_owned(),
            ttl: timing::TTL_DEFAULT,
            max_clock_skew: timing::MAX_CLOCK_SKEW_DEFAULT,
            wait: timing::WAIT_DEFAULT,
            build_timeout: timing::BUILD_TIMEOUT_DEFAULT,
            release_timeout: timing::RELEASE_TIMEOUT_DEFAULT,
            shutdown_timeout: timing::SHUTDOWN_TIMEOUT_DEFAULT,
            ensure_indexes: false,
            assume_indexes: false,
            read_only: false,
            tombstones: false,
            tuning: Tuning::default(),
        }
    }
}

/// The times and bounds of a manager's commands and queues, which few services have to change.
///
/// # Examples
/// ```no_run
/// # async fn example(database: mongo_lease::mongodb::Database) -> mongo_lease::Result<()> {
/// use std::time::Duration;
/// use mongo_lease::{LeaseManager, Tuning};
///
/// let tuning = Tuning::default().max_in_flight(20).waiter_ttl(Duration::from_secs(5));
/// let leases = LeaseManager::builder(&database).tuning(tuning).build().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use = "it has an effect once it is given to `LeaseManagerBuilder::tuning`"]
pub struct Tuning {
    pub(crate) attempt_timeout: Option<Duration>,
    pub(crate) max_in_flight: usize,
    pub(crate) waiter_ttl: Duration,
    pub(crate) recheck_every: Duration,
    pub(crate) change_stream: bool,
    pub(crate) max_waiting: u32,
}

impl Default for Tuning {
    fn default() -> Tuning {
        Tuning {
            attempt_timeout: None,
            max_in_flight: MAX_IN_FLIGHT_DEFAULT,
            waiter_ttl: timing::WAITER_TTL_DEFAULT,
            recheck_every: timing::RECHECK_EVERY_DEFAULT,
            change_stream: true,
            max_waiting: timing::QUEUE_MAX,
        }
    }
}

impl Tuning {
    /// How long one attempt may take before the next one goes out beside it. From 10 ms to half the ttl.
    /// Defaults to 5 s, or half the ttl where that is less.
    pub fn attempt_timeout(mut self, timeout: Duration) -> Tuning {
        self.attempt_timeout = Some(timeout);
        self
    }

    /// How many commands may be under way at once, from 1 to 10,000. Defaults to 10.
    ///
    /// Of four or more, about a quarter and at least three are kept free of acquires and queries, for renewals and
    /// releases: with 4, one acquire is under way at a time, and with 10, seven. Releases leave one to renewals and one
    /// to acquires. Of fewer than four, none is kept. The driver's connection pool has 10 by default, too.
    pub fn max_in_flight(mut self, commands: usize) -> Tuning {
        self.max_in_flight = commands;
        self
    }

    /// How long the queue entry of a process that has died stays. From 500 ms to 10 minutes. Defaults to 10 s.
    ///
    /// A waiting process sends a heartbeat after a third of this time. A lease that is handed off to a process that has
    /// died is blocked for this time, or for the ttl where that is shorter, plus the maximum clock skew.
    pub fn waiter_ttl(mut self, waiter_ttl: Duration) -> Tuning {
        self.waiter_ttl = waiter_ttl;
        self
    }

    /// The longest time between two queries of a waiting call. At most a day. Defaults to 15 s.
    ///
    /// It bounds the cost of a change stream that has fallen silent; up to a quarter is subtracted at random. Where
    /// several calls of this manager wait for permits of one name, it applies to the first of them, which checks for
    /// all. Each further one checks more rarely.
    pub fn recheck_every(mut self, period: Duration) -> Tuning {
        self.recheck_every = period;
        self
    }

    /// Whether a change stream wakes waiting calls. Defaults to true.
    ///
    /// Each manager has one stream, which is open while a call waits and uses one of the client's connections. Without
    /// it, waiting calls poll: the first in the queue at least every quarter of a second, others less often.
    pub fn change_stream(mut self, enabled: bool) -> Tuning {
        self.change_stream = enabled;
        self
    }

    /// How many entries one lease's queue may have. From 1 to 1,024, which is the default. The waiting calls of one
    /// manager share an entry; those for [permits](crate::Acquire::permits) have up to 16. The next call gets
    /// [`Error::QueueFull`].
    pub fn max_waiting(mut self, entries: u32) -> Tuning {
        self.max_waiting = entries;
        self
    }

    fn check(&self) -> Result<()> {
        if !(1..=MAX_IN_FLIGHT_MAX).contains(&self.max_in_flight) {
            let reason = format!("must be between 1 and {MAX_IN_FLIGHT_MAX}");
            return Err(Error::invalid_option("max_in_flight", reason));
        }
        let lives = timing::WAITER_TTL_MIN..=timing::WAITER_TTL_MAX;
        if !lives.contains(&self.waiter_ttl) {
            let (shortest, longest) = (human(*lives.start()), human(*lives.end()));
            let reason = format!("must be between {shortest} and {longest}");
            return Err(Error::invalid_option("waiter_ttl", reason));
        }
        check_not_zero("recheck_every", self.recheck_every)?;
        if self.recheck_every > timing::RECHECK_EVERY_MAX {
            let reason = format!("must be at most {}", human(timing::RECHECK_EVERY_MAX));
            return Err(Error::invalid_option("recheck_every", reason));
        }
        if !(1..=timing::QUEUE_MAX).contains(&self.max_waiting) {
            let reason = format!("must be between 1 and {}", timing::QUEUE_MAX);
            return Err(Error::invalid_option("max_waiting", reason));
        }
        Ok(())
    }
}

fn check_not_zero(option: &'static str, time: Duration) -> Result<()> {
    if time.is_zero() {
        return Err(Error::invalid_option(option, "must be greater than zero"));
    }
    Ok(())
}

impl ManagerOptions {
    /// Checks all that can be checked without a database, and returns the timings.
    pub(crate) fn check(&self) -> Result<Timing> {
        check_text(&self.collection)
            .map_err(|reason| Error::invalid_option("collection", reason))?;
        if self.collection.contains('$') || self.collection.starts_with("system.") {
            let reason = "must not contain `$` or begin with `system.`";
            return Err(Error::invalid_option("collection", reason));
        }
        check_owner(&self.owner)?;
        check_not_zero("build_timeout", self.build_timeout)?;
        check_not_zero("release_timeout", self.release_timeout)?;
        check_not_zero("shutdown_timeout", self.shutdown_timeout)?;
        if self.ensure_indexes && self.read_only {
            return Err(Error::invalid_option("ensure_indexes", "excludes `read_only`"));
        }
        self.tuning.check()?;
        let attempt_timeout = self.tuning.attempt_timeout;
        Timing::new(self.ttl, self.max_clock_skew, attempt_timeout).map_err(timing_error)
    }
}

/// The error for timings that contradict each other.
pub(crate) fn timing_error(defect: TimingDefect) -> Error {
    let (option, reason) = match defect {
        TimingDefect::Ttl(ttl) => {
            let (ttl, shortest) = (human(ttl), human(timing::TTL_MIN));
            let longest = human(timing::TTL_MAX);
            ("ttl", format!("a ttl of {ttl} is not between {shortest} and {longest}"))
        }
        TimingDefect::MaxClockSkew(skew) => {
            let (skew, longest) = (human(skew), human(timing::MAX_CLOCK_SKEW_MAX));
            ("max_clock_skew", format!("a maximum clock skew of {skew} is above {longest}"))
        }
        TimingDefect::AttemptTimeout { attempt_timeout, longest } => {
            let (asked, shortest) = (human(attempt_timeout), human(timing::ATTEMPT_TIMEOUT_MIN));
            let reason = format!(
                "an attempt timeout of {asked} is not between {shortest} and {}, half the ttl: a \
                 renewal must have time for a second attempt",
                human(longest)
            );
            ("attempt_timeout", reason)
        }
    };
    Error::invalid_option(option, reason)
}

pub(crate) fn check_name(name: &str) -> Result<()> {
    check_text(name).map_err(|reason| Error::InvalidName { reason })
}

pub(crate) fn check_value(value: &str) -> Result<()> {
    check_text(value).map_err(|reason| Error::invalid_option("value", reason))?;
    if is_tombstone(value) {
        let reason = format!("must not begin with `{}`", tombstone::PREFIX);
        return Err(Error::invalid_option("value", reason));
    }
    if value == format::SHARED_VALUE {
        let reason = "is the value of documents that several hold at once";
        return Err(Error::invalid_option("value", reason));
    }
    Ok(())
}

pub(crate) fn check_permits(
    limit: Option<u32>,
    permits: Option<u32>,
    is_shared: bool,
) -> Result<Permits> {
    if is_shared {
        return match (limit, permits) {
            (None, None) => Ok(Permits::SHARED),
            (Some(_), _) => {
                Err(Error::invalid_option("shared", "excludes the limit of a semaphore"))
            }
            (None, Some(_)) => Err(Error::invalid_option("shared", "excludes `permits`")),
        };
    }
    Permits::new(permits.unwrap_or(1), limit.unwrap_or(1)).map_err(|defect| match defect {
        PermitsDefect::Limit(limit) => {
            let reason = format!("a limit of {limit} is not between 1 and {LIMIT_MAX}");
            Error::invalid_option("limit", reason)
        }
        PermitsDefect::Count { count, limit } => {
            let reason = format!("{count} permits are not between 1 and the limit, {limit}");
            Error::invalid_option("permits", reason)
        }
    })
}

/// Checks the options that have a meaning for exclusive leases only, or narrower bounds for others.
pub(crate) fn check_share(metadata: &Document, hold_at_least: Option<Duration>) -> Result<()> {
    if hold_at_least.is_some() {
        let reason = "is for exclusive leases only: a permit is free when it is released";
        return Err(Error::invalid_option("hold_at_least", reason));
    }
    check_metadata_size(metadata, SHARE_METADATA_BYTES_MAX)
}

pub(crate) fn check_owner(owner: &str) -> Result<()> {
    check_label(owner).map_err(|reason| Error::invalid_option("owner", reason))
}

/// Checks the maximum and the minimum hold time of a lease.
pub(crate) fn check_hold(longest: Option<Duration>, shortest: Option<Duration>) -> Result<()> {
    if longest.is_some_and(|longest| longest < timing::TTL_MIN) {
        let reason = format!("must be at least {}", human(timing::TTL_MIN));
        return Err(Error::invalid_option("max_hold", reason));
    }
    if shortest.is_some_and(|shortest| shortest > timing::TTL_MAX) {
        let reason = format!("must be at most {}", human(timing::TTL_MAX));
        return Err(Error::invalid_option("hold_at_least", reason));
    }
    Ok(())
}

/// The names in the order of their bytes, if they are fit to be acquired together.
pub(crate) fn sorted_names(mut names: Vec<String>) -> Result<Vec<String>> {
    names.sort_unstable();
    let refused = |reason: String| Err(Error::invalid_option("names", reason));
    match names.len() {
        0 => return refused("must not be empty".to_owned()),
        1..=NAMES_MAX => {}
        many => return refused(format!("must be at most {NAMES_MAX}, and are {many}")),
    }
    if let Some(twice) = names.windows(2).find(|pair| pair[0] == pair[1]) {
        return refused(format!("{:?} is named twice", twice[0]));
    }
    names.iter().try_for_each(|name| check_name(name))?;
    Ok(names)
}

/// Checks the least and the most time of a scheduled job.
pub(crate) fn check_job(at_least: Option<Duration>, at_most: Option<Duration>) -> Result<()> {
    if let (Some(shortest), Some(longest)) = (at_least, at_most)
        && shortest > longest
    {
        let (shortest, longest) = (human(shortest), human(longest));
        let reason = format!("{shortest} is longer than `at_most`, which is {longest}");
        return Err(Error::invalid_option("at_least", reason));
    }
    Ok(())
}

/// Refuses metadata that are no document, that the server would refuse, or that would make each lease document large.
pub(crate) fn check_metadata(metadata: &Result<Document, String>) -> Result<&Document> {
    let no_document = |reason| format!("must be a document, as of a struct or a map: {reason}");
    let metadata = metadata
        .as_ref()
        .map_err(|reason| Error::invalid_option("metadata", no_document(reason)))?;
    if !keys_are_fit(metadata, METADATA_DEPTH_MAX) {
        let nesting = format!("the nesting is deeper than {METADATA_DEPTH_MAX} levels");
        let reason = format!("a key contains a NUL character, or {nesting}");
        return Err(Error::invalid_option("metadata", reason));
    }
    check_metadata_size(metadata, METADATA_BYTES_MAX)?;
    Ok(metadata)
}

fn check_metadata_size(metadata: &Document, bytes_max: usize) -> Result<()> {
    let refused = |reason| Error::InvalidOption { option: "metadata", reason };
    let raw = RawDocumentBuf::try_from(metadata).map_err(|error| refused(error.to_string()))?;
    let bytes = raw.as_bytes().len();
    if bytes <= bytes_max {
        return Ok(());
    }
    Err(refused(format!("it has {bytes} bytes of BSON, and the maximum is {bytes_max}")))
}

fn keys_are_fit(document: &Document, depth: usize) -> bool {
    depth > 0
        && document.iter().all(|(key, value)| !key.contains('\0') && value_is_fit(value, depth - 1))
}

fn value_is_fit(value: &Bson, depth: usize) -> bool {
    if let Some(document) = value.as_document() {
        return keys_are_fit(document, depth);
    }
    match value.as_array() {
        Some(array) => depth > 0 && array.iter().all(|element| value_is_fit(element, depth - 1)),
        None => true,
    }
}
