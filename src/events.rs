//! What happens, told to whoever listens.

use std::time::Duration;

use tokio::sync::broadcast;

use crate::error::LostReason;
use crate::rules::token::Token;

/// How many events a slow listener may be behind before it misses some.
const BACKLOG: usize = 1024;

/// Something that happened to a lease of this manager's.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// It was granted.
    #[non_exhaustive]
    Granted {
        /// The lease's name.
        name: String,
        /// Its fencing token.
        token: Token,
    },
    /// It was renewed.
    #[non_exhaustive]
    Renewed {
        /// The lease's name.
        name: String,
        /// Its fencing token.
        token: Token,
        /// For how long it is valid now.
        remaining: Duration,
    },
    /// A renewal was not confirmed. It is tried again until nothing is left.
    #[non_exhaustive]
    RenewalFailed {
        /// The lease's name.
        name: String,
        /// Its fencing token.
        token: Token,
        /// For how long it is valid still.
        remaining: Duration,
        /// What the database, or the driver, said.
        reason: String,
    },
    /// It was lost.
    #[non_exhaustive]
    Lost {
        /// The lease's name.
        name: String,
        /// Its fencing token.
        token: Token,
        /// Why.
        reason: LostReason,
    },
    /// Its holder has let go of it: the release was confirmed, or it was dropped, or the manager shut down and it is
    /// being given back.
    #[non_exhaustive]
    Released {
        /// The lease's name.
        name: String,
        /// Its fencing token.
        token: Token,
    },
    /// A call stands in line for it.
    #[non_exhaustive]
    Queued {
        /// The lease's name.
        name: String,
        /// How many processes stand before this one.
        ahead: u32,
    },
    /// Waiting calls are woken by a change stream from now on.
    Watching,
    /// Waiting calls look for themselves from now on: there is no change stream. It is tried again, and
    /// [`Event::Watching`] tells when there is one.
    #[non_exhaustive]
    Polling {
        /// Why there is none.
        reason: String,
    },
    /// This listener was too slow, and has missed so many events.
    Missed(u64),
}

/// Where events go. Cheap to clone; telling costs next to nothing while nobody listens.
#[derive(Clone, Debug)]
pub(crate) struct Events {
    sender: broadcast::Sender<Event>,
}

impl Events {
    pub(crate) fn new() -> Events {
        Events { sender: broadcast::Sender::new(BACKLOG) }
    }

    /// Tells everybody who listens.
    pub(crate) fn tell(&self, event: impl FnOnce() -> Event) {
        if self.sender.receiver_count() > 0 {
            // The last listener may have gone just now.
            let _ = self.sender.send(event());
        }
    }

    /// Everything that happens from now on, until the manager and its leases have gone.
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
