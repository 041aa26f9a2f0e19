//! The commands that a client really sends, by the driver's own events.

use std::sync::{Arc, Mutex};

use mongo_lease::mongodb::Client;
use mongo_lease::mongodb::bson::Document;
use mongo_lease::mongodb::error::ErrorKind;
use mongo_lease::mongodb::event::EventHandler;
use mongo_lease::mongodb::event::command::CommandEvent;
use mongo_lease::mongodb::options::ClientOptions;
use mongo_lease::{LeaseManager, LeaseManagerBuilder};
use mongo_lease_testbed::{Server, TestDatabase};

use crate::common::migrated;

/// Listens to the clients that were made with [`Spy::listen`].
#[derive(Clone, Default)]
pub(crate) struct Spy {
    heard: Arc<Mutex<Heard>>,
}

#[derive(Default)]
struct Heard {
    started: Vec<(String, Document)>,
    failed: Vec<String>,
}

impl Spy {
    /// A client of this server, with its spy.
    pub(crate) async fn client(server: &Server) -> (Client, Spy) {
        let spy = Spy::default();
        let client = server.client_with(|options| spy.listen(options)).await;
        (client, spy)
    }

    /// Listens to a client that is made with these options.
    pub(crate) fn listen(&self, options: &mut ClientOptions) {
        let heard = Arc::clone(&self.heard);
        // The driver may add new kinds of events.
        #[allow(clippy::wildcard_enum_match_arm)]
        let handler = EventHandler::callback(move |event| match event {
            CommandEvent::Started(event) => {
                heard.lock().unwrap().started.push((event.command_name, event.command));
            }
            CommandEvent::Failed(event) => {
                let code = match event.failure.kind.as_ref() {
                    ErrorKind::Command(command) => command.code.to_string(),
                    _ => event.failure.to_string(),
                };
                heard.lock().unwrap().failed.push(format!("{}: {code}", event.command_name));
            }
            _ => {}
        });
        options.command_event_handler = Some(handler);
    }

    /// The names of the commands that were sent since the last call, in order.
    pub(crate) fn names(&self) -> Vec<String> {
        self.commands().into_iter().map(|(name, _)| name).collect()
    }

    /// The commands that were sent since the last call, in order.
    pub(crate) fn commands(&self) -> Vec<(String, Document)> {
        std::mem::take(&mut self.heard.lock().unwrap().started)
    }

    /// The commands that failed since the last call, as `name: code`.
    pub(crate) fn failures(&self) -> Vec<String> {
        std::mem::take(&mut self.heard.lock().unwrap().failed)
    }
}

/// A database of its own on the shared server, and a manager whose commands the spy hears from now on.
pub(crate) async fn spied(
    options: impl FnOnce(LeaseManagerBuilder) -> LeaseManagerBuilder,
) -> (TestDatabase, LeaseManager, Spy) {
    let database = migrated(Server::shared()).await;
    let (leases, spy) = spied_at(Server::shared(), &database, options).await;
    (database, leases, spy)
}

/// The same manager at this database of this server.
pub(crate) async fn spied_at(
    server: &Server,
    database: &TestDatabase,
    options: impl FnOnce(LeaseManagerBuilder) -> LeaseManagerBuilder,
) -> (LeaseManager, Spy) {
    let (client, spy) = Spy::client(server).await;
    let builder = LeaseManager::builder(&database.through(&client));
    let leases = options(builder).build().await.expect("a manager");
    spy.names();
    (leases, spy)
}
