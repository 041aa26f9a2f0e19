//! The run itself, from the first server to the complete evidence.

use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use mongo_lease::LeaseManager;
use mongo_lease::mongodb::bson::{Document, doc};
use mongo_lease_checker::changes::Change;
use mongo_lease_checker::history::Record;
use mongo_lease_checker::{
    self as checker, CheckOptions, Cursor, Evidence, LeftOver, MILLI, Nanos, SECOND,
};
use tokio::sync::watch;

use crate::arguments::Options;
use crate::clock;
use crate::cluster::{COLLECTION, Cluster, Failed, LEDGER, MEMBERS, PATIENCE};
use crate::control::Control;
use crate::fleet::{self, Fleet};
use crate::history::{self, Writer};
use crate::nemesis::{self, Choice, Target};
use crate::oplog::{Log, Reader, note};
use crate::terms;

/// How often the oplog is read.
const READ: Duration = Duration::from_millis(400);
/// How often a control checks whether it has been found.
const LOOK: Duration = Duration::from_millis(700);
/// How long there are no faults at the beginning and at the end.
const CALM: Duration = Duration::from_secs(2);
/// How long the last documents may take to be removed: the longest ttl, the TTL monitor, and a busy machine.
const REMOVAL: Duration = Duration::from_secs(20);
/// How long a cursor may take to close: it was killed, but the server may notice only after its wait of 10 s.
const CLOSING: Duration = Duration::from_secs(15);
/// How long before the newest oplog entry that was read all histories are written and all entries are read.
const LAG: Nanos = 100 * MILLI;

/// The results of a run.
pub(crate) struct Gathered {
    pub(crate) evidence: Evidence,
    /// How many commands the proxy changed, for a control.
    pub(crate) rewritten: u64,
    pub(crate) versions: String,
}

/// The view of a run that goes on.
struct Sight {
    folder: PathBuf,
    cluster: Arc<Cluster>,
    log: Arc<Mutex<Log>>,
    wall_ahead: Nanos,
    began: Nanos,
    terms: CheckOptions,
}

/// Runs everything, and collects the evidence for the checker. A control ends as soon as it has been found.
pub(crate) async fn gather(
    options: &Options,
    choice: Choice,
    seed: u64,
    folder: &Path,
) -> Result<Gathered, Failed> {
    let terms = terms::of(options);
    let cluster = migrated(Cluster::start(options.control).await?).await?;
    let (stop, stopped) = watch::channel(false);
    let reader = Reader::start(Arc::clone(&cluster)).await?;
    let log = Arc::clone(&reader.log);
    let mut reading = tokio::task::JoinSet::new();
    reading.spawn(read_all(reader, stopped));
    let writer = Writer::create(&folder.join("suite.jsonl"), "suite");
    let writer = Arc::new(writer.map_err(|error| Failed::at("the history", error))?);
    let history = folder.join("resource.jsonl");
    let (resource, address) = fleet::start_resource(&history, options.control).await?;
    let plan = fleet::Plan {
        options: options.clone(),
        uri: cluster.uri().to_owned(),
        resource: address,
        folder: folder.to_owned(),
        seed,
    };
    let sight = Sight {
        folder: folder.to_owned(),
        cluster: Arc::clone(&cluster),
        log,
        wall_ahead: clock::wall_ahead(),
        began: clock::now(),
        terms,
    };
    let versions = versions(&cluster).await;
    let fleet = Arc::new(Fleet::start(plan, Arc::clone(&writer)));
    let target = Target::new(Arc::clone(&cluster), Arc::clone(&fleet), Arc::clone(&writer));
    let rage = async {
        tokio::time::sleep(CALM).await;
        let until = clock::now() + options.seconds * SECOND;
        nemesis::rage(Arc::new(target), choice, seed, until).await
    };
    let found = tokio::select! {
        found = sight.until_found(options.control) => Some(found?),
        raged = rage => raged.map(|()| None)?,
    };
    if let Some(evidence) = found {
        let rewritten = cluster.shared.changed.load(Ordering::Relaxed);
        return Ok(Gathered { evidence, rewritten, versions });
    }
    let ended = clock::now();
    cluster.wait_until_followed().await?;
    tokio::time::sleep(CALM).await;
    let fleet = Arc::into_inner(fleet).ok_or_else(|| Failed::new("a nemesis goes on"))?;
    let workers = fleet.len();
    let ended_well = fleet.end().await?;
    let documents = documents_left(&cluster).await?;
    stop.send_replace(true);
    let read = reading.join_next().await.ok_or_else(|| Failed::new("nobody reads the oplog"))?;
    read.map_err(|error| Failed::at("the oplog's reader", error))??;
    let cursors = cursors_left(&cluster).await?;
    drop(resource);
    sight.check_wall_clock()?;
    let left = LeftOver { documents, cursors, workers: workers - ended_well };
    let rewritten = cluster.shared.changed.load(Ordering::Relaxed);
    let evidence = Evidence { left, ..sight.all(ended)? };
    keep_changes(folder, &evidence.changes)?;
    Ok(Gathered { evidence, rewritten, versions })
}

