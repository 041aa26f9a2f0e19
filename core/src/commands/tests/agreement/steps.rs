//! The steps of a sequence.

use crate::bson::Bson;
use crate::spec::{EndScope, Expiry, Queue, ResumeTerms};
use mongo_lease_core_tests::Chance;

use super::names::{Callers, Names};
use super::texts::{AcquireAttempt, Key};
use crate::commands::release::Form;
use crate::rules::ids::GrantId;
use crate::texts::{GrantMatch, LeaseDocument};

pub(super) const HOUR: i64 = 3_600_000;
/// How long an entry counts after a heartbeat.
pub(super) const LIFE: i64 = 3 * HOUR;

#[derive(Clone, Debug)]
pub(super) enum Step {
    Acquire(How, AcquireAttempt),
    Heartbeat(String),
    /// The read of which entries are in the queue.
    FindEntries(String),
    Renew(Key, i64),
    /// Each grant for its own time.
    RenewHolders(Vec<(Key, i64)>),
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
    Release(Target, Ending),
    ForeignAcquire,
    ForeignRelease(String),
    /// The delete that the TTL monitor sends.
    TtlDelete,
    Write(Write),
}

/// The command of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum How {
    Slow,
    /// The fast attempt for an exclusive lease, alone or in a batch.
    Fast,
    FastWithOthers,
    /// The fast attempt for a share.
    Admit,
    /// The first attempt at a new name, in the form that is sent with tombstones.
    Insert,
}

/// The grant that a release ends.
#[derive(Clone, Debug)]
pub(super) struct Target {
    pub(super) value: String,
    pub(super) which: GrantMatch,
    /// The form in which a document has to show it.
    pub(super) form: Form,
}

/// The command of a release.
#[derive(Clone, Copy, Debug)]
pub(super) enum Ending {
    Delete,
    Tombstone,
    End(EndScope),
    /// Not before this time after the grant.
    Later(i64),
}

/// A write of another program to an existing document.
#[derive(Clone, Debug)]
pub(super) struct Write {
    pub(super) name: &'static str,
    /// The fields with their new values. One without a value is removed.
    pub(super) fields: Vec<(&'static str, Option<Bson>)>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
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
        found: Option<&LeaseDocument>,
        now: i64,
    ) -> Step {
        let has_expired =
            |found: &LeaseDocument| matches!(found.expiry, Expiry::At(at) if at <= now);
        if found.is_some_and(has_expired) && chance.below(6) == 0 {
            return chance.one_of(&[Step::ForeignAcquire, Step::TtlDelete]);
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
            0 => Step::ForeignAcquire,
            1 => Step::ForeignRelease(names.held.value.clone()),
            2 => Step::TtlDelete,
            number => Step::Write(Write::choose(chance, names, number, now)),
        }
    }
}

/// Whether a field of the document is of a foreign type, or has a value that none of ours has.
fn is_corrupt(document: &LeaseDocument) -> bool {
    let is_strange = |ttl: i64| !(100..=366 * 24 * HOUR).contains(&ttl);
    document.expiry == Expiry::Damaged
        || document.queue == Queue::Damaged
        || document.grant.as_ref().is_some_and(|grant| is_strange(grant.ttl))
        || document.is_in_shared_use() && document.sharers().is_empty()
}

impl How {
    /// The request as this attempt sends it. A fast one has a number that no other step has.
    pub(super) fn sends(self, request: AcquireAttempt, sent: i64) -> AcquireAttempt {
        let id = match self {
            How::Slow | How::Insert => request.id,
            How::Fast | How::FastWithOthers | How::Admit => {
                request.id.call().grant(100 + u32::try_from(sent).expect("a small number"))
            }
        };
        AcquireAttempt { id, sent, ..request }
    }
}
