//! The troubles that a test makes: commands that fail, and a store that does not answer.

use std::sync::{Mutex, PoisonError};

use tokio::sync::watch;

/// The purpose of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum MemoryCommand {
    /// An attempt to acquire a lease, or to join its queue.
    Acquire,
    /// A renewal of held leases, which are renewed together, or of a detached one, or a resume.
    Renew,
    /// The heartbeat of the calls that wait in queues.
    Heartbeat,
    /// A release or a hand-off, also in the background.
    Release,
    /// A command that changes nothing: `get`, `list`, `ping`, and the reads after other commands.
    Read,
}

/// A fault of one command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum MemoryFault {
    /// There is no primary at this moment. The command does nothing, and the manager sends it again.
    NoPrimary,
    /// The database refuses the command for good. The call fails with [`Error::MongoDb`](crate::Error::MongoDb).
    Refused,
    /// The command is carried out, and its reply is lost. The manager sends it again, and finds what the first one did.
    LostReply,
}

/// The faults of one store.
#[derive(Debug)]
pub(super) struct Faults {
    planned: Mutex<Vec<(MemoryCommand, MemoryFault)>>,
    /// How many hangs there are.
    hangs: watch::Sender<usize>,
}

impl Faults {
    pub(super) fn new() -> Faults {
        Faults { planned: Mutex::default(), hangs: watch::Sender::new(0) }
    }

    pub(super) fn plan(&self, command: MemoryCommand, fault: MemoryFault) {
        self.with(|planned| planned.push((command, fault)));
    }

    /// The fault that is planned for this command. It happens once.
    pub(super) fn take(&self, command: MemoryCommand) -> Option<MemoryFault> {
        self.with(|planned| {
            let place = planned.iter().position(|&(planned, _)| planned == command)?;
            Some(planned.remove(place).1)
        })
    }

    pub(super) fn left(&self) -> usize {
        self.with(|planned| planned.len())
    }

    pub(super) fn begin_hang(&self) {
        self.hangs.send_modify(|hangs| *hangs += 1);
    }

    pub(super) fn end_hang(&self) {
        self.hangs.send_modify(|hangs| *hangs = hangs.saturating_sub(1));
    }

    /// Waits while the store hangs.
    pub(super) async fn until_it_answers(&self) {
        // The sender lives as long as this.
        let _ = self.hangs.subscribe().wait_for(|hangs| *hangs == 0).await;
    }

    fn with<T>(&self, change: impl FnOnce(&mut Vec<(MemoryCommand, MemoryFault)>) -> T) -> T {
        change(&mut self.planned.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
