//! The replica set, and the network around it.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

use mongo_lease::mongodb::bson::{Bson, Document, doc, oid::ObjectId};
use mongo_lease::mongodb::options::ClientOptions;
use mongo_lease::mongodb::{Client, Database};
use mongo_lease_testbed::ReplicaSet;

use crate::control::Control;
use crate::proxy::members::Links;
use crate::proxy::{Port, Proxy, Shared};

pub(crate) const MEMBERS: usize = 3;

/// Time limit for what a healthy member does at once.
pub(crate) const PATIENCE: Duration = Duration::from_secs(2);
/// Time limit for elections, on a busy machine.
const ELECTIONS: Duration = Duration::from_secs(120);

/// Longer than an election takes, if a member can be elected.
const ELECTION: Duration = Duration::from_secs(20);
/// This many writes that all members confirm are as good as a few that they confirm promptly: the machine is busy.
const CONFIRMED: u32 = 40;

const DATABASE: &str = "torture";
pub(crate) const COLLECTION: &str = "locks";
/// The collection that workers write to in transactions.
pub(crate) const LEDGER: &str = "ledger";

/// A process that is killed or stopped behind its guard blocks the lease for half as long again.
const PARAMETERS: [(&str, &str); 1] = [("transactionLifetimeLimitSeconds", "3")];

/// Why the suite could not run as planned. Never a verdict about the library.
#[derive(Debug)]
pub(crate) struct Failed(String);

impl Failed {
    pub(crate) fn new(text: impl Into<String>) -> Failed {
        Failed(text.into())
    }

    pub(crate) fn at(doing: &str, error: impl fmt::Display) -> Failed {
        Failed(format!("{doing}: {error}"))
    }
}

impl fmt::Display for Failed {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// Three members, proxies among them, and proxies between them and the workers.
pub(crate) struct Cluster {
    pub(crate) set: Arc<ReplicaSet>,
    pub(crate) links: Links,
    pub(crate) proxies: Vec<Proxy>,
    pub(crate) shared: Arc<Shared>,
    /// A client for each member alone, past all proxies.
    direct: Vec<Client>,
    uri: String,
}

impl Cluster {
    pub(crate) async fn start(control: Option<Control>) -> Result<Cluster, Failed> {
        let start = || ReplicaSet::try_start_with(&PARAMETERS);
        let started = tokio::task::spawn_blocking(start).await;
        let set = started.map_err(|error| Failed::at("starting", error))?;
        let set = Arc::new(set.map_err(|error| Failed::at("starting the servers", error))?);
        let failed = |error| Failed::at("a port", error);
        let (mut outer, mut inner) = (Vec::new(), Vec::new());
        for _ in 0..MEMBERS {
            outer.push(Port::open().await.map_err(failed)?);
            inner.push(Port::open().await.map_err(failed)?);
        }
        let address = |port: &Port| port.address().map_err(failed);
        let known: Vec<String> = outer.iter().map(address).collect::<Result<_, _>>()?;
        let members: Vec<String> = inner.iter().map(address).collect::<Result<_, _>>()?;
        let names: HashMap<_, _> = members.iter().cloned().zip(known.iter().cloned()).collect();
        let shared = Arc::new(Shared { names, control, changed: AtomicU64::new(0) });
        let links = Links::start(inner, &set);
        let proxies = outer.into_iter().enumerate().map(|(member, port)| {
            Proxy::start(port, set.node(member).address(), Arc::clone(&shared))
        });
        let proxies = proxies.collect();
        let mut direct = Vec::new();
        for member in 0..MEMBERS {
            direct.push(client(&set.node(member).uri()).await?);
        }
        let set_uri = set.uri();
        let name = set_uri.rsplit_once('=').map_or("", |(_, name)| name);
        let uri = format!("mongodb://{}/?replicaSet={name}", known.join(","));
        let cluster = Cluster { set, links, proxies, shared, direct, uri };
        cluster.rename_members(&members).await?;
        Ok(cluster)
    }

    /// The address for workers.
    pub(crate) fn uri(&self) -> &str {
        &self.uri
    }

    pub(crate) fn database_name() -> &'static str {
        DATABASE
    }

    /// The database at one member, past all proxies.
    pub(crate) fn database(&self, member: usize) -> Database {
        self.direct[member].database(DATABASE)
    }

    pub(crate) fn direct(&self, member: usize) -> &Client {
        &self.direct[member]
    }

    /// Runs an administrative command at one member.
    pub(crate) async fn admin(
        &self,
        member: usize,
        command: Document,
        patience: Duration,
    ) -> Result<Document, Failed> {
        let name = command.keys().next().cloned().unwrap_or_default();
        let admin = self.direct[member].database("admin");
        let asked = async { admin.run_command(command).await };
        match tokio::time::timeout(patience, asked).await {
            Ok(Ok(reply)) => Ok(reply),
            Ok(Err(error)) => {
                // For an error without a code the driver says only that there is none.
                let said = error.server_response().and_then(|reply| reply.get_str("errmsg").ok());
                Err(Failed::new(format!("{name}: {}: {error}", said.unwrap_or_default())))
            }
            Err(_) => Err(Failed::new(format!("{name} got no answer in {patience:?}"))),
        }
    }

