//! Redis, with its defaults and with a log that is synced at each write, and its bare commands.

use async_trait::async_trait;
use mongo_lease_measure::Outcome;
use redis::aio::MultiplexedConnection;
use redis::{Client, cmd};

use super::process::{Process, find, folder, free_port};
use super::{Floor, Kind, Missing, Server, until_it_answers};

/// The commands that run or load a script.
const SCRIPTS: [&str; 3] = ["cmdstat_eval", "cmdstat_evalsha", "cmdstat_script"];
const SET: &str = "cmdstat_set";

pub(super) struct Redis {
    process: Process,
    kind: Kind,
    address: String,
    connection: MultiplexedConnection,
}

pub(super) async fn start(is_synced: bool) -> Outcome<Result<Redis, Missing>> {
    const PROGRAM: &str = "redis-server";
    let Some(path) = find(PROGRAM, &[]) else {
        return Ok(Err(Missing::program(PROGRAM, "redis-server")));
    };
    let (folder, port) = (folder("redis")?, free_port()?);
    // Without a configuration file it has the defaults of its source.
    let dir = folder.display().to_string();
    let port = port.to_string();
    let mut arguments = vec!["--bind", "127.0.0.1", "--port", &port, "--dir", &dir];
    if is_synced {
        arguments.extend(["--appendonly", "yes", "--appendfsync", "always"]);
    }
    let arguments: Vec<String> = arguments.into_iter().map(str::to_owned).collect();
    let process = Process::start(&folder, &path, &arguments)?;
    let address = format!("127.0.0.1:{port}");
    let client = Client::open(format!("redis://{address}"))?;
    let connect = async || Ok(client.get_multiplexed_async_connection().await?);
    let connection = until_it_answers(&process, connect).await?;
    let kind = if is_synced { Kind::RedisSynced } else { Kind::Redis };
    Ok(Ok(Redis { process, kind, address, connection }))
}

impl Redis {
    async fn info(&self, section: &str) -> Outcome<String> {
        let mut connection = self.connection.clone();
        Ok(cmd("INFO").arg(section).query_async(&mut connection).await?)
    }

    /// How often these were called: commands of a client and of a script are counted alike.
    async fn calls(&self, is_counted: impl Fn(&str) -> bool) -> Outcome<u64> {
        // A line is `cmdstat_set:calls=12,usec=…`, or `cmdstat_script|load:calls=…`.
        let info = self.info("commandstats").await?;
        let calls = info.lines().filter_map(|line| {
            let (name, counts) = line.split_once(":calls=")?;
            let name = name.split('|').next()?;
            is_counted(name).then(|| counts.split(',').next()?.parse::<u64>().ok())?
        });
        Ok(calls.sum())
    }
}

#[async_trait]
impl Server for Redis {
    fn kind(&self) -> Kind {
        self.kind
    }

    fn address(&self) -> &str {
        &self.address
    }

    fn pid(&self) -> Option<u32> {
        Some(self.process.pid())
    }

    async fn version(&self) -> Outcome<String> {
        let info = self.info("server").await?;
        let version = info.lines().find_map(|line| line.strip_prefix("redis_version:"));
        Ok(format!("Redis {}", version.ok_or("no version")?.trim()))
    }

    async fn requests(&self) -> Outcome<u64> {
        self.calls(|name| name == SET || SCRIPTS.contains(&name)).await
    }

    async fn renewals(&self) -> Outcome<u64> {
        // A renewal is a script, which calls `SET` by itself.
        self.calls(|name| SCRIPTS.contains(&name)).await
    }

    async fn floor(&self) -> Outcome<Box<dyn Floor>> {
        Ok(Box::new(Bare { connection: self.connection.clone() }))
    }
}

struct Bare {
    connection: MultiplexedConnection,
}

impl Bare {
    async fn set(&self, name: &str) -> Outcome<Option<String>> {
        let mut connection = self.connection.clone();
        let name = format!("bare:{name}");
        let mut set = cmd("SET");
        set.arg(name).arg("a random value").arg("NX").arg("PX").arg(30_000);
        Ok(set.query_async(&mut connection).await?)
    }
}

#[async_trait]
impl Floor for Bare {
    async fn take(&self, name: &str) -> Outcome<()> {
        self.set(name).await?.ok_or("a name was taken")?;
        Ok(())
    }

    async fn give(&self, name: &str) -> Outcome<()> {
        let mut connection = self.connection.clone();
        let deleted: u64 =
            cmd("DEL").arg(format!("bare:{name}")).query_async(&mut connection).await?;
        if deleted == 1 { Ok(()) } else { Err("a name was not taken".into()) }
    }

    async fn lose(&self, name: &str) -> Outcome<()> {
        if self.set(name).await?.is_none() { Ok(()) } else { Err("set a name twice".into()) }
    }
}
