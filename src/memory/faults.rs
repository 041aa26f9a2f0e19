//! The troubles that a test makes: commands that fail, and a store that does not answer.

use mongo_lease_core::memory::MemoryCommand;
use tokio::sync::oneshot;

use crate::lock::Lock;

/// A fault of one command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum MemoryFault {
    /// There is no primary at this moment. The command does nothing, and the manager sends it again.
    NoPrimary,
    /// The database refuses the command for good, as for want of a privilege. The call fails with
    /// [`Error::MongoDb`](crate::Error::MongoDb).
    Refused,
    /// The command is carried out, and its reply is lost. The manager sends it again, and finds what the first one did.
    LostReply,
}

#[derive(Debug, Default)]
pub(super) struct Faults(Lock<State>);

#[derive(Debug, Default)]
struct State {
    planned: Vec<(MemoryCommand, MemoryFault)>,
    hangs: usize,
    /// The commands that wait for the end of the last hang, in their order.
    waiting: Vec<oneshot::Sender<()>>,
}

impl Faults {
    pub(super) fn plan(&self, command: MemoryCommand, fault: MemoryFault) {
        self.0.lock().planned.push((command, fault));
    }

    /// The fault that is planned for this command. It happens once.
    pub(super) fn take(&self, command: MemoryCommand) -> Option<MemoryFault> {
        let planned = &mut self.0.lock().planned;
        let place = planned.iter().position(|&(planned, _)| planned == command)?;
        Some(planned.remove(place).1)
    }

    pub(super) fn left(&self) -> usize {
        self.0.lock().planned.len()
    }

    pub(super) fn clear(&self) {
        self.0.lock().planned.clear();
    }

    pub(super) fn begin_hang(&self) {
        self.0.lock().hangs += 1;
    }

    /// Ends one hang. After the last one, the commands that waited go on in their order.
    pub(super) fn end_hang(&self) {
        let mut state = self.0.lock();
        state.hangs = state.hangs.saturating_sub(1);
        if state.hangs > 0 {
            return;
        }
        let waiting = std::mem::take(&mut state.waiting);
        drop(state);
        for command in waiting {
            // The command's task may have ended with its runtime.
            let _ = command.send(());
        }
    }

    /// Waits while the database hangs.
    pub(super) async fn until_it_answers(&self) {
        let answered = {
            let mut state = self.0.lock();
            if state.hangs == 0 {
                return;
            }
            let (sender, receiver) = oneshot::channel();
            state.waiting.push(sender);
            receiver
        };
        // The sender is used or kept.
        let _ = answered.await;
    }
}
