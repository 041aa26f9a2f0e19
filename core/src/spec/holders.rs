//! The holders of a lease in shared use, and their permits.

use super::types::Types;

/// `holders`. It counts only while the document's value is that of shared use.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Holders<T: Types> {
    /// Missing. An empty list is as good.
    Absent,
    /// A value that is no list.
    Damaged,
    /// The elements, in the order in which they were admitted.
    List(Vec<HolderElement<T>>),
}

/// An element of `holders`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum HolderElement<T: Types> {
    /// A holder of ours.
    Holder(Holder<T>),
    /// An element that is not a holder of ours. One of them makes the whole list corrupt: nobody is admitted beside it.
    Damaged(DamagedHolder<T>),
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

/// One holder of a lease in shared use, with its grant and its permits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Holder<T: Types> {
    /// The granted value.
    pub value: T::Value,
    /// Which grant this is. Renewals and releases name it.
    pub id: T::GrantId,
    /// The echo of the command or heartbeat from which the grant counts.
    pub sent: i64,
    /// When it was admitted.
    pub acquired_at: i64,
    /// Until when its permits are in use. Others may be admitted in its place from then on.
    pub expires_at: i64,
    /// For how long the holder relies on a grant or a renewal, less its margin.
    pub ttl: i64,
    /// The server adds this to the ttl.
    pub max_clock_skew: i64,
    /// How many permits it has.
    pub permits: i64,
    /// The most permits that may be in use while it holds, its own included.
    pub limit: i64,
    /// Counts the writes that grant, so that each of them changes the document.
    pub writes: i64,
    /// The holder, for people.
    pub details: T::Details,
}

/// One waiter that a write admitted: the change stream tells its process.
///
/// `admitted` has all that one write admitted, in one text. [`format::ADMITTED`](crate::format::ADMITTED) has its
/// grammar.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Admission<T: Types> {
    /// The id of its entry, which is now that of its grant.
    pub id: T::GrantId,
    /// The echo of its newest heartbeat.
    pub sent: i64,
    /// When its grant expires.
    pub until: i64,
}

impl<T: Types> Holders<T> {
    /// A list of these holders, absent instead of empty.
    pub(super) fn of(holders: impl IntoIterator<Item = Holder<T>>) -> Holders<T> {
        Holders::List(holders.into_iter().map(HolderElement::Holder).collect()).without_empty_list()
    }

    /// The same list, absent instead of empty.
    pub fn without_empty_list(self) -> Holders<T> {
        if self == Holders::List(Vec::new()) { Holders::Absent } else { self }
    }

    /// The elements; none where there is no list.
    pub fn elements_mut(&mut self) -> &mut [HolderElement<T>] {
        match self {
            Holders::List(elements) => elements,
            Holders::Absent | Holders::Damaged => &mut [],
        }
    }

    pub(super) fn elements(&self) -> &[HolderElement<T>] {
        match self {
            Holders::List(elements) => elements,
            Holders::Absent | Holders::Damaged => &[],
        }
    }

    /// The holders, where each element is one. Each has a permit at least.
    pub(super) fn all(&self) -> Option<Vec<Holder<T>>> {
        let holder = |element: &HolderElement<T>| match element {
            HolderElement::Holder(holder) if holder.permits >= 1 => Some(holder.clone()),
            HolderElement::Holder(_) | HolderElement::Damaged(_) => None,
        };
        self.elements().iter().map(holder).collect()
    }

    /// Whether each element that is a document has an expiry that is a date.
    pub(super) fn are_dated(&self) -> bool {
        let is_dated = |element: &HolderElement<T>| match element {
            HolderElement::Holder(_) => true,
            HolderElement::Damaged(damaged) => damaged.expires_at.is_some() || !damaged.is_document,
        };
        self.elements().iter().all(is_dated)
    }

    /// The list without these elements.
    pub(super) fn without(self, is_meant: impl Fn(&HolderElement<T>) -> bool) -> Holders<T> {
        match self {
            Holders::List(mut elements) => {
                elements.retain(|element| !is_meant(element));
                Holders::List(elements).without_empty_list()
            }
            other @ (Holders::Absent | Holders::Damaged) => other,
        }
    }

    /// The holders' latest expiry, as `$max` computes it.
    pub(super) fn latest_expiry(&self) -> Option<i64> {
        let expiry = |element: &HolderElement<T>| match element {
            HolderElement::Holder(holder) => Some(holder.expires_at),
            HolderElement::Damaged(damaged) => damaged.expires_at,
        };
        self.elements().iter().filter_map(expiry).max()
    }
}

impl<T: Types> HolderElement<T> {
    /// The value and the grant that it shows.
    pub(super) fn shown(&self) -> (Option<&T::Value>, Option<&T::GrantId>) {
        match self {
            HolderElement::Holder(holder) => (Some(&holder.value), Some(&holder.id)),
            HolderElement::Damaged(damaged) => (damaged.value.as_ref(), damaged.id.as_ref()),
        }
    }
}
