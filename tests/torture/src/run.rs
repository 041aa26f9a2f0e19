//! One run, from the first server to the verdict.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use mongo_lease::LeaseManager;
use mongo_lease::mongodb::bson::{Document, doc};
use tokio::sync::watch;

use crate::arguments::Options;
use crate::check::{self, Evidence, LeftOver, Terms};
use crate::clock::{self, MILLI, SECOND};
use crate::cluster::{COLLECTION, Cluster, Failed, MEMBERS};
use crate::fleet::{self, Fleet};
use crate::history::{self, Record, Writer};
use crate::nemesis::{self, Choice, Cursor, Target};
use crate::oplog::{Change, Reader};
use crate::{Exit, console, table};

/// How often the oplog is read.
const READ: Duration = Duration::from_millis(400);
/// At the beginning and at the end there are no faults.
const CALM: Duration = Duration::from_secs(2);
/// How long the last documents may take to go: the longest ttl, the TTL monitor, and a busy machine.
const REMOVAL: Duration = Duration::from_secs(20);

/// And a cursor: it has been killed, but the server may look at that only when its wait of 10 s is over.
const CLOSING: Duration = Duration::from_secs(15);

pub(crate) async fn run(options: Options) -> Result<Exit, Failed> {
    let seed = options.seed.unwrap_or_else(rand::random);
    let choice = options.nemeses.clone();
    let choice = choice.or_else(|| options.control.map(|control| control.nemeses()));
    let choice = choice.unwrap_or_else(Choice::all);
    let folder = folder(&options)?;
    console::say(&format!("seed {seed}, histories in {}", folder.display()));
    let evidence = gather(&options, choice, seed, &folder).await?;
    let found = check::check(&evidence);
    for violation in found.iter().take(20) {
        console::say(&format!("VIOLATION {violation}"));
    }
    let text = table::table(&options, seed, &evidence, &found);
    console::say(&text);
    if let Some(path) = &options.table {
        table::write(path, &options, &text)?;
    }
    let Some(control) = options.control else {
        if found.is_empty() {
            remove(&options, &folder);
            return Ok(Exit::Clean);
        }
        console::say(&format!("the histories are kept in {}", folder.display()));
        return Ok(Exit::Violations);
    };
    remove(&options, &folder);
    let shown = found.iter().find(|violation| control.shows().contains(&violation.invariant));
    let Some(first) = shown else {
        console::say(&format!("VOID: {} was not found", control.name()));
        return Ok(Exit::Void);
    };
    if control.is_on_the_wire() && evidence.rewritten == 0 {
        console::say(&format!("VOID: {} changed nothing", control.name()));
        return Ok(Exit::Void);
    }
    let millis = first.at.saturating_sub(evidence.began) / MILLI;
    console::say(&format!("{} was found after {millis} ms", control.name()));
    Ok(Exit::Clean)
}

