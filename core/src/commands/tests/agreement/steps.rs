//! The steps of a sequence.

use crate::spec::{EndScope, Expiry, ResumeTerms};
use mongo_lease_core_tests::Chance;

use super::names::{Callers, Names};
use super::small::{AcquireAttempt, Document, GrantId, GrantMatch, Key, Queue, Value};
use super::{holders, queue};
use crate::commands::release::Form;

pub(super) const HOUR: i64 = 3_600_000;
/// How long an entry counts after a heartbeat.
pub(super) const LIFE: i64 = 3 * HOUR;

/// The value of another program.
const FOREIGN: Value = Value(200);

/// How long before now [`Write::GrantedAt`] puts a grant.
pub(super) const GRANTED_BEFORE: i64 = 5 * HOUR;

/// Expiries that another program writes; a date is so many hours from now.
const EXPIRIES: [Expiry; 5] =
    [Expiry::At(-10), Expiry::At(20), Expiry::Absent, Expiry::Damaged, Expiry::Damaged];
/// Those of a document that several hold; none is the latest of its holders'.
const SHARED_EXPIRIES: [Option<Expiry>; 9] = [
    None,
    None,
    None,
    Some(Expiry::At(8)),
    Some(Expiry::At(8)),
    Some(Expiry::At(-2)),
    Some(Expiry::At(-2)),
    Some(Expiry::Absent),
    Some(Expiry::Damaged),
];
/// The ttls that another program writes: too short, too long, and one that a lease may have.
const TTLS: [Option<i64>; 6] =
    [None, Some(0), Some(-3 * HOUR), Some(99), Some(10_000 * HOUR), Some(4 * HOUR)];

/// A step.
#[derive(Clone, Debug)]
pub(super) enum Step {
    Acquire(AcquireAttempt),
    /// The fast attempt for an exclusive lease, alone or in a batch. Its attempt number is this step's own.
    FastAcquire {
        request: AcquireAttempt,
        with_others: bool,
    },
    /// The fast attempt for a share. Its attempt number is this step's own.
    FastAdmit(AcquireAttempt),
    /// The first attempt at a new name, in the form that is sent with tombstones.
    Insert(AcquireAttempt),
    Heartbeat {
        value: Value,
    },
    /// The read of which entries are in the queue.
    FindEntries {
        value: Value,
    },
    Renew {
        key: Key,
        lasts: i64,
    },
    /// Each grant for its own time.
    RenewHolders {
        keys: Vec<(Key, i64)>,
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
    Delete(Target),
    /// The release that makes a tombstone.
    Tombstone(Target),
    End {
        target: Target,
        scope: EndScope,
    },
    EndLater {
        target: Target,
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

/// The grant that a release ends.
#[derive(Clone, Copy, Debug)]
pub(super) struct Target {
    pub(super) value: Value,
    pub(super) which: GrantMatch,
    /// The form in which a document has to show it.
    pub(super) form: Form,
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
    Queue(Vec<queue::Put>),
    /// A queue that is not an array.
    DamagedQueue { form: usize },
    /// Shared use, with holders that have expired, do not fit together, or are corrupt; often with waiters.
    Holders { to: Vec<holders::Put>, top: Option<Expiry>, queue: Option<Vec<queue::Put>> },
    /// Holders that are not an array.
    DamagedHolders { form: usize },
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
    /// The fast attempt cannot tell.
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
    pub(super) fn choose(
        chance: &mut Chance,
        callers: Callers,
        found: Option<&Document>,
        now: i64,
    ) -> Step {
        let has_expired = |found: &Document| matches!(found.expiry, Expiry::At(at) if at <= now);
        if found.is_some_and(has_expired) && chance.below(6) == 0 {
            return chance.one_of(&[Step::ForeignAcquire { value: FOREIGN }, Step::TtlDelete]);
        }
        let names = Names::choose(chance, callers, found);
        match found.is_some_and(is_corrupt) && chance.below(2) == 0 {
            true => names.on_a_corrupt_document(chance),
            false if chance.below(6) > 0 => names.step(chance),
            false => Step::of_another_program(chance, &names, now),
        }
    }

    /// Chooses a write of another program, or of the server itself.
    fn of_another_program(chance: &mut Chance, names: &Names, now: i64) -> Step {
        let is_shared = names.callers.exclusive < 4;
        match chance.below(if is_shared { 19 } else { 15 }) {
            0 => Step::ForeignAcquire { value: FOREIGN },
            1 => Step::ForeignRelease { value: names.held.value },
            2 => Step::TtlDelete,
            number => Step::Write(Write::choose(chance, names, number, now)),
        }
    }
}

impl Write {
    fn choose(chance: &mut Chance, names: &Names, number: u64, now: i64) -> Write {
        let form = usize::try_from(chance.below(60)).expect("a small number");
        match number {
            3..=4 => Write::Expiry { to: chance.one_of(&EXPIRIES), form },
            5 => {
                let [first, second, foreign] = [Value(0), Value(1), FOREIGN].map(Some);
                Write::Value(chance.one_of(&[first, second, foreign, None]))
            }
            6..=9 => Write::Queue(queue::choose(chance, names, now)),
            10 => Write::GrantedAt,
            11..=12 => Write::Ttl(chance.one_of(&TTLS)),
            13 => chance.one_of(&[
                Write::DamagedGrant,
                Write::DamagedQueue { form },
                Write::DamagedQueue { form },
                Write::DamagedHolders { form },
            ]),
            _ => {
                let to = holders::Put::choose(chance);
                let is_waited_for = chance.below(3) > 0;
                let queue = is_waited_for.then(|| queue::choose(chance, names, now));
                Write::Holders { to, top: chance.one_of(&SHARED_EXPIRIES), queue }
            }
        }
    }
}

/// Whether a field of the document is of a foreign type, or has a value that none of ours has.
fn is_corrupt(document: &Document) -> bool {
    let is_strange = |ttl: i64| !(100..=366 * 24 * HOUR).contains(&ttl);
    document.expiry == Expiry::Damaged
        || document.queue == Queue::Damaged
        || document.grant.is_some_and(|grant| is_strange(grant.ttl))
        || document.is_in_shared_use() && document.sharers().is_empty()
}

/// The same request as an attempt that no other step makes.
pub(super) fn first_attempt(request: AcquireAttempt, sent: i64) -> AcquireAttempt {
    let attempt = 100 + u8::try_from(sent).expect("a small number");
    AcquireAttempt { id: GrantId { attempt, ..request.id }, sent, ..request }
}
