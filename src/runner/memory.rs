//! Attempts on a store in memory, with the faults that its user has planned, and the stream of its promotions.

use std::io::{Error as IoError, ErrorKind as IoErrorKind};
use std::time::Duration;

use chrono::DateTime;
use mongo_lease_core::commands::{Promotion, StreamEvent, Unconfirmed};
use mongo_lease_core::rules::{Applied, GrantId, Instant, ManagerId, from_millis};
use mongo_lease_core::texts::{Admission, Promoted};
use mongo_lease_memory::{CommandKind, InMemory, News, PromotionEvent};

use super::attempt::ServerTimes;
use super::{AppliedResult, AttemptResult, Heard, simulated};
use crate::clock::Clock;
use crate::failure::{command_error, driver_failure};
use crate::memory::{MemoryFault, MemoryStore};
use crate::token::Token;

/// Carries one attempt out, or lets the planned fault happen to it.
pub(super) async fn attempt<C: InMemory>(
    store: &MemoryStore,
    collection: &str,
    command: &C,
    sent: Instant,
    times: ServerTimes,
) -> AppliedResult<C::Reply> {
    if let Some(process) = store.process() {
        return simulated::send(store, process, collection, command, sent, times).await;
    }
    let _connection = store.connection().await;
    // A fault is for the next command that is sent, and not for one that hangs already.
    let fault = store.take_fault(C::KIND);
    store.until_it_answers().await;
    match fault {
        None => carried_out(store, collection, command, sent, times).await,
        Some(MemoryFault::NoPrimary) => {
            Err(driver_failure(command_error(10_107, "NotWritablePrimary")))
        }
        Some(MemoryFault::Refused) => Err(driver_failure(command_error(13, "Unauthorized"))),
        Some(MemoryFault::LostReply) => {
            let _reply = store.with_collection(collection, |it| command.carry_out(it, sent));
            let lost = IoError::new(IoErrorKind::ConnectionReset, "the reply is lost, as planned");
            Err(driver_failure(lost.into()))
        }
    }
}

/// Whether the confirmation of a majority is asked for. The reads have no kind, or that of reads.
fn is_write<C: InMemory>() -> bool {
    !matches!(C::KIND, None | Some(CommandKind::Read))
}

/// Carries one command out. A majority may be late.
async fn carried_out<C: InMemory>(
    store: &MemoryStore,
    collection: &str,
    command: &C,
    sent: Instant,
    times: ServerTimes,
) -> AppliedResult<C::Reply> {
    let clock = Clock::from(store.clock().clone());
    let within = |ms| clock.now().after(from_millis(ms));
    if let Some(at) = command.sees_all_until()
        && clock.before(within(times.max_ms), store.until_majority_has(at)).await.is_none()
    {
        return Err(driver_failure(command_error(50, "MaxTimeMSExpired")));
    }
    if command.reads_applied() {
        let reply = store.with_collection(collection, |it| command.carry_out(it, sent));
        return Ok(Applied::Confirmed(reply));
    }
    if !is_write::<C>() {
        let reply = store.read_collection(collection, |it| command.carry_out(it, sent));
        return Ok(Applied::Confirmed(reply));
    }
    let (reply, at) =
        store.with_collection(collection, |it| (command.carry_out(it, sent), it.operation_time()));
    let until = within(times.acknowledged_ms.unwrap_or(times.max_ms));
    // A command that changes nothing waits for the newest write all the same.
    let is_confirmed = clock.before(until, store.until_majority_has(at)).await.is_some();
    if is_confirmed {
        return Ok(Applied::Confirmed(reply));
    }
    let message = "the write is not acknowledged by a majority: as planned".to_owned();
    Ok(Applied::Unconfirmed(reply, Unconfirmed { at, message }))
}

/// Waits until a stream is open.
pub(super) async fn until_open(store: &MemoryStore) -> AttemptResult<()> {
    store.note_stream();
    let _connection = store.connection().await;
    store.until_it_answers().await;
    match store.process() {
        Some(process) if !process.hear().await => Err(simulated::connection_broke()),
        Some(_) | None => Ok(()),
    }
}

/// The promotions to the calls of one manager on a store in memory.
pub(crate) struct MemoryStream {
    store: MemoryStore,
    collection: String,
    manager_id: ManagerId,
    /// The number of the next event.
    next: u64,
    /// How long the stream waits for an event before it says that there is none.
    await_time: Duration,
}

impl MemoryStream {
    pub(super) fn open(
        store: MemoryStore,
        collection: String,
        manager_id: ManagerId,
        since: Option<Token>,
        await_time: Duration,
    ) -> MemoryStream {
        let next = store.first_event_since(since);
        MemoryStream { store, collection, manager_id, next, await_time }
    }

    pub(super) async fn next(&mut self) -> Heard {
        let clock = Clock::from(self.store.clock().clone());
        let _connection = self.store.connection().await;
        let until = clock.now().after(self.await_time);
        loop {
            let Some((next, event)) = clock.before(until, self.store.event(self.next)).await else {
                return self.under_way(Heard::Idle).await;
            };
            self.next = next;
            let is_ours = ids(&event.told).any(|id| self.manager_id.has_made(id.as_str()));
            if is_ours && event.collection == self.collection {
                let mut event = told(event);
                if let Some(process) = self.store.process() {
                    process.change(&mut event);
                }
                return self.under_way(Heard::Event(event)).await;
            }
        }
    }

    /// The message, when it has come.
    async fn under_way(&self, message: Heard) -> Heard {
        self.store.until_it_answers().await;
        match self.store.process() {
            Some(process) if !process.hear().await => Heard::Closed,
            Some(_) | None => message,
        }
    }
}

fn ids(told: &News) -> impl Iterator<Item = &GrantId> {
    let (promoted, admitted) = match told {
        News::Promoted(Promoted::Entry { id, .. } | Promoted::Recheck { id }) => {
            (Some(id), [].as_slice())
        }
        News::Admitted(admitted) => (None, admitted.as_slice()),
    };
    promoted.into_iter().chain(admitted.iter().map(|admission| &admission.id))
}

fn told(event: PromotionEvent) -> StreamEvent {
    let PromotionEvent { token, expires_at_ms, .. } = event;
    let promotion = |grant_id, sent, until_ms: Option<i64>| Promotion {
        grant_id,
        sent: Instant::from_micros(u64::try_from(sent).unwrap_or(0)),
        token,
        expires_at: until_ms.and_then(DateTime::from_timestamp_millis),
    };
    match event.told {
        News::Promoted(Promoted::Recheck { id }) => StreamEvent::Recheck { call_id: id.call() },
        News::Promoted(Promoted::Entry { id, sent }) => {
            StreamEvent::Promoted(promotion(id, sent, expires_at_ms))
        }
        News::Admitted(admitted) => {
            let each = |it: Admission| promotion(it.id, it.sent, Some(it.until));
            let admissions = admitted.into_iter().map(each).collect();
            // A recheck of the same write has an event of its own.
            StreamEvent::Admitted { admissions, recheck: None }
        }
    }
}
