use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mongodb::bson::doc;

use super::Server;
use crate::process::{DataPlace, GivenFile, Launch};
use crate::{Error, Mongod, apart, random};

/// A one-node set elects itself at once; a minute is for a busy machine.
const PRIMARY_DEADLINE: Duration = Duration::from_secs(60);

/// How long a new primary may take for its own internal writes.
const UPKEEP_DEADLINE: Duration = Duration::from_secs(2);

/// The file with the certificate of the authority that signed the server's.
const AUTHORITY: &str = "authority.pem";

/// How often a server is asked whether it is primary.
const ASK_EVERY: Duration = Duration::from_millis(10);

/// The options of a server. Made by [`Server::builder`].
///
/// ```
/// use mongo_lease_testbed::Server;
///
/// // Each document that a TTL index has expired is gone a second later.
/// let server = Server::builder().ttl_monitor_sleep_secs(1).start();
/// assert!(server.mongod().pid().is_some());
/// ```
#[derive(Clone, Debug, Default)]
#[must_use = "a builder starts nothing until `start`"]
pub struct ServerBuilder {
    standalone: bool,
    root_password: Option<RootPassword>,
    launch: Launch,
}

/// A password, hidden from `Debug`.
#[derive(Clone)]
struct RootPassword(String);

impl fmt::Debug for RootPassword {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("***")
    }
}

impl ServerBuilder {
    /// A server outside of any replica set: no transactions, no change streams.
    ///
    /// Defaults to a replica set of one node.
    pub fn standalone(mut self) -> Self {
        self.standalone = true;
        self
    }

    /// The port of 127.0.0.1 at which it listens: the start fails where another program has it.
    ///
    /// Defaults to a free one, which suits tests.
    pub fn port(mut self, port: u16) -> Self {
        self.launch.port = Some(port);
        self
    }

    /// Sets a server parameter for the start, as `--setParameter name=value`.
    ///
    /// `enableTestCommands=1` and `diagnosticDataCollectionEnabled=false` are always set.
    pub fn parameter(mut self, name: &str, value: impl ToString) -> Self {
        self.launch.parameters.push((name.to_owned(), value.to_string()));
        self
    }

    /// How long the TTL monitor sleeps between two rounds. Defaults to the server's own: 60.
    pub fn ttl_monitor_sleep_secs(self, seconds: u32) -> Self {
        self.parameter("ttlMonitorSleepSecs", seconds)
    }

    /// Adds an argument to the command line, as `--quiet`.
    ///
    /// An option with a value is two arguments. For users who have to log in
    /// there is [`ServerBuilder::root_password`].
    pub fn argument(mut self, argument: impl Into<String>) -> Self {
        self.launch.arguments.push(argument.into());
        self
    }

    /// Users have to log in (SCRAM). Makes the user `root` with all privileges in the database `admin`;
    /// [`Server::admin`] acts as that user. Other users reach the server by [`Server::uri_as`].
    pub fn root_password(mut self, password: impl Into<String>) -> Self {
        self.root_password = Some(RootPassword(password.into()));
        self
    }

    /// Clients have to speak TLS, and are not asked for a certificate of their own.
    ///
    /// The texts are in the PEM format: the server's key and certificate, for `127.0.0.1`, and the
    /// certificate of the authority that has signed it. URIs of this server name a file with the
    /// latter.
    pub fn tls(mut self, key_and_certificate: String, authority: String) -> Self {
        self.launch.arguments.extend(
            ["--tlsMode", "requireTLS", "--tlsAllowConnectionsWithoutCertificates"]
                .map(str::to_owned),
        );
        self.launch.uri_options.push_str("&tls=true");
        self.launch.files.extend([
            GivenFile {
                option: "--tlsCertificateKeyFile",
                name: "server.pem",
                text: key_and_certificate,
                for_clients: None,
            },
            GivenFile {
                option: "--tlsCAFile",
                name: AUTHORITY,
                text: authority,
                for_clients: Some("tlsCAFile"),
            },
        ]);
        self
    }

    /// Keeps the data in the system's folder for temporary files. For measurements, where the disk counts.
    ///
    /// Defaults to memory (`/dev/shm`) where 2 GiB of it are free and `TMPDIR` is not set.
    pub fn on_disk(mut self) -> Self {
        self.launch.data = DataPlace::Disk;
        self
    }

    /// Starts the server and returns when it accepts writes. Blocks as [`Server::start`] does.
    ///
    /// # Panics
    ///
    /// When there is no server or it does not start, with what was tried and what to do.
    #[must_use]
    pub fn start(self) -> Server {
        self.try_start().unwrap_or_else(|error| error.raise())
    }

