//! A mongod process that never outlives ours.

mod log;
mod place;
mod supervised;

use std::fmt;
use std::net::{Ipv4Addr, TcpListener};
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

use self::log::{Log, Progress};
pub(crate) use self::place::DataPlace;
use self::supervised::{DataFolder, Supervised};
use crate::{Error, find, random};

/// A loaded machine may be slow to start a server; a broken one is noticed at once.
const START_DEADLINE: Duration = Duration::from_secs(60);

/// How often the log is read while a server starts.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// How many ports are tried before we believe that something else is wrong.
const PORTS_TRIED: usize = 8;

/// The settings of one server.
#[derive(Clone, Debug, Default)]
pub(crate) struct Launch {
    /// The name of its replica set; a standalone server has none.
    pub(crate) replica_set: Option<String>,
    /// The port that it must have; otherwise it gets a free one.
    pub(crate) port: Option<u16>,
    pub(crate) parameters: Vec<(String, String)>,
    pub(crate) arguments: Vec<String>,
    /// Files that it reads, which are written into its folder before it starts.
    pub(crate) files: Vec<GivenFile>,
    /// Further options of its URI, such as `&tls=true`.
    pub(crate) uri_options: String,
    pub(crate) data: DataPlace,
}

/// A file for a server, and the option that names it.
#[derive(Clone)]
pub(crate) struct GivenFile {
    pub(crate) option: &'static str,
    pub(crate) name: &'static str,
    /// May be a secret.
    pub(crate) text: String,
    /// The option in a URI that names the same file to clients.
    pub(crate) for_clients: Option<&'static str>,
}

impl fmt::Debug for GivenFile {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("GivenFile").field("name", &self.name).finish_non_exhaustive()
    }
}

/// A mongod process on a loopback port of its own, with a data folder of its own.
///
/// It never outlives its owner: when this value is dropped, and as well when our process ends in
/// any way, SIGKILL included, the server is killed (also a paused one) and its folder removed.
/// The operating system does that, not us: see `supervised.rs`.
#[derive(Debug)]
pub struct Mongod {
    binary: PathBuf,
    launch: Launch,
    port: u16,
    // Dropped before the folder: the server goes first.
    running: Mutex<Option<Supervised>>,
    folder: DataFolder,
}

impl Mongod {
    /// Starts the process and waits until it accepts connections.
    pub(crate) fn start(mut launch: Launch) -> Result<Self, Error> {
        let binary = find::mongod()?;
        let folder = DataFolder::create(&launch.data.root().join(random::name("mongo-lease-")))?;
        for file in &launch.files {
            folder.write_secret(file.name, &file.text)?;
            if let Some(option) = file.for_clients {
                let path = folder.path().join(file.name).display().to_string();
                let path = utf8_percent_encode(&path, NON_ALPHANUMERIC);
                launch.uri_options.push_str(&format!("&{option}={path}"));
            }
        }
        let asked = launch.port;
        let mut mongod = Self { binary, launch, port: 0, running: Mutex::new(None), folder };
        if let Some(port) = asked {
            mongod.port = port;
            return match mongod.spawn()? {
                Started::Yes => Ok(mongod),
                Started::PortInUse => Err(Error::new(format!("port {port} is in use"))),
            };
        }
        for _ in 0..PORTS_TRIED {
            mongod.port = free_port()?;
            if let Started::Yes = mongod.spawn()? {
                return Ok(mongod);
            }
        }
        Err(Error::new(format!("mongod found no free port in {PORTS_TRIED} attempts")))
    }

    /// The port at which it listens on 127.0.0.1. A restart keeps it.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Host and port, as a replica set names its members.
    #[must_use]
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// A URI for this very process, whatever its role in a replica set is.
    #[must_use]
    pub fn uri(&self) -> String {
        format!("mongodb://{}/?directConnection=true{}", self.address(), self.uri_options())
    }

    /// The name of its replica set, if it is in one.
    pub(crate) fn replica_set(&self) -> Option<&str> {
        self.launch.replica_set.as_deref()
    }

    /// The further options of its URI.
    pub(crate) fn uri_options(&self) -> &str {
        &self.launch.uri_options
    }

    /// The identifier of the process, while there is one.
    #[must_use]
    pub fn pid(&self) -> Option<u32> {
        self.running().as_ref().filter(|process| !process.has_ended()).map(Supervised::pid)
    }

    /// The folder with its data and its log.
    #[must_use]
    pub fn data_folder(&self) -> PathBuf {
        self.folder.path().to_owned()
    }

    /// Stops the process with SIGSTOP: connections stay open, and nothing is answered.
    ///
    /// # Panics
    ///
    /// When the process is not running.
    pub fn pause(&self) {
        self.with_running("pause", Supervised::pause);
    }

    /// Lets a paused process go on, with SIGCONT.
    ///
    /// # Panics
    ///
    /// When the process is not running.
    pub fn resume(&self) {
        self.with_running("resume", Supervised::resume);
    }

