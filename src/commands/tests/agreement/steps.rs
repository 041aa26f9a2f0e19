//! The steps of a sequence, chosen at random, and their results by the specification.

use super::queue::{self, Put};
use super::small::{
    AcquireReply, AcquireRequest, Details, Document, GrantId, GrantMatch, Key, Queue, Value,
};
use crate::rules::tests::chance::Chance;
use crate::spec::{self, AsBuilt, Expiry, FastReply, HandOffTo, QueueOptions};

pub(super) const HOUR: i64 = 3_600_000;
/// How long an entry counts after a heartbeat.
pub(super) const LIFE: i64 = 3 * HOUR;

/// The id that a resume writes.
const RESUMED: GrantId = GrantId { call: 20, attempt: 0 };

/// Expiries that another program writes; a date is so many hours from now.
const EXPIRIES: [Expiry; 5] =
    [Expiry::At(-10), Expiry::At(-10), Expiry::At(20), Expiry::Absent, Expiry::Damaged];

/// A step.
#[derive(Clone, Debug)]
pub(super) enum Step {
    Acquire(AcquireRequest),
    /// The fast-path acquire, alone or in a batch. Its attempt number is this step's own.
    FastAcquire {
        request: AcquireRequest,
        with_others: bool,
    },
    /// The first attempt at a new name, in the form that is sent with tombstones.
    Insert(AcquireRequest),
    /// A heartbeat.
    Heartbeat {
        value: Value,
    },
    /// The read of which entries are in the queue.
    FindLeases {
        value: Value,
    },
    HandOff {
        value: Value,
        which: GrantMatch,
        to: HandOffTo,
    },
    Renew {
        key: Key,
    },
    Resume {
        key: Key,
        fresh: GrantId,
        ttl: Option<i64>,
    },
    Guard {
        key: Key,
        commits: bool,
    },
    Release {
        value: Value,
        which: GrantMatch,
    },
    /// The release that makes a tombstone.
    Tombstone {
        value: Value,
        which: GrantMatch,
    },
    ReleaseLater {
        value: Value,
        which: GrantMatch,
        hold_at_least: i64,
    },
    ForeignTake {
        value: Value,
    },
    /// Another program writes this expiry to the existing document; a date is so many hours from now.
    SetExpiry {
        to: Expiry,
    },
    /// Another program writes a value and leaves the grant unchanged.
    SetValue {
        value: Value,
    },
    /// Another program writes a queue with expired entries, entries from ahead of the server's clock, or corrupt ones.
    SetQueue {
        to: Vec<Put>,
    },
    /// Another program writes a queue that is not an array.
    DamageQueue,
    ForeignRelease {
        value: Value,
    },
}

/// The answer to a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    Granted(GrantId),
    Refused {
        ahead: Option<usize>,
        /// To the nearest hour.
        hours_left: Option<i64>,
    },
    /// The fast-path acquire cannot tell.
    Unclear,
    Matched(bool),
    /// The step is no command of ours.
    Done,
}

impl Answer {
    pub(super) fn refused(ahead: Option<usize>, left: Option<i64>) -> Answer {
        Answer::Refused { ahead, hours_left: left.map(|left| (left + HOUR / 2).div_euclid(HOUR)) }
    }
}

impl Step {
    /// Chooses a step, in most cases one that concerns the existing document.
    pub(super) fn choose(chance: &mut Chance, found: Option<&Document>) -> Step {
        let values = [Value(0), Value(1), Value(2)];
        let value = chance.one_of(&values);
        // One call's number begins with another's.
        let id = GrantId { call: chance.one_of(&[1, 10]), attempt: chance.one_of(&[1, 2, 10]) };
        let there = found.and_then(|it| it.value.zip(it.grant.map(|grant| grant.id)));
        let (held_value, held_id) = match there {
            Some(there) if chance.below(4) > 0 => there,
            Some(_) | None => (value, id),
        };
        let key = Key { value: held_value, id: held_id };
        let except = chance.one_of(&[None, Some(id), Some(held_id)]);
        let grants = [GrantMatch::Grant(held_id), GrantMatch::Call(held_id.call, except)];
        let which = chance.one_of(&[grants[0], grants[1], GrantMatch::Any]);
        let predecessor = chance.one_of(&[None, None, Some(values[0]), Some(values[1])]);
        let request = AcquireRequest {
            value,
            id,
            ttl: chance.one_of(&[2 * HOUR, 5 * HOUR]),
            max_clock_skew: chance.one_of(&[0, HOUR]),
            sent: 0,
            joins: chance.one_of(&[None, Some(2), Some(2), Some(100)]).map(joins),
            predecessor,
            details: chance.one_of(&[Details(1), Details(2)]),
        };
        match chance.below(33) {
            0..=7 => Step::Acquire(request),
            29..=32 => {
                let request = AcquireRequest { predecessor: None, ..request };
                Step::FastAcquire { request, with_others: chance.below(2) > 0 }
            }
            8 => Step::Renew { key },
            9 => Step::Resume {
                key,
                fresh: chance.one_of(&[id, held_id, RESUMED]),
                ttl: chance.one_of(&[None, Some(HOUR), Some(7 * HOUR)]),
            },
            10 => Step::Guard { key, commits: chance.below(3) > 0 },
            11..=12 => Step::Release { value: held_value, which },
            13 => Step::ReleaseLater {
                value: held_value,
                which: chance.one_of(&grants),
                hold_at_least: chance.one_of(&[0, 3 * HOUR]),
            },
            14 => Step::ForeignTake { value: Value(200) },
            15 => Step::SetExpiry { to: chance.one_of(&EXPIRIES) },
            16 => Step::SetValue { value: chance.one_of(&[Value(0), Value(1), Value(200)]) },
            17..=18 => Step::Heartbeat { value },
            19 => Step::FindLeases { value },
            20..=22 => Step::HandOff {
                value: chance.one_of(&[held_value, held_value, value]),
                which,
                to: chance.one_of(&[
                    HandOffTo::LiveWaiter,
                    HandOffTo::LiveWaiterOrNobody,
                    HandOffTo::AfterLeavingQueue,
                ]),
            },
            23..=24 => Step::SetQueue { to: queue::choose(chance) },
            25 => Step::Tombstone { value: held_value, which },
            26..=27 => Step::Insert(insert(value, id)),
            _ => match chance.below(3) {
                0 => Step::ForeignRelease { value: held_value },
                _ => Step::DamageQueue,
            },
        }
    }

