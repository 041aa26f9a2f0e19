//! The steps of a sequence, chosen at random.

use crate::spec::permits::{AdmitRequest, Holder, HolderElement, Holders, ReleaseScope, Share};
use crate::spec::{Expiry, QueueOptions, Types};
use mongo_lease_core_tests::Chance;

use super::documents::Put;
use crate::commands::tests::agreement::queue;
use crate::commands::tests::agreement::small::{
    AcquireRequest, Details, Document, GrantId, GrantMatch, Key, Small, Value,
};
use crate::commands::tests::agreement::steps::{HOUR, LIFE, Step};

/// A step.
#[derive(Clone, Debug)]
pub(super) enum Permitted {
    Admit(AdmitRequest<Small>),
    /// Its attempt number is this step's own.
    FastAdmit(AdmitRequest<Small>),
    /// Each grant for its own time.
    Renew {
        keys: Vec<(Key, i64)>,
    },
    ReleaseAndAdmit {
        value: Value,
        which: GrantMatch,
        scope: ReleaseScope,
    },
    ReleasePermit {
        key: Key,
    },
    DeleteLastHolder {
        key: Key,
    },
    /// A step of the other comparison.
    Other(Step),
    /// Another program puts the document in shared use. The top is so many hours from now; none is the latest of the
    /// holders'.
    WriteHolders {
        holders: Vec<Put>,
        top: Option<Expiry>,
    },
    /// Another program writes a value that is no list.
    WriteNoHolders {
        form: usize,
    },
    /// Another program gives each entry of the queue a share, or takes it away. Before that it may write another queue.
    WriteShares {
        queue: Option<Vec<queue::Put>>,
        shares: Vec<Option<Share>>,
    },
}

const SHARES: [Share; 6] = [
    Share { permits: 1, limit: 2 },
    Share { permits: 2, limit: 2 },
    Share { permits: 1, limit: 3 },
    Share { permits: 2, limit: 3 },
    Share { permits: 1, limit: 1_000 },
    Share { permits: 1, limit: 1_000 },
];
/// Shares that no call may ask for.
const INVALID: [Share; 4] = [
    Share { permits: 0, limit: 2 },
    Share { permits: -5, limit: 2 },
    Share { permits: 3, limit: 2 },
    Share { permits: 1, limit: 1_001 },
];

impl Permitted {
    pub(super) fn choose(chance: &mut Chance, found: Option<&Document>, now: i64) -> Permitted {
        let named = Named::choose(chance, found);
        match chance.below(24) {
            0..=6 => Permitted::Admit(named.request(chance)),
            7..=8 => Permitted::FastAdmit(named.request(chance)),
            9..=10 => {
                let keys = [named.key(), named.other];
                let count = chance.one_of(&[1, 2, 2]);
                let mut lasts = || chance.one_of(&[2 * HOUR, 4 * HOUR, 9 * HOUR]);
                let lasts = [lasts(), lasts()];
                let keys = distinct(keys[..count].to_vec());
                Permitted::Renew { keys: keys.into_iter().zip(lasts).collect() }
            }
            11..=14 => Permitted::ReleaseAndAdmit {
                value: named.value,
                which: named.grant(chance),
                scope: chance.one_of(&[ReleaseScope::Grant, ReleaseScope::GrantOrEntry]),
            },
            15..=16 => Permitted::ReleasePermit { key: named.key() },
            17 => Permitted::DeleteLastHolder { key: named.key() },
            18 => Permitted::WriteHolders {
                holders: Put::choose(chance),
                top: chance.one_of(&[
                    None,
                    None,
                    None,
                    None,
                    Some(Expiry::At(8)),
                    Some(Expiry::At(-2)),
                    Some(Expiry::Damaged),
                ]),
            },
            19 if chance.below(4) == 0 => {
                let form = usize::try_from(chance.below(60)).expect("a small number");
                Permitted::WriteNoHolders { form }
            }
            19..=20 => {
                let mut share = |_| match chance.below(6) {
                    0 => Some(chance.one_of(&INVALID)),
                    1..=2 => None,
                    _ => Some(chance.one_of(&SHARES)),
                };
                let shares = (0..4).map(&mut share).collect();
                let queue = (chance.below(4) > 0).then(|| live_queue(chance));
                Permitted::WriteShares { queue, shares }
            }
            _ => Permitted::Other(Step::choose(chance, found, now)),
        }
    }
}

