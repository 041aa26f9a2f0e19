//! The holder, the grant and the waiter that a step names, chosen at random.

use crate::rules::permits::Permits;
use crate::spec::{Element, EndScope, HolderElement, QueueOptions, ResumeTerms, Types};
use mongo_lease_core_tests::Chance;

use super::steps::{Ending, HOUR, How, LIFE, Step, Target};
use super::texts::{AcquireAttempt, Key, call, details, value};
use crate::commands::release::Form;
use crate::rules::ids::GrantId;
use crate::texts::{GrantMatch, LeaseDocument, Texts};

/// The times for which holders renew: a ttl with the maximum clock skew.
const LASTS: [i64; 3] = [2 * HOUR, 4 * HOUR, 9 * HOUR];

const SCOPES: [EndScope; 4] =
    [EndScope::BesideOthers, EndScope::Anywhere, EndScope::HeldOrQueued, EndScope::HeldOrQueued];

const SHARES: [(u32, u32); 6] = [(1, 2), (2, 2), (1, 3), (2, 3), (1, 1_000), (1, 1_000)];

fn shared_permits(chance: &mut Chance) -> Permits {
    let (count, limit) = chance.one_of(&SHARES);
    Permits::new(count, limit).expect("valid permits")
}

/// The callers of one sequence.
#[derive(Clone, Copy, Debug)]
pub(super) struct Callers {
    /// Of eight calls, how many ask for the exclusive lease.
    pub(super) exclusive: u64,
    /// How many values they have. So few that different calls often have the same one.
    values: u64,
}

impl Callers {
    pub(super) fn choose(chance: &mut Chance) -> Callers {
        chance.one_of(&[
            Callers { exclusive: 8, values: 3 },
            Callers { exclusive: 6, values: 3 },
            Callers { exclusive: 3, values: 4 },
            Callers { exclusive: 1, values: 6 },
            Callers { exclusive: 1, values: 6 },
        ])
    }
}

pub(super) struct Names {
    pub(super) callers: Callers,
    /// In most cases a grant that the document shows, in either form.
    pub(super) held: Key,
    /// Another one.
    other: Key,
    /// Any value and grant; often the value of a waiter.
    value: String,
    id: GrantId,
    /// In most cases a waiter.
    waiter: String,
    /// The form in which the document shows its holders.
    pub(super) form: Form,
}

impl Names {
    pub(super) fn choose(
        chance: &mut Chance,
        callers: Callers,
        found: Option<&LeaseDocument>,
    ) -> Names {
        let shown: Vec<Key> = found.map(keys_in).unwrap_or_default();
        let waiting: Vec<String> = found.map(values_in_queue).unwrap_or_default();
        let any = value(chance.below(callers.values));
        // One call's number begins with another's.
        let id = call(chance.one_of(&[1, 10])).grant(chance.one_of(&[1, 2, 10]));
        let value = match chance.below(3) {
            0 if !waiting.is_empty() => chance.one_of(&waiting),
            _ => any.clone(),
        };
        let waiter = match waiting.is_empty() || chance.below(4) == 0 {
            true => any,
            false => chance.one_of(&waiting),
        };
        let one = |chance: &mut Chance| match shown.is_empty() || chance.below(5) == 0 {
            true => Key { value: value.clone(), id: id.clone() },
            false => chance.one_of(&shown),
        };
        let (held, other) = (one(chance), one(chance));
        let is_shared = found.is_some_and(LeaseDocument::is_in_shared_use);
        let form = if is_shared { Form::List } else { Form::Plain };
        Names { callers, held, other, value, id, waiter, form }
    }

