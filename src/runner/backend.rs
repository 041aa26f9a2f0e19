//! Where commands go: to a server, or to a store in memory. Nothing above the runner knows which.

#[cfg(feature = "memory")]
use std::sync::Arc;
use std::time::Duration;

use mongo_lease_core::commands::{StreamEvent, watch};
use mongo_lease_core::rules::ManagerId;
use mongodb::Database;
use mongodb::bson::{Document, Timestamp};
use mongodb::change_stream::ChangeStream;
use mongodb::error::Error as DriverError;
use mongodb::options::{ChangeStreamOptions, ReadConcern, ReadPreference, SelectionCriteria};

use super::AttemptResult;
#[cfg(feature = "memory")]
use super::memory::{self, MemoryStream};
use crate::clock::Clock;
use crate::error::Error;
use crate::failure::driver_failure;
#[cfg(feature = "memory")]
use crate::memory::{MemoryStore, simulated::SimulatedProcess};
use crate::token::Token;

/// A command that each backend of this build carries out.
#[cfg(not(feature = "memory"))]
pub(crate) use mongo_lease_core::commands::Command as BackendCommand;
#[cfg(feature = "memory")]
pub(crate) use mongo_lease_memory::InMemory as BackendCommand;

/// Where the commands of one manager go. Cheap to clone.
#[derive(Clone)]
pub(crate) enum Backend {
    Server(Database),
    #[cfg(feature = "memory")]
    Memory(MemoryStore),
}

/// One answer of a stream.
pub(crate) enum Heard {
    Event(StreamEvent),
    /// Something that is not for this manager.
    NotOurs,
    /// Nothing has happened for as long as the server waits for an event.
    Idle,
    /// The stream has ended.
    Closed,
}

/// The promotions to the calls of one manager.
pub(crate) enum EventStream {
    Server(Box<ChangeStream<Document>>),
    #[cfg(feature = "memory")]
    Memory(MemoryStream),
}

impl Backend {
    /// The clock by which a manager of this backend lives.
    pub(super) fn clock(&self) -> Clock {
        match self {
            Backend::Server(_) => Clock::default(),
            #[cfg(feature = "memory")]
            Backend::Memory(store) => store.clock().clone().into(),
        }
    }

    /// The simulated process that sends the commands.
    #[cfg(feature = "memory")]
    pub(super) fn process(&self) -> Option<&Arc<dyn SimulatedProcess>> {
        match self {
            Backend::Server(_) => None,
            Backend::Memory(store) => store.process(),
        }
    }

    pub(crate) fn name(&self) -> &str {
        match self {
            Backend::Server(database) => database.name(),
            #[cfg(feature = "memory")]
            Backend::Memory(_) => "memory",
        }
    }

    /// The database, for what the runner does not send.
    pub(super) fn database(&self) -> Result<&Database, Error> {
        match self {
            Backend::Server(database) => Ok(database),
            #[cfg(feature = "memory")]
            Backend::Memory(_) => Err(Error::unsupported("a store in memory has no transactions")),
        }
    }

    /// Opens a stream of the collection, from `since` on, or from now on. It tells of majority-committed writes alone.
    pub(super) fn open_stream(
        &self,
        collection: &str,
        manager_id: &ManagerId,
        since: Option<Token>,
        await_time: Duration,
    ) -> impl Future<Output = AttemptResult<EventStream>> + Send + use<> {
        let (backend, collection) = (self.clone(), collection.to_owned());
        let manager_id = manager_id.clone();
        async move {
            match backend {
                Backend::Server(database) => {
                    let primary = SelectionCriteria::ReadPreference(ReadPreference::Primary);
                    let options = ChangeStreamOptions::builder()
                        .start_at_operation_time(since.map(Timestamp::from))
                        .max_await_time(await_time)
                        .read_concern(ReadConcern::majority())
                        .selection_criteria(primary)
                        .build();
                    let collection = database.collection::<Document>(&collection);
                    let watching = collection.watch().pipeline(watch::pipeline(&manager_id));
                    let stream = watching.with_options(options).await.map_err(driver_failure)?;
                    Ok(EventStream::Server(Box::new(stream.with_type())))
                }
                #[cfg(feature = "memory")]
                Backend::Memory(store) => {
                    memory::until_open(&store).await?;
                    let stream =
                        MemoryStream::open(store, collection, manager_id, since, await_time);
                    Ok(EventStream::Memory(stream))
                }
            }
        }
    }
}

impl EventStream {
    /// The next answer of the stream. A dropped future may close the stream's connection: the stream is not used again.
    pub(crate) async fn next(&mut self) -> Result<Heard, DriverError> {
        match self {
            EventStream::Server(stream) => Ok(match stream.next_if_any().await? {
                Some(event) => match watch::decode(&event) {
                    Some(event) => Heard::Event(event),
                    None => Heard::NotOurs,
                },
                None if !stream.is_alive() => Heard::Closed,
                None => Heard::Idle,
            }),
            #[cfg(feature = "memory")]
            EventStream::Memory(stream) => Ok(stream.next().await),
        }
    }
}
