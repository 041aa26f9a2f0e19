//! Mistakes of the server: it sees or writes another document than it should, for some commands.

use std::any::Any;

use mongo_lease::simulated::Lens;
use mongo_lease_core::commands::{
    Delete, End, FastAcquire, FastAcquireMany, FastAdmit, RenewMany, SlowAcquire,
};
use mongo_lease_core::spec::{Expiry, Holder, HolderElement, Listed, Queue};
use mongo_lease_core::texts::{LeaseDocument, Texts};

/// How much too early a lease is taken, in milliseconds.
const EARLY_MS: i64 = 1_500;
/// How much too long a grant lasts, in milliseconds.
const FAR_MS: i64 = 60_000;

type Seen = Box<dyn Fn(LeaseDocument, i64) -> LeaseDocument>;
type Written = Box<dyn Fn(Option<&LeaseDocument>, Option<LeaseDocument>) -> Option<LeaseDocument>>;

/// The eyes and the hand of a mistaken server.
pub(super) struct Look {
    seen: Seen,
    written: Written,
}

impl Look {
    fn seen(seen: impl Fn(LeaseDocument, i64) -> LeaseDocument + 'static) -> Look {
        Look { seen: Box::new(seen), written: Box::new(|_, after| after) }
    }

    /// Changes the document that a command writes. The document before it comes first.
    fn written(
        written: impl Fn(Option<&LeaseDocument>, Option<LeaseDocument>) -> Option<LeaseDocument>
        + 'static,
    ) -> Look {
        Look { seen: Box::new(|document, _| document), written: Box::new(written) }
    }

    fn and_written(self, change: impl Fn(&LeaseDocument, &mut LeaseDocument) + 'static) -> Look {
        let written = move |before: Option<&LeaseDocument>, mut after: Option<LeaseDocument>| {
            if let (Some(before), Some(after)) = (before, &mut after) {
                change(before, after);
            }
            after
        };
        Look { written: Box::new(written), ..self }
    }
}

impl Lens for Look {
    fn seen(&self, found: Option<LeaseDocument>, now_ms: i64) -> Option<LeaseDocument> {
        found.map(|document| (self.seen)(document, now_ms))
    }

    fn written(
        &self,
        before: Option<&LeaseDocument>,
        after: Option<LeaseDocument>,
        now_ms: i64,
    ) -> Option<LeaseDocument> {
        // A command that has changed nothing has not changed what it has seen.
        if before.is_some() && after == self.seen(before.cloned(), now_ms) {
            return before.cloned();
        }
        (self.written)(before, after)
    }
}

fn is<C: Any>(command: &dyn Any) -> bool {
    command.is::<C>()
}

fn is_acquire(command: &dyn Any) -> bool {
    is::<SlowAcquire>(command) || is::<FastAcquire>(command) || is::<FastAcquireMany>(command)
}

/// An acquire takes an exclusive lease that expires within 1.5 s for a free one.
pub(super) fn early_take_over(command: &dyn Any) -> Option<Look> {
    is_acquire(command).then(|| {
        let seen = |mut document: LeaseDocument, now: i64| {
            let ends_soon = matches!(document.expiry, Expiry::At(at) if at <= now + EARLY_MS);
            if ends_soon && !document.is_in_shared_use() {
                document.expiry = document.expiry.min(Expiry::At(now));
            }
            document
        };
        Look::seen(seen).and_written(|before, after| {
            if before.value == after.value {
                after.expiry = before.expiry.max(after.expiry);
            }
        })
    })
}

/// A grant to a caller and a renewal last a minute too long.
pub(super) fn far_expiry(command: &dyn Any) -> Option<Look> {
    (is_acquire(command) || is::<RenewMany>(command)).then(|| {
        Look::written(|before, mut after| {
            if let Some(after) = &mut after {
                let was = before.map_or(Expiry::Absent, |before| before.expiry);
                if let Expiry::At(at) = after.expiry
                    && after.expiry > was
                    && !after.is_in_shared_use()
                {
                    after.expiry = Expiry::At(at + FAR_MS);
                }
            }
            after
        })
    })
}

