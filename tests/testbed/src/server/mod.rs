mod builder;
mod counts;
mod database;
mod users;
mod version;

use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use mongodb::Client;
use mongodb::bson::{Document, doc};
use mongodb::options::ClientOptions;

pub use builder::ServerBuilder;
pub use counts::CommandCounts;
pub use database::TestDatabase;
pub use version::Version;

use crate::{Error, Mongod, apart};

/// How long a healthy server may take to answer.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// One server: a replica set of one node (the default), or a standalone server.
///
/// Dropping it kills the process and removes its data; so does the end of our process, however it
/// ends. The start takes about half a second, so tests which neither stop nor fault the server
/// share one ([`Server::shared`]) and take a database each ([`Server::database`]).
///
/// ```no_run
/// # async fn example() -> mongodb::error::Result<()> {
/// use mongo_lease_testbed::Server;
///
/// let database = Server::shared().database().await;
/// database.run_command(mongodb::bson::doc! { "ping": 1 }).await?;
/// # Ok(())
/// # }
/// ```
pub struct Server {
    uri: String,
    mongod: Option<Arc<Mongod>>,
    /// The URI with the name and the password of root, where users have to log in.
    admin_uri: Option<String>,
    /// Asked for once.
    version: OnceLock<Version>,
}

impl Server {
    /// Starts a one-node replica set and returns when it is primary.
    ///
    /// Blocks, and may be called from anywhere, inside a runtime as well.
    ///
    /// # Panics
    ///
    /// When there is no server or it does not start; the message says what was tried and what to
    /// do. [`Server::try_start`] is the same without a panic.
    #[must_use]
    pub fn start() -> Self {
        Self::builder().start()
    }

    /// As [`Server::start`], without a panic.
    ///
    /// # Errors
    ///
    /// When there is no server or it does not start.
    pub fn try_start() -> Result<Self, Error> {
        Self::builder().try_start()
    }

    fn at(uri: String, mongod: Option<Arc<Mongod>>) -> Self {
        Self { uri, mongod, admin_uri: None, version: OnceLock::new() }
    }

    /// A server with parameters, arguments or a mode of its own.
    pub fn builder() -> ServerBuilder {
        ServerBuilder::default()
    }