    /// The primary; if two members claim to be it, the one elected last.
    pub(crate) async fn primary(&self) -> Option<usize> {
        let mut elected: Option<(ObjectId, usize)> = None;
        let ask = |member| self.admin(member, doc! { "hello": 1 }, Duration::from_millis(500));
        let answers = tokio::join!(ask(0), ask(1), ask(2));
        for (member, answer) in [answers.0, answers.1, answers.2].into_iter().enumerate() {
            if let Ok(hello) = answer
                && matches!(hello.get_bool("isWritablePrimary"), Ok(true))
            {
                let election = hello.get_object_id("electionId").unwrap_or_default();
                elected = elected.max(Some((election, member)));
            }
        }
        elected.map(|(_, member)| member)
    }

    /// Waits until there is a primary, and returns it.
    pub(crate) async fn wait_for_primary(&self) -> Result<usize, Failed> {
        let found = self.primary_by(Instant::now() + ELECTIONS).await;
        found.ok_or_else(|| Failed::new(format!("there is no primary for {ELECTIONS:?}")))
    }

    async fn primary_by(&self, deadline: Instant) -> Option<usize> {
        while Instant::now() < deadline {
            if let Some(primary) = self.primary().await {
                return Some(primary);
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        None
    }

    /// A member that answers.
    async fn any_member(&self) -> Result<usize, Failed> {
        for member in 0..MEMBERS {
            if self.admin(member, doc! { "ping": 1 }, PATIENCE).await.is_ok() {
                return Ok(member);
            }
        }
        Err(Failed::new("no member answers"))
    }

    /// Returns when all members confirm a write, and do so promptly for a while.
    pub(crate) async fn wait_until_followed(&self) -> Result<(), Failed> {
        let note = doc! {
            "appendOplogNote": 1,
            "data": { "torture": "ready" },
            "writeConcern": { "w": 3, "wtimeout": 5_000 },
        };
        let deadline = Instant::now() + ELECTIONS;
        let (mut prompt, mut confirmed) = (0, 0);
        let mut last = Failed::new("no member was queried");
        while Instant::now() < deadline {
            let primary = self.wait_for_primary().await?;
            let sent = Instant::now();
            match self.admin(primary, note.clone(), Duration::from_secs(6)).await {
                Ok(reply) if !reply.contains_key("writeConcernError") => {
                    let is_prompt = sent.elapsed() < Duration::from_millis(250);
                    prompt = if is_prompt { prompt + 1 } else { 0 };
                    confirmed += 1;
                    if prompt == 5 || confirmed == CONFIRMED {
                        return Ok(());
                    }
                }
                Ok(reply) => last = Failed::new(reply.to_string()),
                Err(error) => last = error,
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Err(Failed::at("the secondaries do not catch up", last))
    }

    /// Lets the members call each other by the proxies' addresses.
    async fn rename_members(&self, names: &[String]) -> Result<(), Failed> {
        let deadline = Instant::now() + ELECTIONS;
        self.reconfigure(deadline, |_, number, member| {
            let _ = member.insert("host", names[number].as_str());
        })
        .await?;
        self.wait_until_followed().await
    }

    /// All members but the primary apply each write so many seconds later, and cannot be elected meanwhile. Zero heals
    /// them.
    pub(crate) async fn delay_secondaries(&self, seconds: i64) -> Result<(), Failed> {
        self.reconfigure(Instant::now() + ELECTIONS, |primary, number, member| {
            let is_late = seconds > 0 && number != primary;
            let (delay, priority) = if is_late { (seconds, 0) } else { (0, 1) };
            member.extend(doc! { "secondaryDelaySecs": delay, "priority": priority });
        })
        .await
    }

    /// Changes each member's configuration, until that succeeds. The change gets the primary's number and the member's.
    async fn reconfigure(
        &self,
        deadline: Instant,
        change: impl Fn(usize, usize, &mut Document),
    ) -> Result<(), Failed> {
        // The members query each other first, and give each other 1 s for the answer. A busy machine may need more, and
        // elect another primary meanwhile.
        while let Err(error) = self.try_reconfigure(&change).await {
            if Instant::now() > deadline {
                return Err(error);
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        Ok(())
    }

    async fn try_reconfigure(
        &self,
        change: impl Fn(usize, usize, &mut Document),
    ) -> Result<(), Failed> {
        let (primary, force) = match self.primary_by(Instant::now() + ELECTION).await {
            Some(primary) => (primary, false),
            // A killed primary may have lost writes that a late member has. So no late member votes for it, and none of
            // them can be elected.
            None => (self.any_member().await?, true),
        };
        let reply = self.admin(primary, doc! { "replSetGetConfig": 1 }, ELECTIONS).await?;
        let mut config = reply.get_document("config").cloned().unwrap_or_default();
        let version = config.get_i32("version").unwrap_or(1);
        config.insert("version", version + 1);
        let members = config.get_array_mut("members").into_iter().flatten();
        for (number, member) in members.filter_map(Bson::as_document_mut).enumerate() {
            change(primary, number, member);
        }
        let command = doc! { "replSetReconfig": config, "force": force };
        self.admin(primary, command, ELECTIONS).await?;
        Ok(())
    }
}

async fn client(uri: &str) -> Result<Client, Failed> {
    let failed = |error| Failed::at("a client", error);
    let mut options = ClientOptions::parse(uri).await.map_err(failed)?;
    options.app_name = Some("torture".to_owned());
    options.connect_timeout = Some(PATIENCE);
    options.server_selection_timeout = Some(PATIENCE);
    options.heartbeat_freq = Some(Duration::from_millis(500));
    Client::with_options(options).map_err(failed)
}
