use std::sync::Arc;
use std::time::{Duration, Instant};

use mongodb::bson::doc;

use super::Server;
use crate::process::Launch;
use crate::{Error, Mongod, apart, random};

/// A one-node set elects itself at once; a minute is for a machine that is busy with others.
const PRIMARY_DEADLINE: Duration = Duration::from_secs(60);

/// How long a new primary may take for the writes it makes for itself.
const UPKEEP_DEADLINE: Duration = Duration::from_secs(2);

/// How often a server is asked whether it is primary now.
const ASK_EVERY: Duration = Duration::from_millis(10);

/// What a server shall be like. Made by [`Server::builder`].
#[derive(Clone, Debug, Default)]
#[must_use = "a builder starts nothing until `start`"]
pub struct ServerBuilder {
    standalone: bool,
    launch: Launch,
}

impl ServerBuilder {
    /// A server outside of any replica set: no transactions, no change streams.
    ///
    /// Defaults to a replica set of one node.
    pub fn standalone(mut self) -> Self {
        self.standalone = true;
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

    /// Adds an argument to the command line, as `--auth`.
    ///
    /// An option with a value is two arguments. `--auth` goes with [`ServerBuilder::standalone`]:
    /// a replica set wants a key file as well.
    pub fn argument(mut self, argument: impl Into<String>) -> Self {
        self.launch.arguments.push(argument.into());
        self
    }

    /// Starts the server and returns when it accepts writes. Blocks; callable from anywhere.
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
        if self.standalone {
            let mongod = Mongod::start(launch)?;
            return Ok(Server { uri: mongod.uri(), mongod: Some(Arc::new(mongod)) });
        }
        // A name of its own: a client that strays to the port of another test sees a stranger.
        let name = random::name("testbed-");
        launch.replica_set = Some(name.clone());
        let mongod = Mongod::start(launch)?;
        initiate(&mongod, &name)?;
        wait_until_writable(&mongod)?;
        wait_for_upkeep(&mongod)?;
        let uri = format!("mongodb://{}/?replicaSet={name}", mongod.address());
        Ok(Server { uri, mongod: Some(Arc::new(mongod)) })
    }
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
/// They are inserts which would be counted into the commands of a test. A server version which
/// does not make them costs the patience, and nothing else.
fn wait_for_upkeep(mongod: &Mongod) -> Result<(), Error> {
    let uri = mongod.uri();
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
