//! All servers that are installed, each with its floor and its contenders.

use mongo_lease_measure::Outcome;

use crate::contender::{self, Contender};
use crate::peers::Peer;
use crate::servers::{self, Floor, Kind, Missing, Server};

/// A server and its contenders.
pub(crate) struct Host {
    pub(crate) floor: Box<dyn Floor>,
    pub(crate) peers: Vec<(&'static Contender, Box<dyn Peer>)>,
    /// Dropped last: the others have connections to it.
    pub(crate) server: Box<dyn Server>,
}

/// All of them, mongod first.
///
/// Each part of the run has new ones: mongod keeps the index entries of deleted documents for five minutes, and each
/// side would walk over what it left behind in the part before.
pub(crate) struct Setup {
    pub(crate) hosts: Vec<Host>,
    /// The missing servers, and how to install each.
    pub(crate) left_out: Vec<String>,
}

impl Setup {
    pub(crate) async fn new(only: &[String]) -> Outcome<Setup> {
        let mut setup = Setup { hosts: Vec::new(), left_out: Vec::new() };
        for kind in Kind::ALL {
            let contenders: Vec<_> = contender::ALL
                .iter()
                .filter(|it| it.server == kind && is_wanted(it, only))
                .collect();
            if contenders.is_empty() {
                continue;
            }
            match servers::start(kind).await? {
                Ok(server) => setup.hosts.push(Host::new(server, contenders).await?),
                Err(Missing(what)) => {
                    setup.left_out.push(format!("left out: {}, for want of {what}", kind.label()));
                }
            }
        }
        Ok(setup)
    }

    pub(crate) async fn close(self) {
        for (_, peer) in self.hosts.iter().flat_map(|host| &host.peers) {
            peer.close().await;
        }
    }
}

impl Host {
    async fn new(server: Box<dyn Server>, contenders: Vec<&'static Contender>) -> Outcome<Host> {
        let floor = server.floor().await?;
        let mut peers = Vec::new();
        for contender in contenders {
            if !contender.is_variant {
                contender::prepare(contender, server.address()).await?;
            }
            peers.push((contender, contender::open(contender.id, server.address()).await?));
        }
        Ok(Host { floor, peers, server })
    }

    pub(crate) fn kind(&self) -> Kind {
        self.server.kind()
    }
}

/// Whether the user wants it. Without mongod's floor and mongo-lease there is nothing to compare with.
fn is_wanted(contender: &Contender, only: &[String]) -> bool {
    let server = contender.server.label().to_lowercase();
    let is_named = |part: &String| contender.id.contains(part.as_str()) || server.contains(part);
    contender.id == "mongo-lease" || only.is_empty() || only.iter().any(is_named)
}
