//! ZooKeeper with one server, and its bare commands.

use std::ffi::OsStr;
use std::fs;

use async_trait::async_trait;
use futures_util::{StreamExt, TryStreamExt, stream};
use mongo_lease_measure::Outcome;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use zookeeper_client::{Acls, Client, CreateMode, Error};

use super::process::{Process, find, folder, free_port};
use super::{Floor, Kind, Missing, Server, until_it_answers};

/// Where Debian's package has its programs.
const FOLDERS: [&str; 1] = ["/usr/share/zookeeper/bin"];
/// Pairs that warm the virtual machine up, before anything is measured.
const WARMING_PAIRS: usize = 5_000;

pub(super) struct ZooKeeper {
    process: Process,
    address: String,
    client: Client,
}

pub(super) async fn start() -> Outcome<Result<ZooKeeper, Missing>> {
    const PROGRAM: &str = "zkServer.sh";
    let Some(path) = find(PROGRAM, &FOLDERS) else {
        return Ok(Err(Missing::program(PROGRAM, "zookeeper")));
    };
    if find("java", &[]).is_none() {
        return Ok(Err(Missing::program("java", "default-jre-headless")));
    }
    let (folder, port) = (folder("zookeeper")?, free_port()?);
    let data = folder.display();
    let settings = format!(
        "dataDir={data}/data\nclientPort={port}\nclientPortAddress=127.0.0.1\ntickTime=2000\n\
         maxClientCnxns=0\nforceSync=yes\nadmin.enableServer=false\n\
         4lw.commands.whitelist=mntr,ruok\n"
    );
    let file = folder.join("zoo.cfg");
    fs::write(&file, settings)?;
    let arguments = ["start-foreground".to_owned(), file.display().to_string()];
    // Debian's settings set the variables for logs again, and these come after them.
    let flags = format!("-Dzookeeper.log.dir={data} -Dzookeeper.root.logger=ERROR,CONSOLE");
    let environment = [("JVMFLAGS", OsStr::new(&flags)), ("JMXDISABLE", OsStr::new("true"))];
    let process = Process::start_with(&folder, &path, &arguments, &environment)?;
    let address = format!("127.0.0.1:{port}");
    until_it_answers(&process, async || four_letters(&address, "mntr").await).await?;
    let client = Client::connect(&address).await?;
    let options = CreateMode::Persistent.with_acls(Acls::anyone_all());
    client.mkdir("/bare", &options).await?;
    let bare = Bare { client: client.clone() };
    let warm = async |number: usize| -> Outcome<()> {
        let name = format!("warming:{number}");
        bare.take(&name).await?;
        bare.give(&name).await
    };
    stream::iter(0..WARMING_PAIRS).map(warm).buffer_unordered(32).try_collect::<()>().await?;
    Ok(Ok(ZooKeeper { process, address, client }))
}

/// Its answer to a four-letter command.
async fn four_letters(address: &str, command: &str) -> Outcome<String> {
    let mut stream = TcpStream::connect(address).await?;
    stream.write_all(command.as_bytes()).await?;
    let mut text = String::new();
    stream.read_to_string(&mut text).await?;
    if text.contains("zk_version") { Ok(text) } else { Err(text.into()) }
}

impl ZooKeeper {
    /// One of its counters.
    async fn figure(&self, name: &str) -> Outcome<String> {
        let text = four_letters(&self.address, "mntr").await?;
        let mut lines = text.lines().filter_map(|line| line.split_once('\t'));
        let figure = lines.find(|line| line.0 == name).ok_or("no such figure")?;
        Ok(figure.1.to_owned())
    }
}

#[async_trait]
impl Server for ZooKeeper {
    fn kind(&self) -> Kind {
        Kind::ZooKeeper
    }

    fn address(&self) -> &str {
        &self.address
    }

    fn pid(&self) -> Option<u32> {
        Some(self.process.pid())
    }

    async fn version(&self) -> Outcome<String> {
        let version = self.figure("zk_version").await?;
        Ok(format!("ZooKeeper {}", version.split(['-', ',']).next().unwrap_or_default()))
    }

    async fn requests(&self) -> Outcome<u64> {
        Ok(self.figure("zk_packets_received").await?.parse()?)
    }

    async fn floor(&self) -> Outcome<Box<dyn Floor>> {
        Ok(Box::new(Bare { client: self.client.clone() }))
    }
}

struct Bare {
    client: Client,
}

impl Bare {
    async fn create(&self, name: &str) -> Result<(), Error> {
        let options = CreateMode::Ephemeral.with_acls(Acls::anyone_all());
        self.client.create(&format!("/bare/{name}"), b"a random value", &options).await?;
        Ok(())
    }
}

#[async_trait]
impl Floor for Bare {
    async fn take(&self, name: &str) -> Outcome<()> {
        Ok(self.create(name).await?)
    }

    async fn give(&self, name: &str) -> Outcome<()> {
        Ok(self.client.delete(&format!("/bare/{name}"), None).await?)
    }

    async fn lose(&self, name: &str) -> Outcome<()> {
        match self.create(name).await {
            Err(Error::NodeExists) => Ok(()),
            Err(error) => Err(error.into()),
            Ok(()) => Err("created a node twice".into()),
        }
    }
}
