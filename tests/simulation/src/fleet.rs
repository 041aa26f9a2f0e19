//! The processes of a round: each in a seat, where another one follows a process that has gone.

use std::mem;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use mongo_lease::{LeaseManager, Tuning};
use mongo_lease_checker::history::What;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinHandle;

use crate::neighbours::SPOILT;
use crate::plan::Plan;
use crate::process::{Connection, Process, spawn};
use crate::workload::{self, Worker};
use crate::world::{World, locked, sleep_ms};

/// How long the processes may take to end, in virtual time.
const ENDING: Duration = Duration::from_secs(90);

/// How long a fault may be felt behind its end, in milliseconds.
const FELT_MS: u64 = 5_000;

/// All processes.
pub(crate) struct Fleet {
    world: Arc<World>,
    plan: Arc<Plan>,
    seats: Mutex<Vec<Seat>>,
}

/// The place of a process and its followers.
struct Seat {
    generation: u64,
    process: Arc<Process>,
    orders: mpsc::UnboundedSender<Order>,
    main: JoinHandle<()>,
    /// The tasks of former processes that were told to end.
    former: Vec<JoinHandle<()>>,
}

/// An order to a process.
enum Order {
    /// To make so many calls at once.
    Burst { fault: usize, calls: u64 },
    /// To make its last call.
    Last,
    /// To shut its manager down, in the midst of its work.
    ShutDown,
    /// To end when its calls have ended.
    End,
}

impl Fleet {
    /// Starts a process in each seat.
    pub(crate) fn start(world: &Arc<World>, plan: &Arc<Plan>) -> Fleet {
        let start = |number| Seat::start(world, plan, number, 0);
        let seats = (0..plan.processes).map(start).collect();
        Fleet { world: Arc::clone(world), plan: Arc::clone(plan), seats: Mutex::new(seats) }
    }

    /// The process that is in this seat now.
    pub(crate) fn process(&self, seat: usize) -> Arc<Process> {
        Arc::clone(&locked(&self.seats)[seat].process)
    }

    /// All processes that are in seats now.
    pub(crate) fn processes(&self) -> Vec<Arc<Process>> {
        locked(&self.seats).iter().map(|seat| Arc::clone(&seat.process)).collect()
    }

    /// Lets the process die.
    pub(crate) fn kill(&self, seat: usize) {
        let process = self.process(seat);
        if !process.is_dead() {
            self.world.note(&process.name, What::Killed);
            process.die();
        }
    }

    /// Shuts the process down.
    pub(crate) fn shut_down(&self, seat: usize) {
        // A dead process does not read it.
        let _ = locked(&self.seats)[seat].orders.send(Order::ShutDown);
    }

    /// Lets the process make many calls at once.
    pub(crate) fn burst(&self, seat: usize, fault: usize, calls: u64) {
        let _ = locked(&self.seats)[seat].orders.send(Order::Burst { fault, calls });
    }

    /// Puts a new process into the seat of one that has gone.
    pub(crate) fn replace(&self, seat: usize) {
        let mut seats = locked(&self.seats);
        let generation = seats[seat].generation + 1;
        let next = Seat::start(&self.world, &self.plan, seat, generation);
        let former = mem::replace(&mut seats[seat], next);
        seats[seat].former = former.former;
        if !former.process.is_dead() {
            seats[seat].former.push(former.main);
        }
    }

    /// Lets each process make a call that waits for so long as a stream that has failed may take until it is open.
    pub(crate) async fn last(&self) {
        for seat in &*locked(&self.seats) {
            let _ = seat.orders.send(Order::Last);
        }
        sleep_ms(workload::LAST_MS).await;
    }

    /// Ends all processes. Returns how many did not end in time, or not well.
    pub(crate) async fn end(&self) -> usize {
        let seats: Vec<Seat> = mem::take(&mut *locked(&self.seats));
        let deadline = tokio::time::Instant::now() + ENDING;
        let mut left = 0;
        for seat in &seats {
            let _ = seat.orders.send(Order::End);
        }
        for seat in seats {
            let last = (!seat.process.is_dead()).then_some(seat.main);
            for main in seat.former.into_iter().chain(last) {
                let ended = tokio::time::timeout_at(deadline, main).await;
                left += usize::from(!matches!(ended, Ok(Ok(()))));
            }
        }
        left
    }
}

