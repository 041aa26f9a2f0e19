//! The document of one lease, and the types of what a command only copies and compares.

use std::fmt::Debug;
use std::hash::Hash;

/// The types of identities. The library has texts, and the model checker small numbers.
pub trait Types: Copy + Debug + Ord + Hash {
    /// A holder's value. Each acquire call has one, which no other call has unless its user chose it.
    type Value: Clone + Debug + Ord + Hash;
    /// The id of an acquire call.
    type CallId: Clone + Debug + Ord + Hash;
    /// The id of a grant. Each attempt of a call has its own, so that their grants can be distinguished.
    type GrantId: Clone + Debug + Ord + Hash;
    /// The label of a holder and its metadata, which people read.
    type Details: Clone + Debug + Eq + Hash;

    /// Whether a grant belongs to a call.
    fn is_of_call(grant: &Self::GrantId, call: &Self::CallId) -> bool;

    /// The value of a document without a holder. No call has it. On a server it is new each time, because other
    /// programs may have a unique index on `value`.
    fn nobody() -> Self::Value;

    /// The value of a document that several hold. No call has it, and it is always the same.
    fn shared() -> Self::Value;
}

/// The expiry of a tombstone: before everything that any clock shows.
pub const LONG_AGO: i64 = 0;

/// The document of one lease, found by its `name`.
///
/// `value` and `expiry` belong to the usual recipe: an upsert of `{name, value, expiresAt}` where `expiresAt` is
/// missing or past, and a delete by name and value. Other programs write these two, and leave the other fields as they
/// were.
///
/// A lease is held by one holder, which `value` and `grant` show, or it is *held by several*: then `value` is nobody's,
/// `holders` are who holds, and `expiry` is the latest of theirs. So others see the name as held until the last of them
/// has expired.
///
/// [`format`](crate::format) has the stored names, which add the units. `owner` and `metadata` are the details.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Document<T: Types> {
    /// `value`: who holds the lease.
    pub value: Option<T::Value>,
    /// `expiresAt`: until when. Others may be granted the lease from then on.
    pub expiry: Expiry,
    /// `grant`: how the holder came by it. It belongs to the holder only while its `value` is the document's.
    pub grant: Option<Grant<T>>,
    /// `queue`: who waits.
    pub queue: Queue<T>,
    /// `promoted`: what the change stream tells a waiter.
    pub promoted: Option<Promoted<T>>,
    /// `holders`: the holders, if it is held by several. While `value` is another, these are earlier holders.
    pub holders: Holders<T>,
    /// `admitted`: what the change stream tells waiters that one write admitted. Empty where it is missing.
    pub admitted: Vec<Admission<T>>,
}

/// `expiresAt`. Its order is that of time: free, held until a date, and held without end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Expiry {
    /// Missing, or null. The lease is free.
    Absent,
    /// A date.
    At(i64),
    /// A value of another type: the document is corrupt. No command reads it as a time or grants the lease.
    Damaged,
}

/// One grant: `grant`, or a part of an element of `holders`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Grant<T: Types> {
    /// The value that it was granted to.
    pub value: T::Value,
    /// Which grant this is. Renewals, guards and releases name it.
    pub id: T::GrantId,
    /// The echo of the command or heartbeat from which the grant counts.
    pub sent: i64,
    /// When it was granted.
    pub acquired_at: i64,
    /// The ttl that the holder asked for: the longest of its call's attempts, or that of a resume.
    pub ttl: i64,
    /// How much longer than the ttl it lasts for the server.
    pub max_clock_skew: i64,
    /// Counts the writes that grant, guard or resume, so that each of them changes the document: an update that changes
    /// nothing has no oplog entry, so no token and no acknowledgement of its own, and no transaction conflicts with it.
    /// A renewal is not counted: its echo changes the document.
    pub writes: i64,
    /// The holder, for people.
    pub details: T::Details,
}

/// One grant of one holder: this is how renewals and guards name theirs in a document. With the name of the lease it is
/// a `GrantKey` (`commands`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OwnGrant<T: Types> {
    /// The holder's value.
    pub value: T::Value,
    /// The id of its grant.
    pub id: T::GrantId,
}

/// A field that is a list.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Listed<E> {
    /// Missing. An empty list is as good.
    Absent,
    /// A value that is no list. It has no elements.
    Damaged,
    /// The elements.
    List(Vec<E>),
}

/// `queue`: the first waiter first.
pub type Queue<T> = Listed<Element<T>>;

/// `holders`, in the order in which they were admitted.
pub type Holders<T> = Listed<HolderElement<T>>;

