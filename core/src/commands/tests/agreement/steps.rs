//! The steps of a sequence, chosen at random.

use crate::spec::{Expiry, HandOffTo, QueueOptions, ResumeTerms};
use mongo_lease_core_tests::Chance;

use super::queue::{self, Put};
use super::small::{AcquireRequest, Details, Document, GrantId, GrantMatch, Key, Queue, Value};

pub(super) const HOUR: i64 = 3_600_000;
/// How long an entry counts after a heartbeat.
pub(super) const LIFE: i64 = 3 * HOUR;

/// The value of another program.
const FOREIGN: Value = Value(200);

/// How long before now [`Write::GrantedAt`] puts a grant.
pub(super) const GRANTED_BEFORE: i64 = 5 * HOUR;

/// The id that a resume writes.
const RESUMED: GrantId = GrantId { call: 20, attempt: 0 };

/// Expiries that another program writes; a date is so many hours from now.
const EXPIRIES: [Expiry; 5] =
    [Expiry::At(-10), Expiry::At(-10), Expiry::At(20), Expiry::Absent, Expiry::Damaged];

/// The times for which holders renew: a ttl with the maximum clock skew.
const LASTS: [i64; 3] = [2 * HOUR, 4 * HOUR, 9 * HOUR];
/// The ttls that another program writes: too short, too long, and one that a lease may have.
const TTLS: [Option<i64>; 6] =
    [None, Some(0), Some(-3 * HOUR), Some(99), Some(10_000 * HOUR), Some(4 * HOUR)];

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
    FindEntries {
        value: Value,
    },
    HandOff {
        value: Value,
        which: GrantMatch,
        to: HandOffTo,
    },
    Renew {
        key: Key,
        lasts: i64,
    },
    Resume {
        key: Key,
        fresh: GrantId,
        terms: ResumeTerms,
    },
    Guard {
        key: Key,
        lasts: i64,
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
    ForeignAcquire {
        value: Value,
    },
    ForeignRelease {
        value: Value,
    },
    /// The delete that the TTL monitor sends.
    TtlDelete,
    /// Another program writes to the existing document.
    Write(Write),
}

/// A write of another program. `form` chooses among values of the same meaning.
#[derive(Clone, Debug)]
pub(super) enum Write {
    /// An expiry; a date is so many hours from now.
    Expiry { to: Expiry, form: usize },
    /// A value, of a foreign type where there is none. The grant stays.
    Value(Option<Value>),
    /// The time of the grant becomes five hours ago, as if these had passed.
    GrantedAt,
    /// A ttl of the grant, which its holder did not ask for. None removes it.
    Ttl(Option<i64>),
    /// A grant of a foreign type.
    DamagedGrant,
    /// A queue with expired entries, entries from ahead of the server's clock, or corrupt ones.
    Queue(Vec<Put>),
    /// A queue that is not an array.
    DamagedQueue { form: usize },
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
    /// The hand-off found what another command ends.
    LeftToAdmit,
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
    pub(super) fn choose(chance: &mut Chance, found: Option<&Document>, now: i64) -> Step {
        let has_expired = |found: &Document| matches!(found.expiry, Expiry::At(at) if at <= now);
        if found.is_some_and(has_expired) && chance.below(6) == 0 {
            return chance.one_of(&[Step::ForeignAcquire { value: FOREIGN }, Step::TtlDelete]);
        }
        let is_corrupt = |it: &Document| it.expiry == Expiry::Damaged || it.queue == Queue::Damaged;
        let names = Names::choose(chance, found);
        match found.is_some_and(is_corrupt) && chance.below(2) == 0 {
            true => names.on_a_corrupt_document(chance),
            false => names.step(chance),
        }
    }

    /// Chooses a write of another program, or of the server itself.
    fn of_another_program(chance: &mut Chance, held_value: Value) -> Step {
        let form = usize::try_from(chance.below(60)).expect("a small number");
        match chance.below(12) {
            0 => Step::ForeignAcquire { value: FOREIGN },
            1 => Step::ForeignRelease { value: held_value },
            2 => Step::TtlDelete,
            number => Step::Write(Write::choose(chance, number, form)),
        }
    }
}

impl Write {
    fn choose(chance: &mut Chance, number: u64, form: usize) -> Write {
        match number {
            3 | 10 => Write::Expiry { to: chance.one_of(&EXPIRIES), form },
            4 => {
                let [first, second, foreign] = [Value(0), Value(1), FOREIGN].map(Some);
                Write::Value(chance.one_of(&[first, second, foreign, None]))
            }
            5..=7 => Write::Queue(queue::choose(chance)),
            8 => Write::GrantedAt,
            9 => Write::Ttl(chance.one_of(&TTLS)),
            _ if chance.below(4) == 0 => Write::DamagedGrant,
            _ => Write::DamagedQueue { form },
        }
    }
}

/// The holder, the grant and the waiter that a step names.
struct Names {
    /// In most cases the holder and its grant.
    held_value: Value,
    held_id: GrantId,
    /// Any value and grant; often those of a waiter.
    value: Value,
    id: GrantId,
}

