use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};

use super::rules::{Rules, Verdict, Way};
use crate::wire::Message;

/// The commands whose replies are still to come, by the number of the request.
type Pending = Arc<Mutex<HashMap<u32, String>>>;

/// Whether the rest of the connection is still of use after one of its sides has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// The sender closed its side.
    Closed,
    /// A rule wants the connection closed.
    Lost,
}

/// The rules for one connection.
#[derive(Clone)]
struct Passing {
    rules: Rules,
    /// How often all connections had been cut when this one began.
    cuts: u64,
}

impl Passing {
    /// Returns when the message may go on, or when it is lost.
    async fn pass(&self, way: Way, command: Option<&str>) -> End {
        loop {
            match self.rules.judge(way, command) {
                Verdict::Deliver if self.rules.cuts() == self.cuts => return End::Closed,
                Verdict::Deliver | Verdict::Lose => return End::Lost,
                Verdict::Hold(rule) => self.rules.until_withdrawn(rule).await,
            }
        }
    }
}

/// Forwards one connection until it is closed by a side, or by a rule.
pub(super) async fn forward(client: TcpStream, server: String, rules: Rules) -> io::Result<()> {
    let rules = Passing { cuts: rules.cuts(), rules };
    let server = TcpStream::connect(server).await?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    let pending = Pending::default();
    let mut requests =
        Box::pin(requests(from_client, to_server, rules.clone(), Arc::clone(&pending)));
    let mut replies = Box::pin(replies(from_server, to_client, rules, pending));
    tokio::select! {
        end = &mut replies => end.map(|_| ()),
        end = &mut requests => match end? {
            End::Lost => Ok(()),
            // A client that gave up does not take its request back: bytes that were on their way arrive, and the server
            // closes the connection.
            End::Closed => replies.await.map(|_| ()),
        },
    }
}

async fn requests(
    mut client: OwnedReadHalf,
    mut server: OwnedWriteHalf,
    rules: Passing,
    pending: Pending,
) -> io::Result<End> {
    while let Some(message) = Message::read(&mut client).await? {
        let command = message.command().map(str::to_owned);
        if rules.pass(Way::Request, command.as_deref()).await == End::Lost {
            return Ok(End::Lost);
        }
        if let Some(command) = command.filter(|_| message.wants_reply()) {
            lock(&pending).insert(message.request(), command);
        }
        server.write_all(message.bytes()).await?;
    }
    server.shutdown().await?;
    Ok(End::Closed)
}

async fn replies(
    mut server: OwnedReadHalf,
    mut client: OwnedWriteHalf,
    rules: Passing,
    pending: Pending,
) -> io::Result<End> {
    while let Some(message) = Message::read(&mut server).await? {
        let command = lock(&pending).remove(&message.answers());
        if rules.pass(Way::Reply, command.as_deref()).await == End::Lost {
            return Ok(End::Lost);
        }
        client.write_all(message.bytes()).await?;
    }
    Ok(End::Closed)
}

fn lock(pending: &Pending) -> std::sync::MutexGuard<'_, HashMap<u32, String>> {
    pending.lock().unwrap_or_else(PoisonError::into_inner)
}
