//! A worker: a process that acquires leases, holds them, writes to the resource, and ends them in every way.

mod belief;
mod hold;
mod left;
mod node;
mod wish;

pub(crate) use node::in_node;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use mongo_lease::mongodb::bson::doc;
use mongo_lease::mongodb::options::ClientOptions;
use mongo_lease::mongodb::{Client, Database};
use mongo_lease::{Acquire, Error, Lease, LeaseManager, Tuning};
use mongo_lease_checker::history::{Ending, What};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use rustix::process::{Signal, set_parent_process_death_signal};
use tokio::sync::watch;

use crate::Exit;
use crate::arguments::WorkerOrders;
use crate::control::Control;
use crate::history::Writer;
use crate::resource::Resource;
use hold::Plan;
use wish::Wish;

/// The ttls of the calls, in milliseconds.
const TTLS_MS: [u64; 3] = [2_000, 3_000, 4_000];

/// How many of a hundred holders hold on until they have lost.
pub(crate) const HOLD_ON: u32 = 5;

/// The name of the workers' clients.
pub(crate) const APP_NAME: &str = "torture-worker";

/// The state that the tasks of one worker share.
pub(crate) struct Worker {
    pub(crate) orders: WorkerOrders,
    pub(crate) history: Writer,
    pub(crate) resource: Resource,
    pub(crate) database: Database,
    calls: AtomicU64,
}

/// The process.
pub(crate) async fn work(orders: WorkerOrders) -> Exit {
    // A stopped process cannot notice that the suite has gone.
    let _also_without = set_parent_process_death_signal(Some(Signal::KILL));
    let history = match Writer::create(&orders.history, &orders.id) {
        Ok(history) => history,
        Err(_) => return Exit::Broken,
    };
    history.note(What::Started { pid: std::process::id() });
    let mut told = mongo_lease_testbed::orders();
    let (client, manager) = tokio::select! {
        built = build(&orders) => built,
        // It is to end, or the suite has gone.
        _ = told.recv() => return Exit::Clean,
    };
    let worker = Arc::new(Worker {
        resource: Resource::at(orders.resource),
        database: client.database(&orders.database),
        calls: AtomicU64::new(0),
        orders,
        history,
    });
    let (end, ending) = watch::channel(false);
    // They share a manager, and its queue entries.
    let start = |task, is_shared| {
        let worker = Arc::clone(&worker);
        tokio::spawn(worker.go_on(manager.clone(), task, is_shared, ending.clone()))
    };
    let WorkerOrders { tasks, shared_tasks, .. } = worker.orders;
    let exclusive = (0..tasks).map(|task| start(task, false));
    let tasks: Vec<_> = exclusive.chain((0..shared_tasks).map(|task| start(task, true))).collect();
    drop(ending);
    if told.recv().await.is_none() {
        // The suite has gone: nobody reads the history.
        return Exit::Broken;
    }
    let _listened = end.send(true);
    for task in tasks {
        if task.await.is_err() {
            return Exit::Broken;
        }
    }
    let report = manager.shutdown().await;
    worker.history.note(What::ShutDown {
        released: report.released,
        left_to_expire: report.left_to_expire.len(),
        tasks_left: report.tasks_left,
    });
    drop(manager);
    let Some(Worker { history, .. }) = Arc::into_inner(worker) else {
        return Exit::Broken;
    };
    left::note(&history, client).await;
    Exit::Clean
}

/// Builds the client and the manager, however long the database takes.
async fn build(orders: &WorkerOrders) -> (Client, LeaseManager) {
    loop {
        let client = client(&orders.uri).await;
        let built = LeaseManager::builder(&client.database(&orders.database))
            .owner(orders.id.as_str())
            .ttl(Duration::from_secs(3))
            .max_clock_skew(Duration::ZERO)
            .tuning(Tuning::default().waiter_ttl(orders.waiter_ttl()))
            .tombstones(orders.makes_tombstones())
            .build()
            .await;
        match built {
            Ok(manager) => return (client, manager),
            Err(_) => tokio::time::sleep(Duration::from_millis(200)).await,
        }
    }
}