impl Names {
    fn choose(chance: &mut Chance, found: Option<&Document>) -> Names {
        let waiting: Vec<Value> = found.map(values_in_queue).unwrap_or_default();
        let value = match !waiting.is_empty() && chance.below(3) == 0 {
            true => chance.one_of(&waiting),
            false => chance.one_of(&[Value(0), Value(1), Value(2)]),
        };
        // One call's number begins with another's.
        let id = GrantId { call: chance.one_of(&[1, 10]), attempt: chance.one_of(&[1, 2, 10]) };
        let there = found.and_then(|it| it.value.zip(it.grant.map(|grant| grant.id)));
        let (held_value, held_id) = match there {
            Some(there) if chance.below(4) > 0 => there,
            Some(_) | None => (value, id),
        };
        Names { held_value, held_id, value, id }
    }

    fn step(self, chance: &mut Chance) -> Step {
        let Names { held_value, held_id: _, value, id } = self;
        let key = self.key(chance);
        let grants = self.grants(chance);
        let which = chance.one_of(&[grants[0], grants[1], grants[1], GrantMatch::Any]);
        match chance.below(33) {
            0..=7 => Step::Acquire(self.request(chance)),
            8..=11 => {
                let request = AcquireRequest { predecessor: None, ..self.request(chance) };
                Step::FastAcquire { request, with_others: chance.below(2) > 0 }
            }
            12..=13 => Step::Insert(insert(value, id)),
            14 => Step::Renew { key, lasts: chance.one_of(&LASTS) },
            15..=16 => self.resume(chance),
            17 => Step::Guard { key, lasts: chance.one_of(&LASTS), commits: chance.below(3) > 0 },
            18..=19 => Step::Release { value: held_value, which },
            20 => Step::Tombstone { value: held_value, which },
            21..=22 => Step::ReleaseLater {
                value: held_value,
                which: chance.one_of(&grants),
                hold_at_least: chance.one_of(&[0, 3 * HOUR, 8 * HOUR]),
            },
            23..=24 => Step::Heartbeat { value },
            25 => Step::FindEntries { value },
            26..=28 => Step::HandOff {
                value: chance.one_of(&[held_value, held_value, value]),
                which,
                to: chance.one_of(&[
                    HandOffTo::LiveWaiter,
                    HandOffTo::LiveWaiterOrNobody,
                    HandOffTo::AfterLeavingQueue,
                ]),
            },
            _ => Step::of_another_program(chance, held_value),
        }
    }

    /// A command that reads what is corrupt.
    fn on_a_corrupt_document(self, chance: &mut Chance) -> Step {
        let value = self.value;
        let key = self.key(chance);
        let [which, _] = self.grants(chance);
        match chance.below(7) {
            0 => Step::Acquire(self.request(chance)),
            1 => Step::Renew { key, lasts: 3 * HOUR },
            2 => Step::Guard { key, lasts: 3 * HOUR, commits: true },
            3 => self.resume(chance),
            4 => Step::Heartbeat { value },
            5 => Step::FindEntries { value },
            _ => Step::HandOff { value, which, to: HandOffTo::AfterLeavingQueue },
        }
    }

    /// In most cases the holder's.
    fn key(&self, chance: &mut Chance) -> Key {
        let id = chance.one_of(&[self.held_id, self.held_id, self.held_id, self.id]);
        Key { value: self.held_value, id }
    }

    fn grants(&self, chance: &mut Chance) -> [GrantMatch; 2] {
        let except = chance.one_of(&[None, Some(self.id), Some(self.held_id)]);
        let call = chance.one_of(&[self.held_id.call, 1, 10]);
        [GrantMatch::Grant(self.held_id), GrantMatch::Call(call, except)]
    }

    fn request(&self, chance: &mut Chance) -> AcquireRequest {
        let joins = |queue_max| QueueOptions { life: LIFE, queue_max };
        AcquireRequest {
            value: self.value,
            id: self.id,
            ttl: chance.one_of(&[2 * HOUR, 5 * HOUR]),
            max_clock_skew: chance.one_of(&[0, HOUR]),
            sent: 0,
            joins: chance.one_of(&[None, Some(2), Some(2), Some(100)]).map(joins),
            predecessor: chance.one_of(&[None, None, Some(Value(0)), Some(Value(1))]),
            details: chance.one_of(&[Details(1), Details(2)]),
        }
    }

    /// A resume by the holder's key, or a repetition whose first attempt was carried out.
    fn resume(&self, chance: &mut Chance) -> Step {
        Step::Resume {
            key: self.key(chance),
            fresh: chance.one_of(&[self.id, self.held_id, RESUMED]),
            terms: ResumeTerms {
                ttl: chance.one_of(&[None, None, Some(HOUR), Some(7 * HOUR)]),
                default_ttl: 6 * HOUR,
                max_clock_skew: chance.one_of(&[0, HOUR]),
                bounds: (100, 366 * 24 * HOUR),
            },
        }
    }
}

/// The same request as an attempt that no other step makes.
pub(super) fn first_attempt(request: AcquireRequest, sent: i64) -> AcquireRequest {
    let attempt = 100 + u8::try_from(sent).expect("a small number");
    AcquireRequest { id: GrantId { attempt, ..request.id }, sent, ..request }
}

fn values_in_queue(document: &Document) -> Vec<Value> {
    document.queue.entries().map(|entry| entry.value).collect()
}

fn insert(value: Value, id: GrantId) -> AcquireRequest {
    let joins = Some(QueueOptions { life: LIFE, queue_max: 2 });
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