/// An element of a queue.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Element<T: Types> {
    /// A waiter's entry.
    Entry(Entry<T>),
    /// An element that is not an entry of ours, though it may show a value. No command grants to it. While it is there,
    /// the queue is not empty. The next acquire or release that changes the queue removes it.
    Damaged(Option<T::Value>),
}

/// A waiter's entry in the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Entry<T: Types> {
    /// The value to which a promotion grants the lease.
    pub value: T::Value,
    /// The id of the grant that a promotion makes: that of the attempt which joined.
    pub id: T::GrantId,
    /// The echo of the newest heartbeat. A promoted waiter believes in its lease from here on, for no longer than the
    /// waiter ttl until its first renewal.
    pub sent: i64,
    /// When the newest heartbeat arrived.
    pub heartbeat_at: i64,
    /// Until when the entry counts. A waiter that has died is passed over from then on.
    pub expires_at: i64,
    /// The ttl that the waiter asks for.
    pub ttl: i64,
    /// The maximum clock skew that the waiter asks for.
    pub max_clock_skew: i64,
    /// The permits that the waiter asks for.
    pub permits: i64,
    /// The limit under which it asks for them: 1 for an exclusive lease.
    pub limit: i64,
    /// The waiter, for people.
    pub details: T::Details,
}

/// An element of `holders`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum HolderElement<T: Types> {
    /// A holder of ours.
    Holder(Holder<T>),
    /// An element that is not a holder of ours. One of them makes the whole list corrupt: nobody is admitted beside it.
    Damaged(DamagedHolder<T>),
}

/// One holder of a lease that several hold, with its grant and its permits.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Holder<T: Types> {
    /// Its grant. The database has these fields beside the others.
    pub grant: Grant<T>,
    /// Until when its permits are in use. Others may be admitted in its place from then on.
    pub expires_at: i64,
    /// How many permits it has.
    pub permits: i64,
    /// The most permits that may be in use while it holds, its own included.
    pub limit: i64,
}

/// The parts of a holder that a corrupt element shows: each is absent where it has a foreign type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DamagedHolder<T: Types> {
    /// Its value.
    pub value: Option<T::Value>,
    /// The id of its grant.
    pub id: Option<T::GrantId>,
    /// When its permits become free.
    pub expires_at: Option<i64>,
    /// Whether it is a document. Another element shows nothing.
    pub is_document: bool,
}

/// `admitted`: one waiter that a write admitted, as the change stream tells its process, by
/// [`format::ADMITTED`](crate::format::ADMITTED).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Admission<T: Types> {
    /// The id of its entry, which is now that of its grant.
    pub id: T::GrantId,
    /// The echo of its newest heartbeat.
    pub sent: i64,
    /// When its grant expires.
    pub until: i64,
}

/// `promoted`: what a waiter's process reads in the change stream, by [`format::PROMOTED`](crate::format::PROMOTED).
/// The id begins with the manager's id, by which the stream filters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Promoted<T: Types> {
    /// An entry was granted the lease.
    Entry {
        /// The entry's id, which is now that of its grant.
        id: T::GrantId,
        /// The echo of its newest heartbeat.
        sent: i64,
    },
    /// No promotion: the first waiter should send an attempt, because the lease will be free at another time.
    Recheck {
        /// The id of its entry.
        id: T::GrantId,
    },
}

impl<T: Types> Document<T> {
    /// The document with which an upsert begins: nobody holds it.
    pub fn empty() -> Document<T> {
        Document {
            value: None,
            expiry: Expiry::Absent,
            grant: None,
            queue: Queue::Absent,
            promoted: None,
            holders: Holders::Absent,
            admitted: Vec::new(),
        }
    }

    /// Whether this value holds the lease, valid or not.
    pub(super) fn is_held_by(&self, value: &T::Value) -> bool {
        self.value.as_ref() == Some(value)
    }

    /// The grant, where it belongs to the holder. After a foreign write it does not.
    pub fn holders_grant(&self) -> Option<&Grant<T>> {
        self.grant.as_ref().filter(|grant| self.is_held_by(&grant.value))
    }

    /// The holders in the list. None where it is not held by several, or is corrupt. Each has a permit at least.
    pub fn sharers(&self) -> Vec<Holder<T>> {
        let holder = |element: &HolderElement<T>| match element {
            HolderElement::Holder(holder) if holder.permits >= 1 => Some(holder.clone()),
            HolderElement::Holder(_) | HolderElement::Damaged(_) => None,
        };
        let is_shared = self.is_in_shared_use() && matches!(self.expiry, Expiry::At(_));
        let holders = self.holders.elements().iter().filter(|_| is_shared);
        holders.map(holder).collect::<Option<_>>().unwrap_or_default()
    }

