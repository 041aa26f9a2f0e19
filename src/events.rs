//! Events of a manager and its leases, sent to every listener.

use std::time::Duration;

use tokio::sync::broadcast;

use crate::error::LostReason;
use crate::rules::token::Token;

/// How many events a listener may be behind before it misses some.
const BACKLOG: usize = 1024;

/// An event of a lease, or of the manager's change stream.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// The lease was granted.
    #[non_exhaustive]
    Granted {
        /// The lease's name.
        name: String,
        /// Its fencing token.
        token: Token,
    },
    /// The lease was renewed.
    #[non_exhaustive]
    Renewed {
        /// The lease's name.
        name: String,
        /// Its fencing token.
        token: Token,
        /// For how long it is valid now.
        remaining: Duration,
    },
    /// A renewal was not confirmed. It is retried until the lease's validity ends.
    #[non_exhaustive]
    RenewalFailed {
        /// The lease's name.
        name: String,
        /// Its fencing token.
        token: Token,
        /// For how long it is still valid.
        remaining: Duration,
        /// The error of the database or the driver.
        reason: String,
    },
    /// The lease was lost.
    #[non_exhaustive]
    Lost {
        /// The lease's name.
        name: String,
        /// Its fencing token.
        token: Token,
        /// Why it was lost.
        reason: LostReason,
    },
    /// The holder has given the lease up: its release was confirmed, or it was dropped, or the manager was shut down
    /// and is releasing it.
    #[non_exhaustive]
    Released {
        /// The lease's name.
        name: String,
        /// Its fencing token.
        token: Token,
    },
    /// A call waits in the lease's queue.
    #[non_exhaustive]
    Queued {
        /// The lease's name.
        name: String,
        /// How many processes are ahead of this one.
        ahead: u32,
    },
    /// From now on a change stream wakes waiting calls.
    Watching,
    /// From now on waiting calls poll, because there is no change stream. The manager keeps trying to open one, and
    /// [`Event::Watching`] reports success.
    #[non_exhaustive]
    Polling {
        /// Why there is no change stream.
        reason: String,
    },
    /// This listener was too slow, and has missed this many events.
    Missed(u64),
}

/// Sends events to listeners. Cheap to clone; sending costs next to nothing when there is no listener.
#[derive(Clone, Debug)]
pub(crate) struct Events {
    sender: broadcast::Sender<Event>,
}

impl Events {
    pub(crate) fn new() -> Events {
        Events { sender: broadcast::Sender::new(BACKLOG) }
    }

    /// Sends an event to all listeners.
    pub(crate) fn tell(&self, event: impl FnOnce() -> Event) {
        if self.sender.receiver_count() > 0 {
            // The last listener may have gone since the check.
            let _ = self.sender.send(event());
        }
    }

    /// All events from now on, until the manager and its leases are gone.
    pub(crate) fn listen(&self) -> impl futures_core::Stream<Item = Event> + Send + use<> {
        futures_util::stream::unfold(self.sender.subscribe(), |mut receiver| async move {
            match receiver.recv().await {
                Ok(event) => Some((event, receiver)),
                Err(broadcast::error::RecvError::Lagged(missed)) => {
                    Some((Event::Missed(missed), receiver))
                }
                Err(broadcast::error::RecvError::Closed) => None,
            }
        })
    }
}
