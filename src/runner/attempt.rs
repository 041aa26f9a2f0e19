//! The limits of one attempt, and the possible effects of earlier attempts.

use std::sync::Arc;
use std::time::Duration;

use mongo_lease_core::rules::{
    Bound, Instant, acknowledgement_time, from_millis, millis_up, server_time,
};
use mongodb::bson::Document;

use crate::failure::Failure;
use crate::lock::Lock;

/// The time that one attempt of a command has.
///
/// An attempt begins when its command is sent. Until then it waits in this process, and only the deadline ends that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AttemptTime {
    /// How long its answer may take, once it is sent.
    pub(crate) timeout: Duration,
    /// When the caller stops waiting, whether it was sent or not.
    pub(crate) deadline: Instant,
}

impl AttemptTime {
    pub(crate) fn over(&self, sent: Instant) -> Instant {
        sent.after(self.timeout).min(self.deadline)
    }
}

impl From<Instant> for AttemptTime {
    fn from(deadline: Instant) -> AttemptTime {
        AttemptTime { timeout: Duration::MAX, deadline }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct AttemptLimits {
    /// How long its caller waits for it.
    pub(crate) time: AttemptTime,
    /// Bounds the server's time for the command; `None` if only the caller's time does.
    pub(crate) pace: Option<Pace>,
    /// Whether its one document is known to be blocked.
    pub(crate) is_blocked: bool,
}

impl From<AttemptTime> for AttemptLimits {
    fn from(time: AttemptTime) -> AttemptLimits {
        AttemptLimits { time, pace: None, is_blocked: false }
    }
}

/// The time limit of one kind of command, by `rules::batching`. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pace(Arc<Lock<Bound>>);

impl Pace {
    /// The time limit of the next command.
    pub(crate) fn bound(&self, is_blocked: bool) -> Duration {
        let bound = self.0.lock();
        if is_blocked { bound.get_blocked() } else { bound.get() }
    }

    /// Applies the answer, which came `now`, to a command that was sent at `sent`. One that is applied went through,
    /// also if no majority has it yet: no lock has held it up.
    pub(super) fn answered<T>(&self, now: Instant, sent: Instant, answer: &Result<T, Failure>) {
        match answer {
            Ok(_) => self.0.lock().went_through(now, now.since(sent)),
            Err(failure) if failure.is_cut_off() => self.0.lock().timed_out(now, sent),
            Err(_) => {}
        }
    }
}

/// The most that an earlier attempt of a call may have done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum PriorEffect {
    /// None of them was applied.
    NotApplied,
    /// The server cut one off, because a document was blocked or no majority had the write in time. It may have been
    /// applied before that, and does nothing more.
    CutOff,
    /// One was not answered. It may have been applied, or still may be.
    Unanswered,
}

impl PriorEffect {
    /// The effect of an attempt that failed in this way.
    pub(crate) fn of(failure: &Failure) -> PriorEffect {
        match failure.outcome.maybe_applied {
            false => PriorEffect::NotApplied,
            true if failure.is_cut_off() => PriorEffect::CutOff,
            true => PriorEffect::Unanswered,
        }
    }
}

/// The server accepts a 32-bit number.
const MAX_TIME_MS_MAX: i64 = i32::MAX as i64;

/// The server's time limits for a command, in milliseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct ServerTimes {
    /// For all of it, locks too.
    pub(super) max_ms: i64,
    /// For the majority; `None` if the other limit alone counts.
    pub(super) acknowledged_ms: Option<i64>,
}

impl ServerTimes {
    /// If we wait for `left`.
    /// The time for the majority is for a write that a read can confirm; `delay` is how late one was last.
    pub(super) fn new(left: Duration, at_most: Duration, delay: Option<Duration>) -> ServerTimes {
        let max_ms = millis_up(server_time(left).min(at_most)).clamp(1, MAX_TIME_MS_MAX);
        let command = from_millis(max_ms);
        let acknowledged = delay.map(|delay| acknowledgement_time(command, delay));
        // Zero would be no limit.
        ServerTimes { max_ms, acknowledged_ms: acknowledged.map(|time| millis_up(time).max(1)) }
    }

    pub(super) fn insert_into(self, command: &mut Document) {
        command.insert("maxTimeMS", self.max_ms);
        if let Some(acknowledged_ms) = self.acknowledged_ms
            && let Ok(write_concern) = command.get_document_mut("writeConcern")
        {
            write_concern.insert("wtimeout", acknowledged_ms);
        }
    }
}