    pub(super) fn step(self, chance: &mut Chance) -> Step {
        if self.form == Form::List && chance.below(5) < 2 {
            return self.in_shared_use(chance);
        }
        match chance.below(36) {
            0..=10 => Step::Acquire(How::Slow, self.request(chance)),
            11..=14 => self.fast_attempt(chance),
            15 => Step::Acquire(How::Insert, insert(self.value, self.id)),
            16 => Step::Renew(self.key(chance), chance.one_of(&LASTS)),
            17 => self.resume(chance),
            18 => {
                let lasts = chance.one_of(&LASTS);
                Step::Guard { key: self.key(chance), lasts, commits: chance.below(3) > 0 }
            }
            19 => self.renew_holders(chance),
            20..=21 => Step::Release(self.target(chance), Ending::Delete),
            22 => Step::Release(self.target(chance), Ending::Tombstone),
            23..=24 => {
                let mut target = self.target(chance);
                // Its document has to show when it was granted.
                if target.which == GrantMatch::Any {
                    target.which = GrantMatch::Grant(self.held.id);
                }
                Step::Release(target, Ending::Later(chance.one_of(&[0, 3 * HOUR, 8 * HOUR])))
            }
            25..=26 => Step::Heartbeat(self.waiter),
            27 => Step::FindEntries(self.waiter),
            _ => self.end(chance),
        }
    }

    /// A command that reads what is corrupt.
    pub(super) fn on_a_corrupt_document(self, chance: &mut Chance) -> Step {
        let key = self.key(chance);
        match chance.below(9) {
            0 => Step::Acquire(How::Slow, self.request(chance)),
            1 => Step::Renew(key, 3 * HOUR),
            2 => Step::Guard { key, lasts: 3 * HOUR, commits: true },
            3 => self.resume(chance),
            4 => Step::Heartbeat(self.waiter),
            5 => Step::FindEntries(self.waiter),
            6 => self.renew_holders(chance),
            7 => self.fast_attempt(chance),
            _ => self.end(chance),
        }
    }

    fn fast_attempt(&self, chance: &mut Chance) -> Step {
        let request = AcquireAttempt { predecessor: None, ..self.request(chance) };
        let how = match request.permits.is_exclusive() {
            true => chance.one_of(&[How::Fast, How::FastWithOthers]),
            false => How::Admit,
        };
        Step::Acquire(how, request)
    }

    /// In most cases a holder's.
    fn key(&self, chance: &mut Chance) -> Key {
        let held = &self.held.id;
        let id = chance.one_of(&[held, held, held, &self.id]).clone();
        Key { value: self.held.value.clone(), id }
    }

    fn target(&self, chance: &mut Chance) -> Target {
        let Key { value, id } = self.held.clone();
        let except = chance.one_of(&[None, Some(&self.id), Some(&id), Some(&self.other.id)]);
        let call_id = chance.one_of(&[id.call(), id.call(), call(1), call(10)]);
        let of_call = GrantMatch::Call { call_id, except: except.cloned() };
        let kinds = [GrantMatch::Grant(id), of_call.clone(), of_call, GrantMatch::Any];
        let which = chance.one_of(&kinds);
        let form = chance.one_of(&[self.form, self.form, Form::Either, Form::Plain, Form::List]);
        Target { value, which, form }
    }

    fn end(&self, chance: &mut Chance) -> Step {
        let held = self.target(chance);
        let of_waiter = Target { value: self.waiter.clone(), ..held.clone() };
        let target = chance.one_of(&[held.clone(), held, of_waiter]);
        Step::Release(target, Ending::End(chance.one_of(&SCOPES)))
    }

    /// A command of one of several holders, or of a call for a share.
    fn in_shared_use(&self, chance: &mut Chance) -> Step {
        match chance.below(6) {
            0 => return self.renew_holders(chance),
            1 => {
                let permits = shared_permits(chance);
                let request = self.request(chance);
                let request = AcquireAttempt { permits, predecessor: None, ..request };
                return Step::Acquire(How::Slow, request);
            }
            _ => {}
        }
        let Key { value, id } = self.held.clone();
        let form = chance.one_of(&[Form::List, Form::Either]);
        let target = Target { value, which: GrantMatch::Grant(id), form };
        let ending = match chance.below(5) {
            0 => Ending::Delete,
            1 => Ending::Tombstone,
            _ => Ending::End(chance.one_of(&SCOPES)),
        };
        Step::Release(target, ending)
    }

