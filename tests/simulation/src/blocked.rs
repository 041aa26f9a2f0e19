//! Commands that a transaction blocks: those that would change the document that its guard has written.

use std::cell::Cell;
use std::rc::Rc;

use mongo_lease::simulated::{Lens, SentCommand};
use mongo_lease_core::texts::LeaseDocument;

use crate::control::Control;
use crate::world::World;

/// Whether the command would change a document that a transaction blocks. Nothing is written.
pub(crate) fn is_blocked(world: &World, command: &dyn SentCommand) -> bool {
    let blocked = world.transactions.blocked();
    if blocked.is_empty() {
        return false;
    }
    let would_change = Rc::new(Cell::new(false));
    let dry = Dry { blocked, would_change: Rc::clone(&would_change) };
    Control::see_through(world.control, Some(Box::new(dry)));
    command.copy().carry_out();
    Control::see_through(world.control, None);
    would_change.get()
}

/// A server that writes nothing, and notes whether it would have changed one of these documents.
struct Dry {
    blocked: Vec<LeaseDocument>,
    would_change: Rc<Cell<bool>>,
}

impl Lens for Dry {
    fn seen(&self, found: Option<LeaseDocument>, _now_ms: i64) -> Option<LeaseDocument> {
        found
    }

    fn written(
        &self,
        before: Option<&LeaseDocument>,
        after: Option<LeaseDocument>,
        _now_ms: i64,
    ) -> Option<LeaseDocument> {
        if let Some(before) = before
            && after.as_ref() != Some(before)
            && self.blocked.contains(before)
        {
            self.would_change.set(true);
        }
        before.cloned()
    }
}