/// A client with the settings that `docs/operators.md` recommends for a quick recovery after a failure.
async fn client(uri: &str) -> Client {
    let mut options = ClientOptions::parse(uri).await.expect("the suite's own address");
    options.app_name = Some(APP_NAME.to_owned());
    options.connect_timeout = Some(Duration::from_secs(1));
    options.heartbeat_freq = Some(Duration::from_millis(500));
    options.server_selection_timeout = Some(Duration::from_secs(5));
    Client::with_options(options).expect("options that the driver takes")
}

/// The plan for one call.
enum Style {
    Wait(Duration),
    Once,
    /// A wait that its caller ends by dropping the call.
    Impatient(Duration),
}

impl Style {
    fn any(random: &mut StdRng) -> Style {
        let wait = Duration::from_millis(random.random_range(300..7_000));
        match random.random_range(0..10) {
            0 => Style::Once,
            1 => Style::Impatient(wait / 4),
            _ => Style::Wait(wait),
        }
    }
}

impl Worker {
    async fn go_on(
        self: Arc<Self>,
        manager: LeaseManager,
        task: u64,
        is_shared: bool,
        ending: watch::Receiver<bool>,
    ) {
        let factor = if is_shared { 37 } else { 31 };
        let seed = self.orders.seed.wrapping_mul(factor).wrapping_add(task);
        let mut random = StdRng::seed_from_u64(seed);
        let hold_on = self.orders.control.map_or(HOLD_ON, Control::hold_on);
        while !*ending.borrow() {
            let wish = match is_shared {
                true => Wish::shared(&mut random),
                false => Wish::exclusive(&mut random, self.orders.names),
            };
            let ttl_ms = TTLS_MS[random.random_range(0..TTLS_MS.len())];
            let style = Style::any(&mut random);
            let plan = Plan::any(&mut random, ttl_ms, hold_on);
            let renews = plan.renews && !self.is(Control::ValidityFromReply);
            let ttl = Duration::from_millis(ttl_ms);
            let acquire = wish.acquire(&manager).ttl(ttl).renew(renews);
            let permits = wish.permits;
            if let Some((call, lease)) = self.acquire(acquire, wish, ttl_ms, style).await {
                hold::hold(&self, &mut random, call, (lease, permits), plan).await;
            }
            let pause = random.random_range(0..60);
            tokio::time::sleep(Duration::from_millis(pause)).await;
        }
    }

    async fn acquire(
        &self,
        acquire: Acquire,
        wish: Wish,
        ttl_ms: u64,
        style: Style,
    ) -> Option<(String, Lease)> {
        let number = self.calls.fetch_add(1, Ordering::Relaxed);
        let call = format!("{}/{number}", self.orders.id);
        let wait = match style {
            Style::Wait(wait) => Some(wait),
            Style::Once => None,
            Style::Impatient(wait) => Some(wait * 4),
        };
        let wait_ms = wait.and_then(|wait| u64::try_from(wait.as_millis()).ok());
        // It identifies the grant in the oplog.
        let acquire = acquire.metadata(doc! { "call": &call });
        let (Wish { name, permits }, id) = (wish, call.clone());
        self.history.note(What::Invoked { call: id, name, ttl_ms, wait_ms, permits });
        let result = match style {
            Style::Once => acquire.wait(Duration::ZERO).await,
            Style::Wait(wait) => acquire.wait(wait).await,
            Style::Impatient(patience) => {
                let waiting = acquire.wait(patience * 4).into_future();
                match tokio::time::timeout(patience, waiting).await {
                    Ok(result) => result,
                    Err(_) => {
                        self.ended(call, Ending::Dropped, String::new());
                        return None;
                    }
                }
            }
        };
        match result {
            Ok(lease) => Some((call, lease)),
            Err(error) => {
                self.ended(call, ending_of(&error), error.to_string());
                None
            }
        }
    }

    fn ended(&self, call: String, how: Ending, text: String) {
        self.history.note(What::Ended { call, how, text });
    }

    pub(crate) fn is(&self, control: Control) -> bool {
        self.orders.control == Some(control)
    }
}

fn ending_of(error: &Error) -> Ending {
    if let Error::WaitTimeout { source, .. } = error {
        let is_silent = source.is_some();
        return if is_silent { Ending::TimedOutUnknown } else { Ending::TimedOut };
    }
    if matches!(error, Error::Busy(_)) {
        Ending::Busy
    } else if matches!(error, Error::Unknown { .. }) {
        Ending::Unknown
    } else {
        Ending::Failed
    }
}