/// A new waiter joins at the front.
pub(super) fn out_of_line(command: &dyn Any) -> Option<Look> {
    is::<SlowAcquire>(command).then(|| {
        let look = Look::seen(|document, _| document);
        look.and_written(|before, after| {
            let length = before.queue.entries().count();
            if let Listed::List(entries) = &mut after.queue
                && entries.len() > length
            {
                entries.rotate_right(1);
            }
        })
    })
}

fn left(command: &dyn Any, shared: bool) -> Option<Look> {
    is::<Delete>(command).then(|| {
        Look::written(move |before, after| match (before, after) {
            (Some(before), None) if before.is_in_shared_use() == shared => {
                let value = Some(String::new());
                Some(LeaseDocument { value, expiry: Expiry::Absent, ..before.clone() })
            }
            (_, after) => after,
        })
    })
}

/// A release leaves the document of an exclusive lease, without an expiry.
pub(super) fn left_document(command: &dyn Any) -> Option<Look> {
    left(command, false)
}

/// The last holder's release leaves the document of a lease that several hold, without an expiry.
pub(super) fn left_share(command: &dyn Any) -> Option<Look> {
    left(command, true)
}

/// The first attempt of a call for permits ignores an exclusive holder.
pub(super) fn reader_beside_writer(command: &dyn Any) -> Option<Look> {
    is::<FastAdmit>(command).then(|| {
        Look::seen(|document, _| match document.is_in_shared_use() {
            true => document,
            false => LeaseDocument { value: None, expiry: Expiry::Absent, ..document },
        })
    })
}

/// The first attempt of a call for permits ignores the queue.
pub(super) fn barging(command: &dyn Any) -> Option<Look> {
    is::<FastAdmit>(command).then(|| {
        let look = Look::seen(|document, _| LeaseDocument { queue: Queue::Absent, ..document });
        look.and_written(|before, after| after.queue = before.queue.clone())
    })
}

/// Nobody is admitted before all holders of permits have gone.
pub(super) fn empty_first(command: &dyn Any) -> Option<Look> {
    let ending = command.downcast_ref::<End>();
    (is::<SlowAcquire>(command) || ending.is_some()).then(|| {
        let ended = ending.into_iter().flat_map(|end| &end.targets);
        let ended: Vec<String> = ended.map(|target| target.value.clone()).collect();
        let seen = move |mut document: LeaseDocument, _| {
            for holder in holders(&mut document) {
                if !ended.contains(&holder.grant.value) {
                    holder.limit = 0;
                }
            }
            document
        };
        Look::seen(seen).and_written(|before, after| {
            let limits = before.sharers();
            for holder in holders(after) {
                let was = limits.iter().find(|it| it.grant.id == holder.grant.id);
                holder.limit = was.map_or(holder.limit, |it| it.limit);
            }
        })
    })
}

/// A release takes the first holder out, whoever that is.
pub(super) fn counted_down(command: &dyn Any) -> Option<Look> {
    is::<End>(command).then(|| {
        let look = Look::seen(|document, _| document);
        look.and_written(|before, after| {
            let (before, mut left) = (before.sharers(), after.sharers());
            if let Some(first) = before.first()
                && left.len() + 1 == before.len()
                && left.first() == Some(first)
            {
                let ended = before.iter().find(|it| !left.contains(it)).cloned();
                left.extend(ended);
                left.remove(0);
                after.holders = Listed::List(left.into_iter().map(HolderElement::Holder).collect());
            }
        })
    })
}

fn holders(document: &mut LeaseDocument) -> impl Iterator<Item = &mut Holder<Texts>> {
    document.holders.elements_mut().iter_mut().filter_map(|element| match element {
        HolderElement::Holder(holder) => Some(holder),
        HolderElement::Damaged(_) => None,
    })
}
