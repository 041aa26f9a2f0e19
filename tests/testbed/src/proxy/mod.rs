//! A network that loses, holds back and delays messages for a test.

mod connection;
mod rules;

use std::io;
use std::net::Ipv4Addr;
use std::thread::JoinHandle;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

use self::rules::{Action, Rules, Way};
use crate::Error;

/// A proxy between clients and one server, which faults single messages by their command.
///
/// It forwards what clients and a server without TLS say to each other.
///
/// Only a proxy can lose a reply after the server has run the command: no fail point of the server offers that. It
/// lives on a thread of its own, so it goes on while a test blocks its runtime, and ends with all its connections when
/// it is dropped.
///
/// Clients must be made with [`Proxy::uri`], which makes them stay with the one address; with a URI that names the
/// replica set they would learn the server's own address and go around.
///
/// The driver repeats a retryable write once by itself after a lost connection, on a new
/// connection and with the same transaction number, so that the server applies it once.
///
/// ```no_run
/// # async fn example() {
/// use mongo_lease_testbed::{Proxy, Server};
///
/// let server = Server::start();
/// let proxy = Proxy::start(server.mongod().address());
/// let client = proxy.client().await;
/// let lost = proxy.lose_next_reply("findAndModify");
/// // … what the test does with `client` …
/// lost.lost().await;
/// # }
/// ```
#[derive(Debug)]
pub struct Proxy {
    port: u16,
    rules: Rules,
    orders: watch::Sender<Orders>,
    thread: Option<JoinHandle<()>>,
}

/// The orders of the accepting task.
#[derive(Clone, Copy, Debug, Default)]
struct Orders {
    /// How often all connections were cut.
    cuts: u64,
    ended: bool,
}

impl Proxy {
    /// Starts a proxy before the server at this address (host and port).
    ///
    /// # Panics
    ///
    /// When no port can be had.
    #[must_use]
    pub fn start(server: impl Into<String>) -> Self {
        let started = Self::try_start(server.into());
        started.unwrap_or_else(|error| Error::from_source("start of the proxy", error).raise())
    }

    fn try_start(server: String) -> io::Result<Self> {
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        listener.set_nonblocking(true)?;
        let port = listener.local_addr()?.port();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let rules = Rules::new();
        let (orders, obey) = watch::channel(Orders::default());
        let for_thread = rules.clone();
        let thread =
            std::thread::Builder::new().name("testbed-proxy".to_owned()).spawn(move || {
                let ended = runtime.block_on(serve(listener, server, for_thread, obey));
                if let Err(error) = ended {
                    eprintln!("mongo-lease-testbed: the proxy ended: {error}");
                }
            })?;
        Ok(Self { port, rules, orders, thread: Some(thread) })
    }

    /// The URI for clients, which makes them stay with the proxy.
    #[must_use]
    pub fn uri(&self) -> String {
        format!("mongodb://127.0.0.1:{}/?directConnection=true", self.port)
    }

    /// A new client through the proxy, in the runtime of the caller.
    pub async fn client(&self) -> mongodb::Client {
        self.client_with(|_| ()).await
    }

    /// A new client through the proxy with options of its own, in the runtime of the caller.
    ///
    /// # Panics
    ///
    /// When the driver refuses the options.
    pub async fn client_with(
        &self,
        change: impl FnOnce(&mut mongodb::options::ClientOptions),
    ) -> mongodb::Client {
        crate::server::client_of(&self.uri(), change).await
    }

    /// Lets the next such command run, and closes its connection instead of delivering the reply.
    pub fn lose_next_reply(&self, command: &str) -> Loss {
        self.lose(Way::Reply, command)
    }

    /// Closes the connection of the next such command before the server gets it.
    pub fn lose_next_request(&self, command: &str) -> Loss {
        self.lose(Way::Request, command)
    }

    /// Lets such commands run, and keeps their replies back until the guard is released.
    pub fn hold_replies_to(&self, command: &str) -> HoldGuard {
        self.hold(Way::Reply, Some(command), Action::Hold)
    }

    /// Lets the next such command run, and keeps its reply back until the guard is released. Later ones are not
    /// touched.
    pub fn hold_next_reply(&self, command: &str) -> HoldGuard {
        self.hold(Way::Reply, Some(command), Action::HoldNext)
    }

