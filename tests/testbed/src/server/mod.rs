mod builder;
mod counts;
mod database;
mod users;
mod version;

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use mongodb::Client;
use mongodb::bson::{Document, doc};
use mongodb::options::ClientOptions;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

pub use builder::ServerBuilder;
pub use counts::CommandCounts;
pub use database::TestDatabase;
pub use version::Version;

use crate::{Error, Mongod, apart};

/// How long a healthy server may take to answer.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// The message for orders to a process that we have not started.
const NOT_OURS: &str = "this server ran already, and is not ours to stop: use Server::start";

/// The environment variable with the URI of the server that [`Server::shared`] is to be.
const SHARED_URI: &str = "MONGO_LEASE_TESTBED_URI";

/// The characters of a database's name that a URI cannot have as they are.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'_').remove(b'-').remove(b'.').remove(b'~');

/// One server: a replica set of one node (the default), or a standalone server.
///
/// Dropping it kills the process, waits until it is gone, and removes its data; so does the end of our process, however
/// it ends. A start takes half a second to a second, so tests which neither stop nor fault the server share one
/// ([`Server::shared`]) and take a database each ([`Server::database`]).
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> mongodb::error::Result<()> {
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
    /// Blocks its thread for half a second to a second, and may be called from anywhere, inside a runtime as well: the
    /// start has a thread and a runtime of its own. A runtime of one thread, such as that of `#[tokio::test]`, runs
    /// none of its other tasks meanwhile. Where that matters: `tokio::task::spawn_blocking(Server::start).await`.
    ///
    /// The first start on a machine may fetch mongod before.
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

    fn made(uri: String, mongod: Option<Arc<Mongod>>) -> Self {
        Self { uri, mongod, admin_uri: None, version: OnceLock::new() }
    }

    /// A server with parameters, arguments or a mode of its own.
    pub fn builder() -> ServerBuilder {
        ServerBuilder::default()
    }

    /// A server that runs already, which is never stopped by this value. It must accept writes.
    ///
    /// Nothing is sent to it yet. Its databases stay, but for those that are dropped; names from [`Server::database`]
    /// start with `mongo_lease_test_`.
    #[must_use]
    pub fn at(uri: impl Into<String>) -> Self {
        Self::made(uri.into(), None)
    }

    /// [`Server::at`] the URI in this environment variable, unless it is not set or empty.
    ///
    /// For programs that are told of a server, or start one:
    /// `Server::from_env("MONGODB_URI").unwrap_or_else(Server::start)`.
    #[must_use]
    pub fn from_env(variable: &str) -> Option<Self> {
        std::env::var(variable).ok().filter(|uri| !uri.is_empty()).map(Self::at)
    }

    /// The one-node replica set which this whole process shares, started by the first caller.
    ///
    /// Its TTL monitor runs every second. It ends with the process, and its databases with it.
    ///
    /// Where the environment variable `MONGO_LEASE_TESTBED_URI` is set, it is the server at that address: see
    /// [`Server::at`]. No other variable counts, because `MONGODB_URI` and the like may name a server in use.
    ///
    /// Blocks as [`Server::start`] does, the first time.
    ///
    /// # Panics
    ///
    /// When there is no server or it does not start, with what was tried and what to do. It is not tried a second time
    /// in this process.
    pub fn shared() -> &'static Self {
        static SHARED: OnceLock<Result<Server, Error>> = OnceLock::new();
        let shared = SHARED.get_or_init(|| match Self::from_env(SHARED_URI) {
            Some(server) => Ok(server),
            None => Self::builder().ttl_monitor_sleep_secs(1).try_start(),
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

    /// The URI for clients, and for the service under test. It names the replica set, if it is one.
    #[must_use]
    pub fn uri(&self) -> &str {
        &self.uri
    }

    /// [`Server::uri`] with this database as the default one.
    ///
    /// # Panics
    ///
    /// For a server that runs already ([`Server::at`]), whose URI may name another one.
    #[must_use]
    pub fn uri_of(&self, database: &str) -> String {
        let hosts = format!("{}/", self.own().address());
        let database = utf8_percent_encode(database, ENCODED);
        self.uri.replacen(&hosts, &format!("{hosts}{database}"), 1)
    }

    /// The URI for clients that log in as this user of the database `admin`.
    ///
    /// # Panics
    ///
    /// For a server that runs already ([`Server::at`]), and where name or password have characters that a URI
    /// cannot have as they are.
    #[must_use]
    pub fn uri_as(&self, user: &str, password: &str) -> String {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
        assert!(user.bytes().chain(password.bytes()).all(is_plain), "not to be encoded: {user}");
        let address = self.own().address();
        let credentials = format!("{user}:{password}@{address}");
        format!("{}&authSource=admin", self.uri.replacen(&address, &credentials, 1))
    }

    /// The process, to pause, resume or kill it.
    ///
    /// # Panics
    ///
    /// For a server that runs already ([`Server::at`]), which is not ours to stop.
    #[must_use]
    pub fn mongod(&self) -> &Mongod {
        self.own()
    }

    /// A new client, in the runtime of the caller.
    ///
    /// A client belongs to the runtime in which it was made, and each `#[tokio::test]` has one of its own: tests share
    /// a server, and not a client.
    ///
    /// # Panics
    ///
    /// When the URI is not understood, which only one given to [`Server::at`] can be.
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

    /// The server's counts so far, for all clients together, and with its own commands: a new primary reads its
    /// configuration by a few finds.
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
    /// When it does not start, and for a server that runs already.
    pub async fn restart(&self) {
        let mongod = Arc::clone(self.own());
        let restarted = apart::blocking(move || {
            mongod.restart()?;
            builder::wait_until_writable(&mongod)
        });
        restarted.await.unwrap_or_else(|error| error.raise());
    }

    fn admin_uri(&self) -> &str {
        self.admin_uri.as_deref().unwrap_or(&self.uri)
    }

    fn own(&self) -> &Arc<Mongod> {
        let own = self.mongod.as_ref();
        own.unwrap_or_else(|| Error::new(NOT_OURS).raise())
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
