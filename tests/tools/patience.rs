//! Waiting for events and for states of the database, always with a deadline and never for a fixed time.

use std::pin::Pin;
use std::time::Duration;

use futures_util::{FutureExt, Stream, StreamExt};
use mongo_lease::mongodb::bson::{DateTime, Document, doc};
use mongo_lease::mongodb::change_stream::ChangeStream;
use mongo_lease::mongodb::change_stream::event::{ChangeStreamEvent, OperationType};
use mongo_lease::mongodb::{Collection, Database};
use mongo_lease::{Event, LeaseManager};
use mongo_lease_testbed::Server;
use tokio::task::{JoinHandle, unconstrained};
use tokio::time::Instant;

/// Longer than anything here takes, on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// The same for what takes seconds on a quiet machine: thousands of calls, or a failover among twenty clients.
pub(crate) const MUCH_PATIENCE: Duration = Duration::from_secs(120);

/// How often a state without events is read.
const LOOK_EVERY: Duration = Duration::from_millis(25);

/// The result of the future, which must come in time.
pub(crate) async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    match tokio::time::timeout(PATIENCE, future).await {
        Ok(output) => output,
        Err(_) => panic!("after {PATIENCE:?} this has not happened: {what}"),
    }
}

/// The same where the test's own line says what it waits for.
pub(crate) async fn bounded<F: Future>(future: F) -> F::Output {
    soon("what is awaited here", future).await
}

/// The results of these tasks, in their order. Each must come in time.
pub(crate) async fn joined<T>(tasks: Vec<JoinHandle<T>>) -> Vec<T> {
    let mut results = Vec::new();
    for task in tasks {
        results.push(soon("the end of a task", task).await.unwrap());
    }
    results
}

/// Reads again and again, until `look` returns something.
pub(crate) async fn until<T>(what: &str, look: impl AsyncFn() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(seen) = look().await {
            return seen;
        }
        assert!(Instant::now() < deadline, "after {PATIENCE:?} this has not happened: {what}");
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// The events of one manager, in their order.
pub(crate) struct Listener {
    events: Pin<Box<dyn Stream<Item = Event> + Send>>,
}

impl Listener {
    pub(crate) fn of(leases: &LeaseManager) -> Listener {
        Listener { events: Box::pin(leases.events()) }
    }

    pub(crate) async fn next(&mut self) -> Event {
        soon("the next event", self.events.next()).await.expect("the manager is there")
    }

    /// The first result that `look` finds in an event.
    pub(crate) async fn find<T>(&mut self, mut look: impl FnMut(&Event) -> Option<T>) -> T {
        // By the machine's clock: in memory, hours pass between two events.
        let deadline = std::time::Instant::now() + PATIENCE;
        loop {
            if let Some(found) = look(&self.next().await) {
                return found;
            }
            let is_late = std::time::Instant::now() > deadline;
            assert!(!is_late, "the event has not come in {PATIENCE:?}");
        }
    }

    /// Returns when that many such events have come.
    pub(crate) async fn times(&mut self, times: usize, is_such: impl Fn(&Event) -> bool) {
        let mut seen = 0;
        self.find(|event| {
            seen += usize::from(is_such(event));
            (seen == times).then_some(())
        })
        .await;
    }

    /// Returns when this lease was renewed that many times from now on.
    pub(crate) async fn renewals(&mut self, lease: &str, times: usize) {
        let is_such = |event: &Event| matches!(event, Event::Renewed { name, .. } if name == lease);
        self.times(times, is_such).await;
    }

    /// Returns when a change stream wakes the manager's waiters.
    pub(crate) async fn watching(&mut self) {
        self.find(|event| matches!(event, Event::Watching).then_some(())).await;
    }

    /// The reason for which this manager's waiters poll from now on.
    pub(crate) async fn polling(&mut self) -> String {
        self.find(|event| match event {
            Event::Polling { reason, .. } => Some(reason.clone()),
            _ => None,
        })
        .await
    }

    pub(crate) fn so_far(&mut self) -> Vec<Event> {
        let mut all = Vec::new();
        // Unconstrained: the runtime would make us pause after a hundred.
        while let Some(Some(event)) = unconstrained(self.events.next()).now_or_never() {
            all.push(event);
        }
        all
    }
}

pub(crate) fn locks(database: &Database) -> Collection<Document> {
    database.collection("locks")
}

/// When a lease ends, as its document says.
pub(crate) async fn expires_at(database: &Database, name: &str) -> DateTime {
    let document = locks(database).find_one(doc! { "name": name }).await.unwrap();
    let document = document.unwrap_or_else(|| panic!("lease {name:?} has no document"));
    *document.get_datetime("expiresAt").unwrap()
}

/// Returns when the lease is free: released, or expired by the server's clock.
pub(crate) async fn until_free(leases: &LeaseManager, name: &str) {
    let free = async || leases.get(name).await.unwrap().is_none().then_some(());
    until("the lease is free", free).await;
}

/// Returns when no lease has a document any more.
pub(crate) async fn until_nothing_is_left(database: &Database) {
    let locks = locks(database);
    let gone = async || (locks.count_documents(doc! {}).await.unwrap() == 0).then_some(());
    until("all documents are gone", gone).await;
}

/// Returns when a command on this database's leases waits for another's transaction, and has done so for some time.
pub(crate) async fn until_blocked(server: &Server, database: &Database) {
    let namespace = format!("{}.locks", database.name());
    let waits = doc! { "currentOp": 1, "ns": namespace, "writeConflicts": { "$gte": 12 } };
    let waiting = async || {
        let reply = server.admin(waits.clone()).await;
        (!reply.get_array("inprog").unwrap().is_empty()).then_some(())
    };
    until("a command waits for a transaction", waiting).await;
}

/// Waits until this text has been written.
pub(crate) async fn written(
    changes: &mut ChangeStream<ChangeStreamEvent<Document>>,
    how: OperationType,
) {
    bounded(async {
        while changes.next().await.expect("the stream goes on").unwrap().operation_type != how {}
    })
    .await;
}

/// Lets this time pass on a paused clock, which takes none. Panics with any other clock.
pub(crate) async fn pass(time: Duration) {
    tokio::time::advance(Duration::ZERO).await;
    tokio::time::sleep(time).await;
}
