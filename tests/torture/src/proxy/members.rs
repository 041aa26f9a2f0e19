//! The network among the members: which member reaches which.

use std::collections::HashSet;
use std::io;
use std::sync::{Arc, Weak};

use mongo_lease_testbed::ReplicaSet;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use super::Port;
use crate::cluster::MEMBERS;

/// A member by its index; `None` for an unknown process.
type Member = Option<usize>;

/// The pairs of caller and called between which nothing gets through. Nothing is closed: it is as if cables were cut.
type Blocked = HashSet<(usize, usize)>;

/// The proxies among the members.
#[derive(Debug)]
pub(crate) struct Links {
    blocked: watch::Sender<Blocked>,
}

impl Links {
    /// One proxy for each member, at these ports.
    pub(crate) fn start(ports: Vec<Port>, set: &Arc<ReplicaSet>) -> Links {
        let blocked = watch::Sender::new(Blocked::new());
        for (called, port) in ports.into_iter().enumerate() {
            tokio::spawn(serve(port.0, called, Arc::downgrade(set), blocked.subscribe()));
        }
        Links { blocked }
    }

    /// Cuts one member off: it hears nothing from the others, and they hear nothing from it. When `one_way`, its own
    /// calls are still answered.
    pub(crate) fn isolate(&self, member: usize, one_way: bool) {
        self.blocked.send_modify(|blocked| {
            for other in (0..MEMBERS).filter(|other| *other != member) {
                blocked.insert((other, member));
                if !one_way {
                    blocked.insert((member, other));
                }
            }
        });
    }

    pub(crate) fn heal(&self) {
        self.blocked.send_modify(Blocked::clear);
    }
}

async fn serve(
    listener: TcpListener,
    called: usize,
    set: Weak<ReplicaSet>,
    blocked: watch::Receiver<Blocked>,
) {
    while let Ok((stream, address)) = listener.accept().await {
        let Some(set) = set.upgrade() else {
            return;
        };
        // Read each time: a member that was started again is another process.
        let processes: Vec<_> = (0..MEMBERS).map(|member| set.node(member).pid()).collect();
        let server = set.node(called).address();
        let own = listener.local_addr().map_or(0, |address| address.port());
        let blocked = blocked.clone();
        tokio::spawn(async move {
            let port = address.port();
            let looked = tokio::task::spawn_blocking(move || caller(port, own, &processes));
            let caller: Member = looked.await.ok().flatten();
            // The members deal with the end of their connection.
            let _end = forward(stream, server, caller, called, blocked).await;
        });
    }
}

async fn forward(
    caller_stream: TcpStream,
    server: String,
    caller: Member,
    called: usize,
    blocked: watch::Receiver<Blocked>,
) -> io::Result<()> {
    let link = caller.map(|caller| (caller, called));
    let server_stream = TcpStream::connect(server).await?;
    caller_stream.set_nodelay(true)?;
    server_stream.set_nodelay(true)?;
    let (from_caller, to_caller) = caller_stream.into_split();
    let (from_called, to_called) = server_stream.into_split();
    tokio::select! {
        end = pass(from_caller, to_called, link, blocked.clone()) => end,
        end = pass(from_called, to_caller, link, blocked) => end,
    }
}

async fn pass(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    link: Option<(usize, usize)>,
    mut blocked: watch::Receiver<Blocked>,
) -> io::Result<()> {
    let mut bytes = vec![0; 64 * 1024];
    loop {
        let count = from.read(&mut bytes).await?;
        let is_open = |blocked: &Blocked| link.is_none_or(|link| !blocked.contains(&link));
        // An error means that the proxy is gone, and this task with it.
        drop(blocked.wait_for(is_open).await);
        if count == 0 {
            return to.shutdown().await;
        }
        to.write_all(&bytes[..count]).await?;
    }
}

/// The member whose process has the other end of a connection.
fn caller(port: u16, to: u16, processes: &[Option<u32>]) -> Member {
    let table = std::fs::read_to_string("/proc/net/tcp").ok()?;
    let (from, to) = (format!(":{port:04X}"), format!(":{to:04X}"));
    let fields = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let socket = table.lines().map(fields).find_map(|fields| {
        let is_it = fields.get(1)?.ends_with(&from) && fields.get(2)?.ends_with(&to);
        is_it.then(|| fields.get(9).map(|inode| format!("socket:[{inode}]")))?
    })?;
    let has_it = |pid: u32| {
        let entries = std::fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
        let mut targets = entries.filter_map(|entry| std::fs::read_link(entry.path()).ok());
        targets.any(|target| target.as_os_str() == socket.as_str())
    };
    processes.iter().position(|pid| pid.is_some_and(has_it))
}