impl Seat {
    fn start(world: &Arc<World>, plan: &Arc<Plan>, number: usize, generation: u64) -> Seat {
        let name = format!("p{number}.{generation}");
        let drift = match world.is("slow-clocks") {
            // Beyond what the library allows for.
            true => -20_000,
            false => drift(plan, number, generation),
        };
        let process = Process::new(world, name, drift);
        let (orders, received) = mpsc::unbounded_channel();
        let setup = Setup {
            world: Arc::clone(world),
            plan: Arc::clone(plan),
            process: Arc::clone(&process),
            number,
            generation,
        };
        world.note(&process.name, What::Started { pid: 0 });
        let main = spawn(&process, setup.main(received));
        Seat { generation, process, orders, main, former: Vec::new() }
    }
}

/// By how many millionths the clock of this process is too fast.
fn drift(plan: &Plan, number: usize, generation: u64) -> i32 {
    let mut random = StdRng::seed_from_u64(seed(plan, number, generation) ^ 0x0063_6c6f_636b);
    random.random_range(-plan.drift..=plan.drift)
}

/// The part of the round's seed that a process has.
fn seed(plan: &Plan, number: usize, generation: u64) -> u64 {
    let number = u64::try_from(number).unwrap_or(0);
    plan.seed ^ (number << 40) ^ (generation << 48) ^ 0x776f_726b
}

/// The beginnings of a process.
struct Setup {
    world: Arc<World>,
    plan: Arc<Plan>,
    process: Arc<Process>,
    number: usize,
    generation: u64,
}

impl Setup {
    async fn main(self, mut orders: mpsc::UnboundedReceiver<Order>) {
        let manager = self.build().await;
        let worker = Arc::new(Worker {
            world: Arc::clone(&self.world),
            plan: Arc::clone(&self.plan),
            process: Arc::clone(&self.process),
            manager: manager.clone(),
            seed: seed(&self.plan, self.number, self.generation),
            ends: AtomicBool::new(false),
            calls: 0.into(),
            own_line: Semaphore::new(workload::AT_ONCE),
            first_tokens: Mutex::default(),
            holds: Mutex::default(),
        });
        let mut tasks = workload::start(&worker);
        // Events have no end while somebody has the manager.
        drop(spawn(&self.process, Arc::clone(&worker).hear_of_the_stream()));
        let ends_at_once = loop {
            match orders.recv().await {
                Some(Order::Burst { fault, calls }) => {
                    let burst = workload::burst(Arc::clone(&worker), fault, calls);
                    tasks.push(spawn(&self.process, burst));
                }
                Some(Order::Last) => {
                    tasks.push(spawn(&self.process, Arc::clone(&worker).last()));
                }
                Some(Order::ShutDown) => break true,
                Some(Order::End) | None => break false,
            }
        };
        worker.ends.store(true, Ordering::Relaxed);
        if ends_at_once {
            worker.stop_believing();
            self.shut_down(&manager).await;
        }
        for task in tasks {
            // A panic in it shows as a call that never ended.
            let _ = task.await;
        }
        if !ends_at_once {
            self.shut_down(&manager).await;
        }
    }

    async fn shut_down(&self, manager: &LeaseManager) {
        let began_ms = self.world.elapsed_ms();
        let report = manager.shutdown().await;
        // A database that does not answer leaves tasks behind, which end when it answers.
        let is_faulted =
            self.plan.is_faulted(began_ms.saturating_sub(FELT_MS), self.world.elapsed_ms());
        if is_faulted {
            return;
        }
        // A release of a damaged document matches nothing.
        let left = report.left_to_expire.iter().filter(|name| *name != SPOILT);
        let what = What::ShutDown {
            released: report.released,
            left_to_expire: left.count(),
            tasks_left: report.tasks_left,
        };
        self.world.note(&self.process.name, what);
    }

    /// Builds the manager, however long the server takes.
    async fn build(&self) -> LeaseManager {
        let plan = &self.plan;
        let every = |every: usize| every > 0 && self.number.is_multiple_of(every);
        let client = self.world.store.client_of(Arc::new(Connection(Arc::clone(&self.process))));
        let tuning = Tuning::default()
            .waiter_ttl(Duration::from_millis(plan.waiter_ttl_ms))
            .change_stream(plan.has_stream(self.number))
            .max_in_flight(plan.in_flight_max);
        loop {
            let built = LeaseManager::in_memory(&client)
                .collection(crate::world::COLLECTION)
                .owner(&self.process.name)
                .ttl(Duration::from_secs(3))
                .max_clock_skew(Duration::from_millis(plan.max_clock_skew_ms))
                .tombstones(every(plan.tombstones))
                .tuning(tuning.clone())
                .build_timeout(Duration::from_secs(2))
                .build()
                .await;
            match built {
                Ok(manager) => return manager,
                Err(_) => sleep_ms(200).await,
            }
        }
    }
}
