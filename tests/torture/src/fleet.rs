//! The workers' processes, seen from outside: started, stopped, killed, and started again.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use mongo_lease_checker::history::What;
use mongo_lease_testbed::{LineInput, LineProcess, command};
use rustix::process::{Pid, Signal, kill_process};
use tokio::task::JoinHandle;

use crate::arguments::Options;
use crate::clock;
use crate::cluster::{Cluster, Failed};
use crate::control::Control;
use crate::history::Writer;

/// How long a worker may take to release everything: the library's own bound for a shutdown, and a margin.
const FAREWELL: Duration = Duration::from_secs(25);
/// How long after a worker's death the next one starts.
const REBIRTH: Duration = Duration::from_millis(700);

/// The program of a worker in Node.
const NODE_WORKER: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../../clients/node/test/torture/worker.mjs");

/// The options that each worker gets at its start.
pub(crate) struct Plan {
    pub(crate) options: Options,
    pub(crate) uri: String,
    pub(crate) resource: String,
    pub(crate) folder: PathBuf,
    pub(crate) seed: u64,
}

/// All workers.
pub(crate) struct Fleet {
    slots: Vec<Arc<Slot>>,
    node_workers: usize,
    keepers: Vec<JoinHandle<Result<bool, Failed>>>,
    is_ending: Arc<AtomicBool>,
}

/// A place in the fleet, in which one worker follows another.
struct Slot {
    now: Mutex<Option<Now>>,
}

impl Slot {
    fn put(&self, now: Option<Now>) {
        *self.now.lock().expect("nobody panics with it") = now;
    }

    fn with<T>(&self, act: impl FnOnce(&mut Now) -> T) -> Option<T> {
        self.now.lock().expect("nobody panics with it").as_mut().map(act)
    }
}

/// The current worker of the slot.
struct Now {
    id: String,
    pid: Pid,
    orders: Option<LineInput>,
}

impl Fleet {
    pub(crate) fn start(plan: Plan, history: Arc<Writer>) -> Fleet {
        let plan = Arc::new(plan);
        let is_ending = Arc::new(AtomicBool::new(false));
        let (count, node_workers) = (plan.options.workers, plan.options.node_workers);
        let slots: Vec<_> = (0..count).map(|_| Arc::new(Slot { now: Mutex::new(None) })).collect();
        let keep = |(number, slot): (usize, &Arc<Slot>)| {
            let (plan, slot) = (Arc::clone(&plan), Arc::clone(slot));
            let (history, is_ending) = (Arc::clone(&history), Arc::clone(&is_ending));
            tokio::spawn(keep(number, plan, slot, history, is_ending))
        };
        let keepers = slots.iter().enumerate().map(keep).collect();
        Fleet { slots, node_workers, keepers, is_ending }
    }

    pub(crate) fn len(&self) -> usize {
        self.slots.len()
    }

    /// Stops a worker: its process freezes, and nothing of it is closed. Returns its name.
    pub(crate) fn stop(&self, slot: usize, history: &Writer) -> Option<String> {
        self.signal(slot, Signal::STOP, What::Stopped, history)
    }

    pub(crate) fn resume(&self, slot: usize, history: &Writer) -> Option<String> {
        self.signal(slot, Signal::CONT, What::Resumed, history)
    }

    pub(crate) fn kill(&self, slot: usize, history: &Writer) -> Option<String> {
        self.signal(slot, Signal::KILL, What::Killed, history)
    }

    /// The slots of the workers in Node; the others are those of Rust.
    pub(crate) fn in_node(&self) -> std::ops::Range<usize> {
        0..self.node_workers.min(self.slots.len())
    }

    /// Sends an order to the worker of this slot, if there is one.
    pub(crate) async fn order(&self, slot: usize, order: &str) {
        let slot = &self.slots[slot];
        let worker = slot.with(|now| (now.id.clone(), now.orders.take()));
        let Some((id, Some(mut orders))) = worker else { return };
        // A worker that has died takes no order.
        let _gone = orders.send(order).await;
        slot.with(|now| {
            if now.id == id {
                now.orders = Some(orders);
            }
        });
    }

    fn signal(&self, slot: usize, signal: Signal, what: What, history: &Writer) -> Option<String> {
        let signalled = self.slots[slot].with(|now| {
            // For the checker, a stop lasts from before it until after its end.
            let before = clock::now();
            kill_process(now.pid, signal).ok()?;
            let at = if signal == Signal::CONT { clock::now() } else { before };
            history.note_of(&now.id, at, what);
            Some(now.id.clone())
        });
        signalled.flatten()
    }