/// Runs it all, and collects what the checker needs.
async fn gather(
    options: &Options,
    choice: Choice,
    seed: u64,
    folder: &Path,
) -> Result<Evidence, Failed> {
    let cluster = Arc::new(Cluster::start(options.control).await?);
    let primary = cluster.wait_for_primary().await?;
    let migrated = LeaseManager::builder(&cluster.database(primary)).ensure_indexes().await;
    migrated.map_err(|error| Failed::at("the indexes", error))?;
    let (stop, stopped) = watch::channel(false);
    let reading = tokio::spawn(read_all(Reader::start(Arc::clone(&cluster)).await?, stopped));
    let writer = Writer::create(&folder.join("suite.jsonl"), "suite");
    let writer = Arc::new(writer.map_err(|error| Failed::at("the history", error))?);
    let (resource, address) = fleet::start_resource(&folder.join("resource.jsonl")).await?;
    let plan = fleet::Plan {
        options: options.clone(),
        uri: cluster.uri().to_owned(),
        resource: address,
        folder: folder.to_owned(),
        seed,
    };
    let (wall_ahead, began) = (clock::wall_ahead(), clock::now());
    let fleet = Arc::new(Fleet::start(plan, Arc::clone(&writer)));
    tokio::time::sleep(CALM).await;
    let until = clock::now() + options.seconds * SECOND;
    let target = Target::new(Arc::clone(&cluster), Arc::clone(&fleet), Arc::clone(&writer));
    let target = Arc::new(target);
    nemesis::rage(Arc::clone(&target), choice, seed, until).await?;
    let ended = clock::now();
    cluster.wait_until_followed().await?;
    tokio::time::sleep(CALM).await;
    drop(target);
    let fleet = Arc::into_inner(fleet).ok_or_else(|| Failed::new("a nemesis goes on"))?;
    let workers = fleet.len();
    let ended_well = fleet.end().await?;
    let documents = documents_left(&cluster).await?;
    stop.send_replace(true);
    let changes = reading.await.map_err(|error| Failed::at("the oplog's reader", error))??;
    let cursors = cursors_left(&cluster).await?;
    drop(resource);
    let clock_moved = clock::wall_ahead().abs_diff(wall_ahead);
    if clock_moved > 5 * MILLI {
        return Err(Failed::new(format!("the wall clock was moved by {clock_moved} ns")));
    }
    keep_changes(folder, &changes)?;
    Ok(Evidence {
        records: read_histories(folder)?,
        changes,
        wall_ahead,
        began,
        ended,
        terms: Terms::of(options),
        left: LeftOver { documents, cursors, workers: workers - ended_well },
        rewritten: cluster.shared.changed.load(Ordering::Relaxed),
        versions: versions(&cluster).await,
    })
}

async fn read_all(
    mut reader: Reader,
    mut stopped: watch::Receiver<bool>,
) -> Result<Vec<Change>, Failed> {
    while !*stopped.borrow() {
        if !reader.read().await? {
            reader.ask_another();
        }
        let _gone = tokio::time::timeout(READ, stopped.changed()).await;
    }
    // All members have everything by now; the majority's point follows.
    let mut quiet = 0;
    while quiet < 2 * MEMBERS {
        quiet = if reader.read().await? { 0 } else { quiet + 1 };
        reader.ask_another();
        tokio::time::sleep(READ).await;
    }
    Ok(reader.changes)
}

/// What is still there when the TTL monitor has had its time.
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

/// The cursors that are still open. A server needs a moment to notice that nobody is there any more.
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
        // Those that are idle now stay so.
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

fn folder(options: &Options) -> Result<PathBuf, Failed> {
    let name = format!("mongo-lease-torture-{}", std::process::id());
    let folder = options.keep.clone().unwrap_or_else(|| std::env::temp_dir().join(name));
    std::fs::create_dir_all(&folder).map_err(|error| Failed::at("the folder", error))?;
    Ok(folder)
}

/// What was asked for is kept.
fn remove(options: &Options, folder: &Path) {
    if options.keep.is_none() {
        let _left = std::fs::remove_dir_all(folder);
    }
}

fn keep_changes(folder: &Path, changes: &[Change]) -> Result<(), Failed> {
    let line = |change| serde_json::to_string(change).unwrap_or_default();
    let lines: Vec<String> = changes.iter().map(line).collect();
    let written = std::fs::write(folder.join("oplog.json"), lines.join("\n"));
    written.map_err(|error| Failed::at("the oplog's copy", error))
}

/// All histories, in the order of time.
fn read_histories(folder: &Path) -> Result<Vec<Record>, Failed> {
    let failed = |error| Failed::at("a history", error);
    let mut records = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if path.extension().is_some_and(|extension| extension == "jsonl") {
            records.extend(history::read(&path).map_err(failed)?);
        }
    }
    records.sort_by_key(|record| record.at);
    Ok(records)
}