    /// Whether its value says that `holders` are who holds, valid or not.
    pub fn is_in_shared_use(&self) -> bool {
        self.is_held_by(&T::shared())
    }

    /// Whether it shows this grant. An id belongs to one grant, so `grant.value` need not be compared.
    pub(super) fn shows(&self, key: &OwnGrant<T>) -> bool {
        self.is_held_by(&key.value) && self.grant.as_ref().is_some_and(|grant| grant.id == key.id)
    }

    /// The number of writes so far.
    pub(super) fn writes(&self) -> i64 {
        self.grant.as_ref().map_or(0, |grant| grant.writes)
    }
}

impl Expiry {
    /// Whether others may be granted the lease at this moment.
    pub(super) fn has_passed(self, now: i64) -> bool {
        self <= Expiry::At(now)
    }

    /// The time until the expiry. `None` where it is missing or corrupt.
    pub(super) fn remaining(self, now: i64) -> Option<i64> {
        match self {
            Expiry::At(at) => Some((at - now).max(0)),
            Expiry::Absent | Expiry::Damaged => None,
        }
    }
}

impl<E> Listed<E> {
    /// A list of these, absent instead of empty: the server's acquire may leave an empty one.
    pub(super) fn of(elements: Vec<E>) -> Listed<E> {
        if elements.is_empty() { Listed::Absent } else { Listed::List(elements) }
    }

    /// The same list, absent instead of empty.
    pub fn without_empty_list(self) -> Listed<E> {
        self.retaining(|_| true)
    }

    /// The list of those of its elements that fit.
    pub(super) fn retaining(self, fits: impl Fn(&E) -> bool) -> Listed<E> {
        match self {
            Listed::List(elements) => Listed::of(elements.into_iter().filter(fits).collect()),
            other @ (Listed::Absent | Listed::Damaged) => other,
        }
    }

    /// Whether it has no element, valid or corrupt.
    pub fn is_empty(&self) -> bool {
        self.elements().is_empty()
    }

    pub(crate) fn elements(&self) -> &[E] {
        match self {
            Listed::List(elements) => elements,
            Listed::Absent | Listed::Damaged => &[],
        }
    }

    /// The elements; none where there is no list.
    pub fn elements_mut(&mut self) -> &mut [E] {
        match self {
            Listed::List(elements) => elements,
            Listed::Absent | Listed::Damaged => &mut [],
        }
    }
}

impl<T: Types> Queue<T> {
    /// The entries, live or dead.
    pub fn entries(&self) -> impl Iterator<Item = &Entry<T>> {
        self.elements().iter().filter_map(|element| match element {
            Element::Entry(entry) => Some(entry),
            Element::Damaged(_) => None,
        })
    }

    /// How many elements are before the first one with this value, which may be corrupt. (The path `queue.value` skips
    /// elements without a value.)
    pub fn position(&self, value: &T::Value) -> Option<usize> {
        let mut values = self.elements().iter().filter_map(Element::value);
        values.position(|shown| shown == value)
    }
}

impl<T: Types> Element<T> {
    /// The value that it shows.
    pub(crate) fn value(&self) -> Option<&T::Value> {
        match self {
            Element::Entry(entry) => Some(&entry.value),
            Element::Damaged(value) => value.as_ref(),
        }
    }
}

impl<T: Types> Entry<T> {
    /// A grant to the waiter.
    pub(super) fn grant(&self, now: i64, writes: i64) -> Grant<T> {
        Grant {
            value: self.value.clone(),
            id: self.id.clone(),
            sent: self.sent,
            acquired_at: now,
            ttl: self.ttl,
            max_clock_skew: self.max_clock_skew,
            writes,
            details: self.details.clone(),
        }
    }
}

impl<T: Types> HolderElement<T> {
    /// The value and the grant that it shows.
    pub(crate) fn shown(&self) -> (Option<&T::Value>, Option<&T::GrantId>) {
        match self {
            HolderElement::Holder(Holder { grant, .. }) => (Some(&grant.value), Some(&grant.id)),
            HolderElement::Damaged(damaged) => (damaged.value.as_ref(), damaged.id.as_ref()),
        }
    }

    /// When it expires, if it shows a date.
    pub(super) fn expires_at(&self) -> Option<i64> {
        match self {
            HolderElement::Holder(holder) => Some(holder.expires_at),
            HolderElement::Damaged(damaged) => damaged.expires_at,
        }
    }
}
