//! Events of a manager and its leases, sent to every listener.

use std::time::Duration;

use mongo_lease_core::info::as_millis;
use mongo_lease_core::rules::EVENTS_BACKLOG;
use serde::Serialize;
use serde::ser::{SerializeStruct, Serializer};
use tokio::sync::broadcast;

use crate::error::LostReason;
use crate::token::Token;

/// An event of a lease, or of the manager's change stream.
///
/// # Serialization
/// As JSON it is one object, whose key `event` is the variant's name as in `renewal_failed`, beside the variant's
/// fields: `{"event":"renewed","name":"a","token":"7300000000000000001","remaining_ms":19800}`. Tokens are decimal
/// strings, because a JSON number would lose digits. Durations are in whole milliseconds, rounded down. A loss has the
/// keys of its [`LostReason`], and `missed` is the number of missed events.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
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
        #[serde(rename = "remaining_ms", serialize_with = "as_millis")]
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
        #[serde(rename = "remaining_ms", serialize_with = "as_millis")]
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
        #[serde(flatten)]
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
        /// How many entries of the queue are ahead of the call's own.
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
    #[serde(serialize_with = "as_missed")]
    Missed(u64),
}

fn as_missed<S: Serializer>(missed: &u64, serializer: S) -> Result<S::Ok, S::Error> {
    let mut fields = serializer.serialize_struct("Missed", 1)?;
    fields.serialize_field("missed", missed)?;
    fields.end()
}

/// Sends events to listeners. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Events {
    sender: broadcast::Sender<Event>,
}

impl Events {
    pub(crate) fn new() -> Events {
        Events { sender: broadcast::Sender::new(EVENTS_BACKLOG) }
    }

    /// Sends an event to all listeners. An error says that there is none.
    pub(super) fn tell(&self, event: Event) {
        let _ = self.sender.send(event);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loss_and_a_failed_renewal_are_told_apart_in_json() {
        let json = |event: Event| serde_json::to_string(&event).expect("JSON");
        let (name, token) = (|| "a".to_owned(), Token::from_u64(7));
        let since = Duration::from_micros(20_999_999);
        let reason = LostReason::OutOfReach { since, last_error: None };
        assert_eq!(
            json(Event::Lost { name: name(), token, reason }),
            r#"{"event":"lost","name":"a","token":"7","reason":"out_of_reach","since_ms":20999}"#
        );
        let remaining = Duration::from_secs(3);
        let reason = "no primary".to_owned();
        assert_eq!(
            json(Event::RenewalFailed { name: name(), token, remaining, reason: reason.clone() }),
            r#"{"event":"renewal_failed","name":"a","token":"7","remaining_ms":3000,"#.to_owned()
                + r#""reason":"no primary"}"#
        );
        assert_eq!(
            json(Event::Queued { name: name(), ahead: 2 }),
            r#"{"event":"queued","name":"a","ahead":2}"#
        );
        assert_eq!(json(Event::Polling { reason }), r#"{"event":"polling","reason":"no primary"}"#);
    }
}