    /// Keeps the next such command back until the guard is released. Later ones are not touched.
    pub fn hold_next_request(&self, command: &str) -> HoldGuard {
        self.hold(Way::Request, Some(command), Action::HoldNext)
    }

    /// Keeps such commands back: the server gets them when the guard is released, even when their client has given up
    /// by then, like a write that was slow on its way.
    pub fn hold_requests_to(&self, command: &str) -> HoldGuard {
        self.hold(Way::Request, Some(command), Action::Hold)
    }

    /// Keeps all replies back, also those to the driver's monitors: a network that went silent.
    pub fn hold_replies(&self) -> HoldGuard {
        self.hold(Way::Reply, None, Action::Hold)
    }

    /// Closes every connection that is open now, a moment after this returns. None passes a message on meanwhile.
    pub fn cut(&self) {
        self.rules.cut();
        self.orders.send_modify(|orders| orders.cuts += 1);
    }

    fn lose(&self, way: Way, command: &str) -> Loss {
        let (rule, hits) = self.rules.add(way, Some(command), Action::Lose);
        Loss { rules: self.rules.clone(), rule, hits }
    }

    fn hold(&self, way: Way, command: Option<&str>, action: Action) -> HoldGuard {
        let (rule, hits) = self.rules.add(way, command, action);
        HoldGuard { rules: self.rules.clone(), rule, hits }
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.orders.send_modify(|orders| orders.ended = true);
        if let Some(thread) = self.thread.take() {
            let _panic = thread.join();
        }
    }
}

/// A message that will be lost. Dropping this takes the order back, if it has not happened yet.
#[derive(Debug)]
#[must_use = "dropping it takes the order back"]
pub struct Loss {
    rules: Rules,
    rule: u64,
    hits: watch::Receiver<usize>,
}

impl Loss {
    /// Returns when it has happened.
    pub async fn lost(&self) {
        wait_for(&self.hits, 1).await;
    }

    /// Whether it has happened.
    #[must_use]
    pub fn has_happened(&self) -> bool {
        *self.hits.borrow() > 0
    }
}

impl Drop for Loss {
    fn drop(&mut self) {
        self.rules.withdraw(self.rule);
    }
}

/// Messages are kept back while this lives. Dropping it lets them go on.
#[derive(Debug)]
#[must_use = "dropping it lets the messages go on"]
pub struct HoldGuard {
    rules: Rules,
    rule: u64,
    hits: watch::Receiver<usize>,
}

impl HoldGuard {
    /// Returns when this many messages were kept back since the beginning.
    ///
    /// With replies, the server has run that many commands then.
    pub async fn held(&self, count: usize) {
        wait_for(&self.hits, count).await;
    }

    /// Releases the messages that were kept back; later ones pass.
    pub fn release(self) {
        drop(self);
    }
}

impl Drop for HoldGuard {
    fn drop(&mut self) {
        self.rules.withdraw(self.rule);
    }
}

async fn wait_for(hits: &watch::Receiver<usize>, count: usize) {
    let mut hits = hits.clone();
    // An error means that the rule is gone, which happens only after its hit or with its handle.
    let _gone = hits.wait_for(|hits| *hits >= count).await;
}

async fn serve(
    listener: std::net::TcpListener,
    server: String,
    rules: Rules,
    mut obey: watch::Receiver<Orders>,
) -> io::Result<()> {
    let listener = TcpListener::from_std(listener)?;
    // Dropping the set ends the connections in it.
    let mut connections = JoinSet::new();
    let mut cuts = 0;
    loop {
        tokio::select! {
            // Orders first: a connection that comes after a cut was ordered is not cut.
            biased;
            changed = obey.changed() => {
                let orders = *obey.borrow_and_update();
                if orders.ended || changed.is_err() {
                    return Ok(());
                }
                if orders.cuts != cuts {
                    cuts = orders.cuts;
                    connections.abort_all();
                }
            }
            // Client and server deal with the end of their connections.
            Some(_end) = connections.join_next() => {}
            accepted = listener.accept() => {
                let (client, _): (TcpStream, _) = accepted?;
                connections.spawn(connection::forward(client, server.clone(), rules.clone()));
            }
        }
    }
}