    /// The step's result by the specification.
    pub(super) fn in_the_spec(
        self,
        found: Option<Document>,
        now: i64,
        sent: i64,
    ) -> (Option<Document>, Answer) {
        let matched = |(after, is_there)| (after, Answer::Matched(is_there));
        match self {
            Step::Acquire(request) => {
                let request = AcquireRequest { sent, ..request };
                acquired(spec::acquire(found, &request, now, &AsBuilt))
            }
            Step::FastAcquire { request, .. } => taken_shortly(
                spec::fast_acquire(found, &request.first_attempt(sent), now, &AsBuilt),
                request,
                sent,
            ),
            Step::Insert(request) => {
                match spec::insert(found, &AcquireRequest { sent, ..request }, now, &AsBuilt) {
                    (after, Some(AcquireReply::Granted(id))) => (after, Answer::Granted(id)),
                    // An insert is refused only if a document exists.
                    (after, _) => (after, Answer::Matched(false)),
                }
            }
            Step::Heartbeat { value } => {
                matched(spec::heartbeat(found, &value, now, sent, LIFE, &AsBuilt))
            }
            Step::FindLeases { value } => {
                let is_there = found.as_ref().is_some_and(|it| it.queue.position(&value).is_some());
                (found, Answer::Matched(is_there))
            }
            Step::HandOff { value, which, to } => {
                matched(spec::hand_off(found, &value, &which, to, now, &AsBuilt))
            }
            Step::Renew { key } => matched(spec::renew(found, &key, now, sent, &AsBuilt)),
            Step::Resume { key, fresh, ttl } => {
                matched(spec::resume(found, &key, fresh, ttl, now, sent, &AsBuilt))
            }
            Step::Guard { key, commits } => {
                match spec::guard(found.clone(), &key, now, sent, &AsBuilt) {
                    Some(written) if commits => (Some(written), Answer::Matched(true)),
                    Some(_) => (found, Answer::Matched(true)),
                    None => (found, Answer::Matched(false)),
                }
            }
            Step::Release { value, which } => matched(spec::release(found, &value, &which)),
            Step::Tombstone { value, which } => {
                matched(spec::tombstone(found, &value, &which, &AsBuilt))
            }
            Step::ReleaseLater { value, which, hold_at_least } => {
                matched(spec::release_later(found, &value, &which, hold_at_least, now))
            }
            Step::ForeignTake { value } => {
                matched(spec::foreign_acquire(found, value, now, 4 * HOUR))
            }
            Step::SetExpiry { to } => (found.map(|it| with_expiry(it, to, now)), Answer::Done),
            Step::SetValue { value } => {
                (found.map(|document| Document { value: Some(value), ..document }), Answer::Done)
            }
            Step::SetQueue { to } => {
                let queue = queue::queue_of(&to, now);
                (found.map(|document| Document { queue, ..document }), Answer::Done)
            }
            Step::DamageQueue => (found.map(damage_queue), Answer::Done),
            Step::ForeignRelease { value } => matched(spec::foreign_release(found, &value)),
        }
    }
}

fn acquired((after, acquired): (Option<Document>, AcquireReply)) -> (Option<Document>, Answer) {
    let answer = match acquired {
        AcquireReply::Granted(id) => Answer::Granted(id),
        AcquireReply::Refused { ahead, remaining } => Answer::refused(ahead, remaining),
    };
    (after, answer)
}

fn taken_shortly(
    (after, taken): (Option<Document>, FastReply),
    request: AcquireRequest,
    sent: i64,
) -> (Option<Document>, Answer) {
    let answer = match taken {
        FastReply::Granted => Answer::Granted(request.first_attempt(sent).id),
        FastReply::Refused { remaining } => Answer::refused(None, Some(remaining)),
        FastReply::UseFullForm => Answer::Unclear,
    };
    (after, answer)
}

fn with_expiry(document: Document, to: Expiry, now: i64) -> Document {
    let expiry = match to {
        Expiry::At(hours) => Expiry::At(now + hours * HOUR),
        Expiry::Absent | Expiry::Damaged => to,
    };
    Document { expiry, ..document }
}

fn damage_queue(document: Document) -> Document {
    Document { queue: Queue::Damaged, ..document }
}

impl AcquireRequest {
    /// The same request as an attempt that no other step makes.
    pub(super) fn first_attempt(self, sent: i64) -> AcquireRequest {
        let attempt = 100 + u8::try_from(sent).expect("a small number");
        AcquireRequest { id: GrantId { attempt, ..self.id }, sent, ..self }
    }
}

fn joins(queue_max: usize) -> QueueOptions {
    QueueOptions { life: LIFE, queue_max }
}

fn insert(value: Value, id: GrantId) -> AcquireRequest {
    let joins = Some(joins(2));
    AcquireRequest {
        value,
        id,
        ttl: 2 * HOUR,
        max_clock_skew: HOUR,
        sent: 0,
        joins,
        predecessor: None,
        details: Details(3),
    }
}
