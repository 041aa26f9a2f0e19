//! The network: one proxy before each member for the workers, and one for the other members.
//!
//! The workers' proxies understand messages. They tell the driver their own addresses instead of the members', so that
//! no client goes around them, and carry out the controls. The members' proxies know the caller: a partition cuts some
//! of them off from others.

pub(crate) mod members;
mod rewrite;

use std::collections::HashMap;
use std::io;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use mongo_lease::mongodb::bson::{Bson, Document};
use mongo_lease_testbed::wire::Message;
use tokio::io::AsyncWriteExt;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::control::Control;

/// The state of the network between the workers and one member.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Weather {
    /// Requests do not arrive, and nothing is closed: a black hole.
    pub(crate) holds_requests: bool,
    /// Replies do not come back, although the server has carried out the request.
    pub(crate) holds_replies: bool,
    /// The delay of every reply.
    pub(crate) replies_late: Duration,
    /// New connections are closed at once.
    pub(crate) refuses: bool,
    /// How often all connections were cut.
    pub(crate) cuts: u64,
}

/// The state that all of the workers' proxies share.
#[derive(Debug)]
pub(crate) struct Shared {
    /// The members' own addresses, and those that the workers are to know.
    pub(crate) names: HashMap<String, String>,
    pub(crate) control: Option<Control>,
    /// How many commands were changed for the control.
    pub(crate) changed: AtomicU64,
}

/// A port that listens before its target is known.
pub(crate) struct Port(TcpListener);

impl Port {
    pub(crate) async fn open() -> io::Result<Port> {
        TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.map(Port)
    }

    pub(crate) fn address(&self) -> io::Result<String> {
        self.0.local_addr().map(|address| address.to_string())
    }
}

/// The proxy between the workers and one member. It ends with the runtime.
#[derive(Debug)]
pub(crate) struct Proxy {
    weather: watch::Sender<Weather>,
}

impl Proxy {
    pub(crate) fn start(port: Port, server: String, shared: Arc<Shared>) -> Proxy {
        let (weather, seen) = watch::channel(Weather::default());
        tokio::spawn(serve(port.0, server, shared, seen));
        Proxy { weather }
    }

    /// Changes the weather.
    pub(crate) fn change(&self, change: impl FnOnce(&mut Weather)) {
        self.weather.send_modify(change);
    }

    /// Closes all connections that are open now.
    pub(crate) fn cut(&self) {
        self.change(|weather| weather.cuts += 1);
    }

    /// Ends all faults.
    pub(crate) fn clear(&self) {
        self.change(|weather| *weather = Weather { cuts: weather.cuts, ..Weather::default() });
    }
}

async fn serve(
    listener: TcpListener,
    server: String,
    shared: Arc<Shared>,
    mut weather: watch::Receiver<Weather>,
) {
    let mut connections = JoinSet::new();
    let mut cuts = 0;
    loop {
        tokio::select! {
            biased;
            changed = weather.changed() => {
                if changed.is_err() {
                    return;
                }
                let now = weather.borrow_and_update().cuts;
                if now != cuts {
                    cuts = now;
                    connections.abort_all();
                }
            }
            // Client and server deal with the end of their connections.
            Some(_end) = connections.join_next() => {}
            accepted = listener.accept() => {
                if let Ok((client, _)) = accepted && !weather.borrow().refuses {
                    let (server, shared) = (server.clone(), Arc::clone(&shared));
                    connections.spawn(forward(client, server, shared, weather.clone()));
                }
            }
        }
    }
}

async fn forward(
    client: TcpStream,
    server: String,
    shared: Arc<Shared>,
    weather: watch::Receiver<Weather>,
) -> io::Result<()> {
    let server = TcpStream::connect(server).await?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    let mut replies =
        Box::pin(replies(from_server, to_client, Arc::clone(&shared), weather.clone()));
    let mut requests = Box::pin(requests(from_client, to_server, shared, weather));
    tokio::select! {
        end = &mut replies => end,
        end = &mut requests => {
            end?;
            // A client that gave up does not take its request back: bytes that were on their way arrive.
            replies.await
        }
    }
}

async fn requests(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    shared: Arc<Shared>,
    mut weather: watch::Receiver<Weather>,
) -> io::Result<()> {
    while let Some(mut message) = Message::read(&mut from).await? {
        if let Some(control) = shared.control
            && let Some(mut command) = message.document()
            && rewrite::rewrite(control, &mut command)
            && let Some(changed) = message.with_document(&command)
        {
            shared.changed.fetch_add(1, Ordering::Relaxed);
            message = changed;
        }
        // An error means that the proxy is gone, and this task with it.
        drop(weather.wait_for(|weather| !weather.holds_requests).await);
        to.write_all(message.bytes()).await?;
    }
    to.shutdown().await
}

async fn replies(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    shared: Arc<Shared>,
    mut weather: watch::Receiver<Weather>,
) -> io::Result<()> {
    while let Some(mut message) = Message::read(&mut from).await? {
        if message.contains(b"setName\0")
            && let Some(mut hello) = message.document()
        {
            rename(&mut hello, &shared.names);
            if let Some(renamed) = message.with_document(&hello) {
                message = renamed;
            }
        }
        let late = weather.borrow().replies_late;
        if !late.is_zero() {
            tokio::time::sleep(late).await;
        }
        drop(weather.wait_for(|weather| !weather.holds_replies).await);
        to.write_all(message.bytes()).await?;
    }
    Ok(())
}

/// Replaces the members' own addresses by those that the workers are to know.
fn rename(hello: &mut Document, names: &HashMap<String, String>) {
    let one = |value: &mut Bson| {
        if let Some(name) = value.as_str().and_then(|name| names.get(name)) {
            *value = Bson::from(name.as_str());
        }
    };
    for (_, value) in hello.iter_mut() {
        match value.as_array_mut() {
            Some(list) => list.iter_mut().for_each(one),
            None => one(value),
        }
    }
}

#[cfg(test)]
mod tests {
    use mongo_lease::mongodb::bson::doc;

    use super::*;

    #[test]
    fn the_driver_learns_the_proxies_addresses() {
        let names = HashMap::from([("a:1".to_owned(), "p:1".to_owned())]);
        let mut hello = doc! { "hosts": ["a:1", "b:2"], "me": "a:1", "primary": "b:2", "n": 1 };
        rename(&mut hello, &names);
        let renamed = doc! { "hosts": ["p:1", "b:2"], "me": "p:1", "primary": "b:2", "n": 1 };
        assert_eq!(hello, renamed);
    }
}