    /// Kills the process with SIGKILL and waits until it is gone. Does nothing when it is.
    ///
    /// Writes which were acknowledged with a journaled write concern (`majority` is one) survive.
    pub fn kill(&self) {
        let process = self.running().take();
        if let Some(process) = process {
            process.kill();
        }
    }

    /// Starts the process again on its old data and its old port, killing it before if it runs.
    ///
    /// Returns when it accepts connections; it is not yet primary then. Blocks for some tenths of
    /// a second: inside a runtime, prefer `Server::restart` and `ReplicaSet::restart`.
    ///
    /// # Errors
    ///
    /// When it does not start, with the end of its log.
    pub fn restart(&self) -> Result<(), Error> {
        self.kill();
        let deadline = Instant::now() + START_DEADLINE;
        // Its own port may still be in use for a moment, and it cannot take another.
        while let Started::PortInUse = self.spawn()? {
            if Instant::now() > deadline {
                return Err(Error::new(format!("port {} is not given back", self.port)));
            }
        }
        Ok(())
    }

    fn with_running(&self, doing: &str, act: impl FnOnce(&Supervised) -> Result<(), Error>) {
        let running = self.running();
        let outcome = match running.as_ref().filter(|process| !process.has_ended()) {
            Some(process) => act(process),
            None => Err(Error::new("it is not running")),
        };
        drop(running);
        if let Err(error) = outcome {
            Error::from_source(&format!("cannot {doing} mongod"), error).raise();
        }
    }

    fn running(&self) -> MutexGuard<'_, Option<Supervised>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn spawn(&self) -> Result<Started, Error> {
        let mut log = Log::at_its_end(self.folder.path());
        let process = Supervised::spawn(&self.binary, &self.command_line(), &self.folder)?;
        let deadline = Instant::now() + START_DEADLINE;
        loop {
            // Checked before the log is read: the log then contains everything that the process wrote before its end.
            let ended = process.has_ended();
            match log.read() {
                Progress::Listening => {
                    *self.running() = Some(process);
                    return Ok(Started::Yes);
                }
                Progress::PortInUse => return Ok(Started::PortInUse),
                Progress::Starting if ended => {
                    return Err(self.failure("ended while it started", &log));
                }
                Progress::Starting if Instant::now() > deadline => {
                    return Err(self.failure("did not get ready", &log));
                }
                Progress::Starting => thread::sleep(LOOK_EVERY),
            }
        }
    }

    fn failure(&self, what: &str, log: &Log) -> Error {
        let binary = self.binary.display();
        let command = self.command_line().join(" ");
        Error::new(format!("{binary} {what}.\ncommand: {command}\n{}", log.tail()))
    }

    fn command_line(&self) -> Vec<String> {
        let folder = self.folder.path();
        let mut line: Vec<String> = ["--bind_ip", "127.0.0.1", "--port"].map(str::to_owned).into();
        line.push(self.port.to_string());
        line.extend(["--dbpath".to_owned(), folder.display().to_string()]);
        line.extend(["--logpath".to_owned(), log::file(folder).display().to_string()]);
        line.extend(["--logappend", "--nounixsocket"].map(str::to_owned));
        // Small and quick: the log files of the storage engine are 100 MB each if not told.
        line.extend(["--wiredTigerCacheSizeGB", "0.25"].map(str::to_owned));
        line.extend(
            ["--wiredTigerEngineConfigString", "log=(file_max=10MB,prealloc=false)"]
                .map(str::to_owned),
        );
        if let Some(name) = &self.launch.replica_set {
            line.extend(["--replSet", name, "--oplogSize", "16"].map(str::to_owned));
        }
        let always = [("enableTestCommands", "1"), ("diagnosticDataCollectionEnabled", "false")];
        let asked = self.launch.parameters.iter().map(|(name, value)| (&name[..], &value[..]));
        for (name, value) in always.into_iter().chain(asked) {
            line.extend(["--setParameter".to_owned(), format!("{name}={value}")]);
        }
        line.extend(self.launch.arguments.iter().cloned());
        for file in &self.launch.files {
            line.extend([file.option.to_owned(), folder.join(file.name).display().to_string()]);
        }
        line
    }
}

enum Started {
    Yes,
    PortInUse,
}

/// A port that nobody listens at, below those which systems hand out by themselves.
///
/// Binding port 0 would give one of those: once its server is killed, an outgoing connection of
/// any process can take it, and a client that retries can even connect to itself. A restart needs
/// the same port.
fn free_port() -> Result<u16, Error> {
    const FIRST: u16 = 20_000;
    const COUNT: u16 = 12_000;
    for _ in 0..200 {
        let offset = random::number() % u64::from(COUNT);
        let port = FIRST + u16::try_from(offset).unwrap_or_default();
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return Ok(port);
        }
    }
    Err(Error::new("no free port was found on 127.0.0.1"))
}
