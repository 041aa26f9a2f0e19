//! Commands with several statements, of which a server may carry out the first ones alone.

use std::any::Any;
use std::ops::Range;

use mongo_lease::simulated::SentCommand;
use mongo_lease_core::commands::{
    Delete, End, FastAcquireMany, Heartbeat, RenewHolders, RenewMany, Tombstone,
};

/// The statements of a command.
trait Statements {
    fn count(&self) -> usize;
    /// Leaves these alone.
    fn keep(&mut self, range: Range<usize>);
}

impl<T> Statements for Vec<T> {
    fn count(&self) -> usize {
        self.len()
    }

    fn keep(&mut self, range: Range<usize>) {
        self.truncate(range.end);
        self.drain(..range.start);
    }
}

/// The command's statements, if it can have several.
fn statements(command: &mut dyn Any) -> Option<&mut dyn Statements> {
    let list: &mut dyn Statements = if command.is::<FastAcquireMany>() {
        &mut command.downcast_mut::<FastAcquireMany>()?.acquires
    } else if command.is::<Delete>() {
        &mut command.downcast_mut::<Delete>()?.targets
    } else if command.is::<Tombstone>() {
        &mut command.downcast_mut::<Tombstone>()?.targets
    } else if command.is::<End>() {
        &mut command.downcast_mut::<End>()?.targets
    } else if command.is::<RenewMany>() {
        &mut command.downcast_mut::<RenewMany>()?.grants
    } else if command.is::<RenewHolders>() {
        &mut command.downcast_mut::<RenewHolders>()?.grants
    } else {
        &mut command.downcast_mut::<Heartbeat>()?.entries
    };
    Some(list)
}

/// How many statements the command has.
pub(crate) fn count(command: &mut dyn SentCommand) -> usize {
    statements(command.parts().0).map_or(1, |statements| statements.count())
}

/// The command with these of its statements alone.
pub(crate) fn part(command: &dyn SentCommand, range: Range<usize>) -> Box<dyn SentCommand> {
    let mut part = command.copy();
    if let Some(statements) = statements(part.parts().0) {
        statements.keep(range);
    }
    part
}