/// The replica set, with the collection and its indexes.
async fn migrated(cluster: Cluster) -> Result<Arc<Cluster>, Failed> {
    let primary = cluster.wait_for_primary().await?;
    let migrated =
        LeaseManager::builder(&cluster.database(primary)).ensure_indexes(true).build().await;
    migrated.map_err(|error| Failed::at("the indexes", error))?;
    let ledger = cluster.database(primary).create_collection(LEDGER).await;
    ledger.map_err(|error| Failed::at("the ledger", error))?;
    Ok(Arc::new(cluster))
}

impl Sight {
    /// Fails if the wall clock was set meanwhile: histories and the oplog are compared by it.
    fn check_wall_clock(&self) -> Result<(), Failed> {
        let moved = clock::wall_ahead().abs_diff(self.wall_ahead);
        if moved > 5 * MILLI {
            return Err(Failed::new(format!("the wall clock was moved by {moved} ns")));
        }
        Ok(())
    }

    /// The complete evidence, after all processes have gone.
    fn all(self, ended: Nanos) -> Result<Evidence, Failed> {
        let log = self.log();
        Ok(Evidence {
            records: self.records(&log)?,
            changes: log.changes,
            wall_ahead: self.wall_ahead,
            began: self.began,
            ended,
            known_until: Nanos::MAX,
            terms: self.terms,
            left: LeftOver::default(),
        })
    }

