//! The steps of a sequence, chosen at random, and what the model makes of each.

use super::server::{self, Acquired, Ask, Document, Expiry, GrantId, Key, Value, Which, Write};

pub(super) const HOUR: i64 = 3_600_000;

/// Chance, from a seed.
pub(super) struct Chance(u64);

impl Chance {
    pub(super) fn new(seed: u64) -> Chance {
        Chance(seed)
    }

    /// A number below `bound`: splitmix64.
    pub(super) fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound
    }

    pub(super) fn one_of<T: Copy>(&mut self, choices: &[T]) -> T {
        let bound = u64::try_from(choices.len()).expect("a small number");
        choices[usize::try_from(self.below(bound)).expect("a small number")]
    }
}

/// A step.
#[derive(Clone, Copy, Debug)]
pub(super) enum Step {
    Acquire {
        value: Value,
        id: GrantId,
        ttl: i64,
        allowance: i64,
    },
    Renew {
        key: Key,
    },
    Resume {
        key: Key,
    },
    Guard {
        key: Key,
        commits: bool,
    },
    Release {
        value: Value,
        which: Which,
    },
    ReleaseLater {
        value: Value,
        which: Which,
        hold_at_least: i64,
    },
    ForeignTake {
        value: Value,
    },
    /// Somebody writes this expiry, so many hours from now where it is a date, into the document that is there.
    SetExpiry {
        to: Expiry,
    },
    /// A foreign program writes a value and leaves the grant behind.
    SetValue {
        value: Value,
    },
}

/// What a step was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    Granted(GrantId),
    Refused,
    Matched(bool),
    /// A step that is no command of ours.
    Done,
}

impl Answer {
    pub(super) const KINDS: usize = 5;

    pub(super) fn kind(self) -> usize {
        match self {
            Answer::Granted(_) => 0,
            Answer::Refused => 1,
            Answer::Matched(true) => 2,
            Answer::Matched(false) => 3,
            Answer::Done => 4,
        }
    }
}

impl Step {
    /// A step that has something to do with the document, more often than not.
    pub(super) fn choose(chance: &mut Chance, found: Option<Document>) -> Step {
        let value = chance.one_of(&[Value(0), Value(1)]);
        // One call's number begins with another's.
        let id = GrantId { call: chance.one_of(&[1, 10]), attempt: chance.one_of(&[1, 2, 10]) };
        let there = found.and_then(|it| it.value.zip(it.grant.map(|grant| grant.id)));
        let (held_value, held_id) = match there {
            Some(there) if chance.below(4) > 0 => there,
            Some(_) | None => (value, id),
        };
        let key = Key { value: held_value, id: held_id };
        let except = chance.one_of(&[None, Some(id), Some(held_id)]);
        let grants = [Which::Grant(held_id), Which::Call(held_id.call, except)];
        match chance.below(16) {
            0..=4 => Step::Acquire {
                value,
                id,
                ttl: chance.one_of(&[2 * HOUR, 5 * HOUR]),
                allowance: chance.one_of(&[0, HOUR]),
            },
            5..=6 => Step::Renew { key },
            7 => Step::Resume { key },
            8..=9 => Step::Guard { key, commits: chance.below(3) > 0 },
            10 => Step::Release {
                value: held_value,
                which: chance.one_of(&[grants[0], grants[1], Which::Any]),
            },
            11 => Step::ReleaseLater {
                value: held_value,
                which: chance.one_of(&grants),
                hold_at_least: chance.one_of(&[0, 3 * HOUR]),
            },
            12 => Step::ForeignTake { value: Value(200) },
            13..=14 => Step::SetExpiry {
                to: chance.one_of(&[
                    Expiry::At(-10),
                    Expiry::At(-10),
                    Expiry::At(20),
                    Expiry::Absent,
                    Expiry::Damaged,
                ]),
            },
            _ => Step::SetValue { value: chance.one_of(&[Value(0), Value(1), Value(200)]) },
        }
    }

    /// What the model makes of it.
    pub(super) fn in_the_model(
        self,
        found: Option<Document>,
        now: i64,
        sent: i64,
    ) -> (Option<Document>, Answer) {
        let matched = |(after, is_there)| (after, Answer::Matched(is_there));
        match self {
            Step::Acquire { value, id, ttl, allowance } => {
                let ask = Ask { value, id, ttl, allowance, sent };
                match server::acquire(found, &ask, now, Write::Max) {
                    (after, Acquired::Granted(id)) => (after, Answer::Granted(id)),
                    (after, Acquired::Refused) => (after, Answer::Refused),
                }
            }
            Step::Renew { key } => matched(server::renew(found, key, now, sent, Write::Max)),
            Step::Resume { key } => matched(server::resume(found, key, now, sent)),
            Step::Guard { key, commits } => match server::guard(found, key, now, sent) {
                Some(written) if commits => (Some(written), Answer::Matched(true)),
                Some(_) => (found, Answer::Matched(true)),
                None => (found, Answer::Matched(false)),
            },
            Step::Release { value, which } => matched(server::release(found, value, which)),
            Step::ReleaseLater { value, which, hold_at_least } => {
                matched(server::release_later(found, value, which, hold_at_least))
            }
            Step::ForeignTake { value } => {
                matched(server::foreign_take(found, value, now, 4 * HOUR))
            }
            Step::SetExpiry { to } => {
                let expiry = match to {
                    Expiry::At(hours) => Expiry::At(now + hours * HOUR),
                    Expiry::Absent | Expiry::Damaged => to,
                };
                (found.map(|document| Document { expiry, ..document }), Answer::Done)
            }
            Step::SetValue { value } => {
                (found.map(|document| Document { value: Some(value), ..document }), Answer::Done)
            }
        }
    }
}