fn distinct(mut keys: Vec<Key>) -> Vec<Key> {
    keys.dedup_by_key(|key| key.id);
    keys
}

/// A queue of live waiters. The newest heartbeat of some is ahead of the server's clock.
fn live_queue(chance: &mut Chance) -> Vec<queue::Put> {
    let first = chance.one_of(&[2, 4]);
    let beaten = chance.one_of(&[-1, -1, 2]);
    let put = |value| queue::Put::Entry {
        value: Value(value),
        id: GrantId { call: 1, attempt: 30 + value },
        beaten,
        ttl: 2 * HOUR,
    };
    (first..first + 3).map(put).collect()
}

/// The holder or waiter that a step names.
struct Named {
    /// In most cases a holder, with its grant.
    value: Value,
    id: GrantId,
    /// Another holder, if there is one.
    other: Key,
}

impl Named {
    fn choose(chance: &mut Chance, found: Option<&Document>) -> Named {
        let held: Vec<Key> = found.map(keys_in).unwrap_or_default();
        let waiting: Vec<Value> = found.map_or(Vec::new(), |document| {
            document.queue.entries().map(|entry| entry.value).collect()
        });
        let value = Value(u8::try_from(chance.below(6)).expect("a small number"));
        let id = GrantId { call: chance.one_of(&[1, 10]), attempt: chance.one_of(&[1, 2, 10]) };
        let any = Key { value, id };
        let key = match chance.below(6) {
            0..=3 if !held.is_empty() => chance.one_of(&held),
            4 if !waiting.is_empty() => Key { value: chance.one_of(&waiting), id },
            _ => any,
        };
        let other = if held.is_empty() { any } else { chance.one_of(&held) };
        Named { value: key.value, id: key.id, other }
    }

    fn key(&self) -> Key {
        Key { value: self.value, id: self.id }
    }

    fn grant(&self, chance: &mut Chance) -> GrantMatch {
        let except = chance.one_of(&[None, None, Some(self.id), Some(self.other.id)]);
        let call = chance.one_of(&[self.id.call, self.id.call, 1, 10]);
        let grant = GrantMatch::Grant(self.id);
        chance.one_of(&[grant, grant, GrantMatch::Call(call, except), GrantMatch::Any])
    }

    fn request(&self, chance: &mut Chance) -> AdmitRequest<Small> {
        let joins = |queue_max| QueueOptions { life: LIFE, queue_max };
        let any = Value(u8::try_from(chance.below(6)).expect("a small number"));
        let value = chance.one_of(&[self.value, any]);
        let acquire = AcquireRequest {
            value,
            id: self.id,
            ttl: chance.one_of(&[2 * HOUR, 5 * HOUR]),
            max_clock_skew: chance.one_of(&[0, HOUR]),
            sent: 0,
            joins: chance.one_of(&[None, Some(2), Some(100), Some(100)]).map(joins),
            predecessor: None,
            details: chance.one_of(&[Details(1), Details(2)]),
        };
        AdmitRequest { acquire, call: self.id.call, share: chance.one_of(&SHARES) }
    }
}

/// The grants that the document shows, in either form, and no value of a document without a holder.
fn keys_in(document: &Document) -> Vec<Key> {
    let exclusive = document.value.zip(document.grant.map(|grant| grant.id));
    let exclusive = exclusive.map(|(value, id)| Key { value, id });
    let elements = match &document.holders {
        Holders::List(elements) => elements.as_slice(),
        Holders::Absent | Holders::Damaged => &[],
    };
    let shown = elements.iter().filter_map(|element| match element {
        HolderElement::Holder(Holder { value, id, .. }) => Some(Key { value: *value, id: *id }),
        HolderElement::Damaged(damaged) => {
            damaged.value.zip(damaged.id).map(|(value, id)| Key { value, id })
        }
    });
    let is_a_calls = |key: &Key| ![Small::shared(), Small::nobody()].contains(&key.value);
    shown.chain(exclusive).filter(is_a_calls).collect()
}
