//! The fenced resource: a process that remembers the newest tokens of each name, and refuses older ones.
//!
//! A write of an exclusive holder needs the newest token of all. One of a share needs that of the exclusive ones:
//! shares that are held together have tokens in no order.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use mongo_lease_checker::history::What;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

use crate::arguments::ResourceOrders;
use crate::control::Control;
use crate::history::Writer;
use crate::{Exit, console};

/// How long a worker waits for the answer.
const PATIENCE: Duration = Duration::from_secs(2);

/// A write, as it is sent: a line of JSON, answered by a line that says `true` or `false`.
#[derive(Debug, Serialize, Deserialize)]
struct Write {
    call: String,
    name: String,
    token: u64,
    is_exclusive: bool,
}

/// The newest tokens of one name.
#[derive(Clone, Copy, Debug, Default)]
struct Tokens {
    all: u64,
    exclusive: u64,
}

/// The state of the resource.
struct Newest {
    tokens: HashMap<String, Tokens>,
    history: Writer,
    /// The control's mistake: every write is accepted.
    is_open: bool,
}

impl Newest {
    /// Decides, and writes the decisions down in their order.
    fn judge(&mut self, write: Write) -> bool {
        let Write { call, name, token, is_exclusive } = write;
        let newest = self.tokens.entry(name.clone()).or_default();
        let needed = if is_exclusive { newest.all } else { newest.exclusive };
        let accepted = self.is_open || token >= needed;
        newest.all = newest.all.max(token);
        if is_exclusive {
            newest.exclusive = newest.exclusive.max(token);
        }
        self.history.note(What::Judged { call, name, token, accepted });
        accepted
    }
}

/// The process: prints its address, and serves until its input ends.
pub(crate) async fn serve(orders: ResourceOrders) -> Exit {
    match try_serve(orders).await {
        Ok(()) => Exit::Clean,
        Err(error) => {
            console::say(&format!("the resource failed: {error}"));
            Exit::Broken
        }
    }
}

async fn try_serve(orders: ResourceOrders) -> io::Result<()> {
    let history = Writer::create(&orders.history, "resource")?;
    let is_open = orders.control == Some(Control::OpenResource);
    let newest = Newest { tokens: HashMap::new(), history, is_open };
    let newest = Arc::new(Mutex::new(newest));
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    console::say(&listener.local_addr()?.to_string());
    let mut end = mongo_lease_testbed::orders();
    loop {
        tokio::select! {
            _order = end.recv() => return Ok(()),
            accepted = listener.accept() => {
                let (stream, _): (TcpStream, _) = accepted?;
                let newest = Arc::clone(&newest);
                tokio::spawn(async move {
                    // A worker that was killed cannot read the answer.
                    let _ended = answer(stream, newest).await;
                });
            }
        }
    }
}

async fn answer(mut stream: TcpStream, newest: Arc<Mutex<Newest>>) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let (from, mut to) = stream.split();
    let mut lines = BufReader::new(from).lines();
    while let Some(line) = lines.next_line().await? {
        let write: Write = serde_json::from_str(&line)?;
        let accepted = newest.lock().expect("nobody panics with it").judge(write);
        to.write_all(format!("{accepted}\n").as_bytes()).await?;
    }
    Ok(())
}

/// A worker's connection to the resource. One write at a time; no answer when the resource cannot be reached.
pub(crate) struct Resource {
    address: SocketAddr,
    connection: tokio::sync::Mutex<Option<BufReader<TcpStream>>>,
}

impl Resource {
    pub(crate) fn at(address: SocketAddr) -> Resource {
        Resource { address, connection: tokio::sync::Mutex::new(None) }
    }

    /// Whether the write was accepted.
    pub(crate) async fn write(
        &self,
        call: &str,
        name: &str,
        token: u64,
        is_exclusive: bool,
    ) -> Option<bool> {
        let write = Write { call: call.to_owned(), name: name.to_owned(), token, is_exclusive };
        let mut slot = self.connection.lock().await;
        let asked = tokio::time::timeout(PATIENCE, async {
            let mut connection = match slot.take() {
                Some(connection) => connection,
                None => BufReader::new(TcpStream::connect(self.address).await?),
            };
            let mut line = serde_json::to_string(&write)?;
            line.push('\n');
            connection.get_mut().write_all(line.as_bytes()).await?;
            let mut answer = String::new();
            connection.read_line(&mut answer).await?;
            io::Result::Ok((connection, answer))
        });
        let (connection, answer) = asked.await.ok()?.ok()?;
        let accepted = answer.trim().parse().ok()?;
        *slot = Some(connection);
        Some(accepted)
    }
}