    /// Tells all workers to end, and returns how many did so in time and without errors.
    pub(crate) async fn end(mut self) -> Result<usize, Failed> {
        self.is_ending.store(true, Ordering::SeqCst);
        for slot in &self.slots {
            let orders = slot.with(|now| now.orders.take()).flatten();
            if let Some(mut orders) = orders {
                // A worker that has just died is not started again.
                let _gone = orders.send("end").await;
                // Kept open: the end of its input would mean that the suite has gone.
                slot.with(|now| now.orders = Some(orders));
            }
        }
        let mut well = 0;
        for keeper in &mut self.keepers {
            match tokio::time::timeout(FAREWELL, keeper).await {
                Ok(Ok(ended)) => well += usize::from(ended?),
                Ok(Err(panic)) => return Err(Failed::at("a keeper", panic)),
                Err(_) => {}
            }
        }
        Ok(well)
    }
}

impl Drop for Fleet {
    /// Kills the workers that are left.
    fn drop(&mut self) {
        self.keepers.iter().for_each(JoinHandle::abort);
    }
}

/// Keeps a worker running in a slot until the end, and says whether the last one ended well.
async fn keep(
    number: usize,
    plan: Arc<Plan>,
    slot: Arc<Slot>,
    history: Arc<Writer>,
    is_ending: Arc<AtomicBool>,
) -> Result<bool, Failed> {
    for life in 0.. {
        let id = format!("w{number}.{life}");
        let mut worker = spawn(&plan, &id, number, life)?;
        let pid = worker.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        let pid = pid.ok_or_else(|| Failed::new("a worker without an id"))?;
        let orders = Some(worker.take_input());
        slot.put(Some(Now { id: id.clone(), pid, orders }));
        let ended = worker.wait().await.map_err(|error| Failed::at("a worker", error))?;
        slot.put(None);
        if is_ending.load(Ordering::SeqCst) {
            // A worker that crashes now does so by its plan.
            return Ok(ended.success() || ended.code().is_none());
        }
        if let Some(code) = ended.code() {
            return Err(Failed::new(format!("worker {id} ended by itself, with code {code}")));
        }
        // The nemesis that killed it has noted the time; this is the latest possible one.
        history.note_of(&id, clock::now(), What::Killed);
        tokio::time::sleep(REBIRTH).await;
        if is_ending.load(Ordering::SeqCst) {
            // Nobody would tell the next one to end.
            return Ok(true);
        }
    }
    Ok(false)
}

fn spawn(plan: &Plan, id: &str, number: usize, life: u64) -> Result<LineProcess, Failed> {
    let options = &plan.options;
    let place = u64::try_from(number).unwrap_or(0);
    let seed = plan.seed.wrapping_mul(1_000_003).wrapping_add(place * 1_009 + life);
    let mut command = command(own_path()?);
    command
        .arg("worker")
        .args(["--id", id, "--uri", &plan.uri, "--database", Cluster::database_name()])
        .arg("--history")
        .arg(plan.folder.join(format!("{id}.jsonl")))
        .args(["--resource", &plan.resource, "--seed", &seed.to_string()])
        .args(["--names", &options.names.to_string(), "--tasks", &options.tasks.to_string()])
        .args(["--shared-tasks", &options.shared_tasks.to_string()])
        .args(["--waiter-ttl-ms", &options.waiter_ttl_ms.to_string()]);
    if let Some(control) = options.control {
        command.args(["--control", &control.name()]);
    }
    if number < options.node_workers {
        command.args(["--script", NODE_WORKER]);
    }
    start(command)
}

/// Starts the fenced resource, and returns its address.
pub(crate) async fn start_resource(
    history: &Path,
    control: Option<Control>,
) -> Result<(LineProcess, String), Failed> {
    let mut command = command(own_path()?);
    command.arg("resource").arg("--history").arg(history);
    if let Some(control) = control {
        command.args(["--control", &control.name()]);
    }
    let mut resource = start(command)?;
    let address = resource.line().await.map_err(|error| Failed::at("the resource", error))?;
    Ok((resource, address))
}

fn own_path() -> Result<PathBuf, Failed> {
    std::env::current_exe().map_err(|error| Failed::at("the program's own path", error))
}

/// The process reads to the end of its input, which comes when the suite ends in any way.
fn start(command: Command) -> Result<LineProcess, Failed> {
    LineProcess::start(command).map_err(|error| Failed::at("another process", error))
}