    fn renew_holders(&self, chance: &mut Chance) -> Step {
        let mut keys = vec![self.key(chance), self.other.clone()];
        keys.truncate(chance.one_of(&[1, 2, 2]));
        keys.dedup_by_key(|key| key.id.clone());
        let each = |key| (key, chance.one_of(&LASTS));
        Step::RenewHolders(keys.into_iter().map(each).collect())
    }

    /// The permits and the limit that a call or a waiter asks for.
    pub(super) fn permits(&self, chance: &mut Chance) -> Permits {
        match chance.below(8) < self.callers.exclusive {
            true => Permits::EXCLUSIVE,
            false => shared_permits(chance),
        }
    }

    fn request(&self, chance: &mut Chance) -> AcquireAttempt {
        let joins = |max_waiting| QueueOptions { waiter_ttl: LIFE, max_waiting };
        let permits = self.permits(chance);
        let predecessors: &[_] = match permits.is_exclusive() {
            true => &[None, None, Some(0), Some(1)],
            false => &[None],
        };
        // A user may choose the value of a holder.
        let is_holders = self.held.value != Texts::nobody() && chance.below(4) == 0;
        AcquireAttempt {
            value: if is_holders { &self.held.value } else { &self.value }.clone(),
            id: self.id.clone(),
            permits,
            ttl: chance.one_of(&[2 * HOUR, 5 * HOUR]),
            max_clock_skew: chance.one_of(&[0, HOUR]),
            sent: 0,
            joins: chance.one_of(&[None, Some(2), Some(2), Some(100), Some(100)]).map(joins),
            predecessor: chance.one_of(predecessors).map(value),
            details: details(chance.one_of(&[1, 2])),
        }
    }

    /// A resume by the holder's key, or a repetition whose first attempt was carried out.
    fn resume(&self, chance: &mut Chance) -> Step {
        Step::Resume {
            key: self.key(chance),
            fresh: chance.one_of(&[&self.id, &self.held.id, &call(20).resumed_grant()]).clone(),
            terms: ResumeTerms {
                ttl: chance.one_of(&[None, None, Some(HOUR), Some(7 * HOUR)]),
                default_ttl: 6 * HOUR,
                max_clock_skew: chance.one_of(&[0, HOUR]),
                bounds: (100, 366 * 24 * HOUR),
            },
        }
    }
}

/// The values that the queue shows, also those of corrupt entries.
fn values_in_queue(document: &LeaseDocument) -> Vec<String> {
    let values = document.queue.elements().iter().filter_map(Element::value);
    values.filter(|text| !text.is_empty()).cloned().collect()
}

fn insert(value: String, id: GrantId) -> AcquireAttempt {
    AcquireAttempt {
        value,
        id,
        permits: Permits::EXCLUSIVE,
        ttl: 2 * HOUR,
        max_clock_skew: HOUR,
        sent: 0,
        joins: Some(QueueOptions { waiter_ttl: LIFE, max_waiting: 2 }),
        predecessor: None,
        details: details(3),
    }
}

/// The grants that the document shows, in either form.
fn keys_in(document: &LeaseDocument) -> Vec<Key> {
    let listed = document.holders.elements().iter().map(HolderElement::shown);
    let exclusive = (document.value.as_ref(), document.grant.as_ref().map(|grant| &grant.id));
    let shown = listed.chain([exclusive]).filter_map(|(value, id)| value.zip(id));
    let keys = shown.map(|(value, id)| Key { value: value.clone(), id: id.clone() });
    keys.filter(|key| key.value != Texts::shared()).collect()
}