    /// As [`ServerBuilder::start`], without a panic.
    ///
    /// # Errors
    ///
    /// When there is no server or it does not start.
    pub fn try_start(self) -> Result<Server, Error> {
        let mut launch = self.launch;
        if self.root_password.is_some() {
            launch.arguments.push("--auth".to_owned());
        }
        let mongod = if self.standalone {
            let mongod = Mongod::start(launch)?;
            wait_until_writable(&mongod)?;
            mongod
        } else {
            start_set(launch, self.root_password.is_some())?
        };
        let set = mongod.replica_set().map_or_else(
            || "directConnection=true".to_owned(),
            |name| format!("replicaSet={name}"),
        );
        let uri = format!("mongodb://{}/?{set}{}", mongod.address(), mongod.uri_options());
        let mut server = Server::made(uri, Some(Arc::new(mongod)));
        if let Some(RootPassword(password)) = self.root_password {
            make_root(&server, &password)?;
            server.admin_uri = Some(server.uri_as("root", &password));
        } else if !self.standalone {
            // Where users log in, the keys cannot be read without a user.
            wait_for_upkeep(server.uri.clone())?;
        }
        Ok(server)
    }
}

fn start_set(mut launch: Launch, has_users: bool) -> Result<Mongod, Error> {
    // A name of its own: a client that reaches another test's port by mistake finds another set there.
    let name = random::name("testbed-");
    launch.replica_set = Some(name.clone());
    if has_users {
        // The key by which members recognize each other.
        let text = format!("{0:016x}{0:016x}", random::number());
        let option = "--keyFile";
        launch.files.push(GivenFile { option, name: "members.key", text, for_clients: None });
    }
    let mongod = Mongod::start(launch)?;
    initiate(&mongod, &name)?;
    wait_until_writable(&mongod)?;
    Ok(mongod)
}

/// A server without users allows a local client to make the first one.
fn make_root(server: &Server, password: &str) -> Result<(), Error> {
    let uri = server.uri().to_owned();
    let user = doc! { "createUser": "root", "pwd": password, "roles": ["root"] };
    apart::block_on(async move || apart::admin_here(&uri, user, PRIMARY_DEADLINE).await)?;
    Ok(())
}

fn initiate(mongod: &Mongod, name: &str) -> Result<(), Error> {
    let members = [doc! { "_id": 0, "host": mongod.address() }];
    let config = doc! { "_id": name, "members": members.to_vec() };
    let uri = mongod.uri();
    apart::block_on(async move || {
        apart::admin_here(&uri, doc! { "replSetInitiate": config }, PRIMARY_DEADLINE).await
    })?;
    Ok(())
}

/// Blocks until a new primary has made its two signing keys, some milliseconds after its election.
///
/// They are inserts that would count among the commands of a test. With a server version that does not make them, this
/// only waits in vain.
fn wait_for_upkeep(uri: String) -> Result<(), Error> {
    apart::block_on(async move || {
        let client = apart::connect(&uri, PRIMARY_DEADLINE).await?;
        let admin = client.database("admin");
        let deadline = Instant::now() + UPKEEP_DEADLINE;
        while Instant::now() < deadline {
            let count = doc! { "count": "system.keys" };
            let made = admin.run_command(count).await.map(|reply| reply.get_i32("n"));
            if matches!(made, Ok(Ok(2..))) {
                break;
            }
            tokio::time::sleep(ASK_EVERY).await;
        }
        client.shutdown().immediate(true).await;
        Ok(())
    })
}

/// Blocks until the server accepts writes.
pub(super) fn wait_until_writable(mongod: &Mongod) -> Result<(), Error> {
    let uri = mongod.uri();
    apart::block_on(async move || {
        let client = apart::connect(&uri, PRIMARY_DEADLINE).await?;
        let admin = client.database("admin");
        let deadline = Instant::now() + PRIMARY_DEADLINE;
        let mut last = "it was not asked".to_owned();
        while Instant::now() < deadline {
            match admin.run_command(doc! { "hello": 1 }).await {
                Ok(hello) if matches!(hello.get_bool("isWritablePrimary"), Ok(true)) => {
                    client.shutdown().immediate(true).await;
                    return Ok(());
                }
                Ok(hello) => last = hello.to_string(),
                Err(error) => last = error.to_string(),
            }
            tokio::time::sleep(ASK_EVERY).await;
        }
        Err(Error::new(format!("the server is not primary after a minute: {last}")))
    })
}