    fn log(&self) -> Log {
        self.log.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// All histories, with the oplog's transactions among them, in the order of time.
    fn records(&self, log: &Log) -> Result<Vec<Record>, Failed> {
        let mut records = read_histories(&self.folder)?;
        records.extend(log.commits.iter().map(|(wall, what)| Record {
            at: checker::moment(*wall, self.wall_ahead),
            by: "oplog".to_owned(),
            what: what.clone(),
        }));
        records.sort_by_key(|record| record.at);
        Ok(records)
    }

    /// The certain evidence so far: everything up to a moment a little before the last reading.
    fn so_far(&self) -> Result<Evidence, Failed> {
        let log = self.log();
        let mut evidence = Evidence {
            records: Vec::new(),
            wall_ahead: self.wall_ahead,
            began: self.began,
            ended: 0,
            known_until: 0,
            terms: self.terms,
            left: LeftOver::default(),
            changes: Vec::new(),
        };
        let until = evidence.moment(log.until).saturating_sub(LAG);
        let is_known = |change: &Change| evidence.moment(change.wall) <= until;
        let mut records = self.records(&log)?;
        let changes = log.changes.into_iter().take_while(is_known).collect();
        records.retain(|record| record.at <= until);
        (evidence.changes, evidence.records) = (changes, records);
        (evidence.ended, evidence.known_until) = (until, until);
        Ok(evidence)
    }

    /// Returns when a control has been found; without a control, never.
    async fn until_found(&self, control: Option<Control>) -> Result<Evidence, Failed> {
        let Some(control) = control else {
            return std::future::pending().await;
        };
        loop {
            tokio::time::sleep(LOOK).await;
            // When nobody is granted anything, nothing is written, and the oplog must still show until when that was
            // so.
            if let Some(primary) = self.cluster.primary().await {
                let _under_fault = self.cluster.admin(primary, note(), PATIENCE).await;
            }
            let evidence = self.so_far()?;
            let found = checker::check(&evidence);
            if found.iter().any(|violation| violation.invariant == control.shows()) {
                return Ok(evidence);
            }
        }
    }
}

async fn read_all(mut reader: Reader, mut stopped: watch::Receiver<bool>) -> Result<(), Failed> {
    while !*stopped.borrow() {
        if !reader.read().await? {
            reader.ask_another();
        }
        let _gone = tokio::time::timeout(READ, stopped.changed()).await;
    }
    // All members have everything by now; the majority's commit point follows.
    let mut quiet = 0;
    while quiet < 2 * MEMBERS {
        quiet = if reader.read().await? { 0 } else { quiet + 1 };
        reader.ask_another();
        tokio::time::sleep(READ).await;
    }
    Ok(())
}

/// The documents that are left after the TTL monitor has had its time.
async fn documents_left(cluster: &Cluster) -> Result<Vec<String>, Failed> {
    let deadline = std::time::Instant::now() + REMOVAL;
    loop {
        let primary = cluster.wait_for_primary().await?;
        let collection = cluster.database(primary).collection::<Document>(COLLECTION);
        let found = collection.find(doc! {}).await;
        let found = match found {
            Ok(cursor) => futures_util::TryStreamExt::try_collect::<Vec<_>>(cursor).await,
            Err(error) => Err(error),
        };
        match found {
            Ok(documents) if documents.is_empty() => return Ok(Vec::new()),
            Ok(documents) if std::time::Instant::now() > deadline => {
                return Ok(documents.iter().map(Document::to_string).collect());
            }
            Err(error) if std::time::Instant::now() > deadline => {
                return Err(Failed::at("what is left", error));
            }
            Ok(_) | Err(_) => tokio::time::sleep(Duration::from_millis(200)).await,
        }
    }
}

/// The cursors that are still open. A server needs a moment to notice that their clients have gone.
async fn cursors_left(cluster: &Cluster) -> Result<Vec<Cursor>, Failed> {
    let deadline = std::time::Instant::now() + CLOSING;
    loop {
        let mut cursors = Vec::new();
        let primary = cluster.wait_for_primary().await?;
        for member in 0..MEMBERS {
            let found = nemesis::cursors(cluster, member).await?.into_iter();
            let is_at_primary = member == primary;
            cursors.extend(found.map(|cursor| Cursor { is_at_primary, ..cursor }));
        }
        // Cursors that are idle now stay idle.
        let is_busy = cursors.iter().any(|cursor| !cursor.shown.contains("idleCursor"));
        if !is_busy || std::time::Instant::now() > deadline {
            return Ok(cursors);
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

async fn versions(cluster: &Cluster) -> String {
    let primary = cluster.primary().await.unwrap_or(0);
    let info = cluster.admin(primary, doc! { "buildInfo": 1 }, Duration::from_secs(2)).await;
    let server = info.ok().and_then(|info| info.get_str("version").map(str::to_owned).ok());
    format!("mongod {}, mongo-lease {}", server.unwrap_or_default(), env!("CARGO_PKG_VERSION"))
}

fn keep_changes(folder: &Path, changes: &[Change]) -> Result<(), Failed> {
    let line = |change| serde_json::to_string(change).unwrap_or_default();
    let lines: Vec<String> = changes.iter().map(line).collect();
    let written = std::fs::write(folder.join("oplog.json"), lines.join("\n"));
    written.map_err(|error| Failed::at("the oplog's copy", error))
}

fn read_histories(folder: &Path) -> Result<Vec<Record>, Failed> {
    let failed = |error| Failed::at("a history", error);
    let mut records = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if path.extension().is_some_and(|extension| extension == "jsonl") {
            records.extend(history::read(&path).map_err(failed)?);
        }
    }
    Ok(records)
}
