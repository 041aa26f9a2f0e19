//! etcd with one member, and its bare commands.

use async_trait::async_trait;
use etcd_client::{Client, Compare, CompareOp, Txn, TxnOp};
use mongo_lease_measure::Outcome;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::process::{Process, find, folder, free_port};
use super::{Floor, Kind, Missing, Server, until_it_answers};

pub(super) struct Etcd {
    process: Process,
    address: String,
    client: Client,
}

pub(super) async fn start() -> Outcome<Result<Etcd, Missing>> {
    const PROGRAM: &str = "etcd";
    let Some(path) = find(PROGRAM, &[]) else {
        return Ok(Err(Missing::program(PROGRAM, "etcd-server")));
    };
    let folder = folder("etcd")?;
    let data = folder.join("data").display().to_string();
    let (port, peer_port) = (free_port()?, free_port()?);
    let (url, peer_url) =
        (format!("http://127.0.0.1:{port}"), format!("http://127.0.0.1:{peer_port}"));
    let cluster = format!("one={peer_url}");
    let arguments = [
        ["--name", "one"],
        ["--data-dir", &data],
        ["--listen-client-urls", &url],
        ["--advertise-client-urls", &url],
        ["--listen-peer-urls", &peer_url],
        ["--initial-advertise-peer-urls", &peer_url],
        ["--initial-cluster", &cluster],
        ["--log-level", "error"],
    ];
    let arguments: Vec<String> = arguments.as_flattened().iter().map(|&it| it.into()).collect();
    let process = Process::start(&folder, &path, &arguments)?;
    let client = until_it_answers(&process, async || {
        let mut client = Client::connect([&url], None).await?;
        client.put("ready", "", None).await?;
        Ok(client)
    })
    .await?;
    Ok(Ok(Etcd { process, address: format!("127.0.0.1:{port}"), client }))
}

impl Etcd {
    /// Its metrics in the format of Prometheus.
    async fn metrics(&self) -> Outcome<String> {
        let mut stream = TcpStream::connect(&self.address).await?;
        stream.write_all(b"GET /metrics HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n").await?;
        let mut text = String::new();
        stream.read_to_string(&mut text).await?;
        Ok(text)
    }
}

#[async_trait]
impl Server for Etcd {
    fn kind(&self) -> Kind {
        Kind::Etcd
    }

    fn address(&self) -> &str {
        &self.address
    }

    fn pid(&self) -> Option<u32> {
        Some(self.process.pid())
    }

    async fn version(&self) -> Outcome<String> {
        Ok(format!("etcd {}", self.client.clone().status().await?.version()))
    }

    async fn requests(&self) -> Outcome<u64> {
        // A line is `grpc_server_msg_received_total{grpc_method="Lock",…} 12`.
        let metrics = self.metrics().await?;
        let lines = metrics.lines().filter(|it| it.starts_with("grpc_server_msg_received_total{"));
        let mut requests = 0;
        for line in lines {
            let (_, count) = line.rsplit_once(' ').ok_or("a line without a number")?;
            requests += count.parse::<u64>()?;
        }
        if requests == 0 { Err("no requests in its metrics".into()) } else { Ok(requests) }
    }

    async fn floor(&self) -> Outcome<Box<dyn Floor>> {
        Ok(Box::new(Bare { client: self.client.clone() }))
    }
}

struct Bare {
    client: Client,
}

fn key(name: &str) -> String {
    format!("bare/{name}")
}

#[async_trait]
impl Floor for Bare {
    async fn take(&self, name: &str) -> Outcome<()> {
        self.client.kv_client().put(key(name), "a random value", None).await?;
        Ok(())
    }

    async fn give(&self, name: &str) -> Outcome<()> {
        self.client.kv_client().delete(key(name), None).await?;
        Ok(())
    }

    async fn lose(&self, name: &str) -> Outcome<()> {
        let is_absent = Compare::create_revision(key(name), CompareOp::Equal, 0);
        let put = TxnOp::put(key(name), "another", None);
        let txn = Txn::new().when([is_absent]).and_then([put]);
        let reply = self.client.kv_client().txn(txn).await?;
        if reply.succeeded() { Err("put a name twice".into()) } else { Ok(()) }
    }
}
