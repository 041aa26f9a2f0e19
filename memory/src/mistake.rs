//! A server with a deliberate mistake, which the simulation must find. It exists under a private feature alone.

use mongo_lease_core::texts::LeaseDocument;

/// The document that a mistaken server sees in place of one, and the one that it writes in place of a command's result.
#[cfg(feature = "__mistakes")]
pub trait Lens {
    /// The document as the command sees it.
    fn seen(&self, found: Option<LeaseDocument>, now_ms: i64) -> Option<LeaseDocument>;

    /// The document as it is written.
    fn written(
        &self,
        before: Option<&LeaseDocument>,
        after: Option<LeaseDocument>,
        now_ms: i64,
    ) -> Option<LeaseDocument>;
}

#[cfg(feature = "__mistakes")]
mod made {
    use std::cell::{Cell, RefCell};

    use mongo_lease_core::spec::Off;

    use super::*;

    thread_local! {
        static OFF: Cell<Off> = const { Cell::new(Off("")) };
        static LENS: RefCell<Option<Box<dyn Lens>>> = const { RefCell::new(None) };
    }

    /// Switches this protection off and lets the server see and write through the lens, from now on, in this thread.
    pub fn make(off: Off, lens: Option<Box<dyn Lens>>) {
        OFF.set(off);
        LENS.set(lens);
    }

    pub(crate) fn built() -> Off {
        OFF.get()
    }

    pub(crate) fn seen(found: Option<LeaseDocument>, now_ms: i64) -> Option<LeaseDocument> {
        LENS.with_borrow(|lens| match lens {
            Some(lens) => lens.seen(found, now_ms),
            None => found,
        })
    }

    pub(crate) fn written(
        before: Option<&LeaseDocument>,
        after: Option<LeaseDocument>,
        now_ms: i64,
    ) -> Option<LeaseDocument> {
        LENS.with_borrow(|lens| match lens {
            Some(lens) => lens.written(before, after, now_ms),
            None => after,
        })
    }
}

#[cfg(not(feature = "__mistakes"))]
mod made {
    use mongo_lease_core::spec::AsBuilt;

    use super::*;

    pub(crate) const fn built() -> AsBuilt {
        AsBuilt
    }

    pub(crate) fn seen(found: Option<LeaseDocument>, _now_ms: i64) -> Option<LeaseDocument> {
        found
    }

    pub(crate) fn written(
        _before: Option<&LeaseDocument>,
        after: Option<LeaseDocument>,
        _now_ms: i64,
    ) -> Option<LeaseDocument> {
        after
    }
}

#[cfg(feature = "__mistakes")]
pub use made::make;
pub(crate) use made::{built, seen, written};