    /// The one-node replica set which this whole process shares, started by the first caller.
    ///
    /// With `MONGODB_URI` set it is the server at that address, which is never stopped, and which
    /// keeps the databases that a test did not drop (their names start with `mongo_lease_test_`).
    /// Otherwise its TTL monitor runs every second.
    ///
    /// # Panics
    ///
    /// When there is no server or it does not start, with what was tried and what to do.
    pub fn shared() -> &'static Self {
        static SHARED: OnceLock<Result<Server, Error>> = OnceLock::new();
        let shared = SHARED.get_or_init(|| match std::env::var("MONGODB_URI") {
            Ok(uri) if !uri.is_empty() => Ok(Self::at(uri, None)),
            Ok(_) | Err(_) => Self::builder().ttl_monitor_sleep_secs(1).try_start(),
        });
        shared.as_ref().unwrap_or_else(|error| error.raise())
    }

    /// The standalone server which this whole process shares. It is always our own.
    ///
    /// # Panics
    ///
    /// When there is no server or it does not start, with what was tried and what to do.
    pub fn shared_standalone() -> &'static Self {
        static SHARED: OnceLock<Result<Server, Error>> = OnceLock::new();
        let shared = SHARED
            .get_or_init(|| Self::builder().standalone().ttl_monitor_sleep_secs(1).try_start());
        shared.as_ref().unwrap_or_else(|error| error.raise())
    }

    /// The URI for clients. It names the replica set, if it is one.
    #[must_use]
    pub fn uri(&self) -> &str {
        &self.uri
    }

    /// The URI for clients that log in as this user of the database `admin`.
    ///
    /// # Panics
    ///
    /// For the server at `MONGODB_URI`, and where name or password have characters that a URI
    /// cannot have as they are.
    #[must_use]
    pub fn uri_as(&self, user: &str, password: &str) -> String {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
        assert!(user.bytes().chain(password.bytes()).all(is_plain), "not to be encoded: {user}");
        let address = self.own().address();
        let credentials = format!("{user}:{password}@{address}");
        format!("{}&authSource=admin", self.uri.replacen(&address, &credentials, 1))
    }

    /// The file with the certificate of the authority which the server's own is signed by, where
    /// clients have to speak TLS.
    ///
    /// # Panics
    ///
    /// For the server at `MONGODB_URI`.
    #[must_use]
    pub fn authority_file(&self) -> PathBuf {
        self.own().data_folder().join(builder::AUTHORITY)
    }

    /// The process, to pause, resume or kill it.
    ///
    /// # Panics
    ///
    /// When the server is the one at `MONGODB_URI`, which is not ours to stop.
    #[must_use]
    pub fn mongod(&self) -> &Mongod {
        self.own()
    }

    /// A new client, in the runtime of the caller.
    ///
    /// # Panics
    ///
    /// When the URI is not understood, which only one from `MONGODB_URI` can be.
    pub async fn client(&self) -> Client {
        self.client_with(|_| ()).await
    }

    /// A new client with options of its own, in the runtime of the caller.
    ///
    /// # Panics
    ///
    /// When the driver refuses the options.
    pub async fn client_with(&self, change: impl FnOnce(&mut ClientOptions)) -> Client {
        client_of(&self.uri, change).await
    }

    /// A database with a name of its own, through a new client.
    ///
    /// # Panics
    ///
    /// As [`Server::client`].
    pub async fn database(&self) -> TestDatabase {
        TestDatabase::of(&self.client().await)
    }

    /// The server's counts so far, for all clients together.
    ///
    /// # Panics
    ///
    /// When the server does not answer.
    pub async fn command_counts(&self) -> CommandCounts {
        CommandCounts::from_status(&self.admin(doc! { "serverStatus": 1 }).await)
    }

    /// Runs an administrative command, with a client that lives for it alone.
    ///
    /// # Panics
    ///
    /// When the command fails, or is not answered in half a minute.
    pub async fn admin(&self, command: Document) -> Document {
        let reply = apart::admin(self.admin_uri().to_owned(), command, PATIENCE).await;
        reply.unwrap_or_else(|error| error.raise())
    }

    /// Starts the process again on its old data and port, and returns when it is primary.
    ///
    /// # Panics
    ///
    /// When it does not start, and for the server at `MONGODB_URI`.
    pub async fn restart(&self) {
        let mongod = Arc::clone(self.own());
        let restarted = apart::blocking(move || {
            mongod.restart()?;
            builder::wait_until_writable(&mongod)
        });
        restarted.await.unwrap_or_else(|error| error.raise());
    }

    /// Makes the primary step down, by force; it is elected again after `seconds`.
    ///
    /// # Panics
    ///
    /// When the server is not primary.
    pub async fn step_down(&self, seconds: u32) {
        self.admin(doc! { "replSetStepDown": i64::from(seconds), "force": true }).await;
    }

    /// Returns when the server accepts writes.
    ///
    /// # Panics
    ///
    /// When it does not in a minute, and for the server at `MONGODB_URI`.
    pub async fn wait_for_primary(&self) {
        let mongod = Arc::clone(self.own());
        let ready = apart::blocking(move || builder::wait_until_writable(&mongod)).await;
        ready.unwrap_or_else(|error| error.raise());
    }

    fn admin_uri(&self) -> &str {
        self.admin_uri.as_deref().unwrap_or(&self.uri)
    }

    fn own(&self) -> &Arc<Mongod> {
        let own = self.mongod.as_ref();
        own.unwrap_or_else(|| Error::new("the server at MONGODB_URI is not ours").raise())
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = formatter.debug_struct("Server");
        shown.field("uri", &self.uri).field("mongod", &self.mongod).finish_non_exhaustive()
    }
}

pub(crate) async fn client_of(uri: &str, change: impl FnOnce(&mut ClientOptions)) -> Client {
    let parsed = ClientOptions::parse(uri).await;
    let mut options = parsed
        .unwrap_or_else(|error| Error::from_source("the URI is not understood", error).raise());
    change(&mut options);
    Client::with_options(options)
        .unwrap_or_else(|error| Error::from_source("the driver refuses", error).raise())
}
