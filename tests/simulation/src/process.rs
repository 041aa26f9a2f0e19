//! A process: its tasks, which can be stopped or die at any poll, and its connection to the server.

use std::mem;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use mongo_lease::simulated::{BoxedTask, SentCommand, SimulatedAnswer, SimulatedProcess};
use mongo_lease_core::commands::{SlowAcquire, StreamEvent};
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::plan::{BREAKS_MS, SECOND_MS};
use crate::workload;
use crate::world::{World, locked, sleep_ms};

/// In a control, how much later the messages of a change stream come, in milliseconds.
const LATE_EVENT_MS: u64 = 600;
/// Below this is the time of a message in good health, and of one of the process that is far away, in milliseconds.
const USUAL_DELAY_MS: u64 = 2;
const FAR_DELAY_MS: u64 = 20;

/// The troubles of one connection at this moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Link {
    /// Nothing passes meanwhile; messages pass afterwards.
    pub(crate) hangs: bool,
    /// Of a hundred requests, so many are lost; and so many replies.
    pub(crate) loses_requests: u64,
    /// See `loses_requests`.
    pub(crate) loses_replies: u64,
    /// How late a request and a reply may be, in milliseconds.
    pub(crate) late: u64,
    /// Of a hundred requests, so many arrive twice.
    pub(crate) doubles: u64,
    /// Of a hundred messages of the change stream, so many break it instead.
    pub(crate) breaks_streams: u64,
}

impl Link {
    /// Nothing.
    pub(crate) const GOOD: Link = Link {
        hangs: false,
        loses_requests: 0,
        loses_replies: 0,
        late: 0,
        doubles: 0,
        breaks_streams: 0,
    };
}

/// Whether a process runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Life {
    Runs,
    Stopped,
    Dead,
}

/// A process.
pub(crate) struct Process {
    /// Its name in the history. No other process has it.
    pub(crate) name: String,
    world: Arc<World>,
    drift: i32,
    /// How long its messages are under way in good health, below this, in milliseconds.
    usual_delay: u64,
    life: Mutex<(Life, Vec<Waker>)>,
    link: Mutex<Link>,
    /// Notified when the link changes.
    passes: Notify,
}

impl Process {
    /// A process that runs, with a good connection.
    pub(crate) fn new(world: &Arc<World>, name: String, drift: i32) -> Arc<Process> {
        let usual_delay = if workload::is_far_away(&name) { FAR_DELAY_MS } else { USUAL_DELAY_MS };
        Arc::new(Process {
            name,
            world: Arc::clone(world),
            drift,
            usual_delay,
            life: Mutex::new((Life::Runs, Vec::new())),
            link: Mutex::new(Link::GOOD),
            passes: Notify::new(),
        })
    }

    /// How long this time of its clock lasts.
    pub(crate) fn real(&self, shown: Duration) -> Duration {
        if self.drift == 0 { shown } else { shown.div_f64(1.0 + f64::from(self.drift) / 1e6) }
    }

    /// Whether it has died.
    pub(crate) fn is_dead(&self) -> bool {
        locked(&self.life).0 == Life::Dead
    }

    /// Stops it: none of its tasks is polled. Returns false if it does not run.
    pub(crate) fn stop(&self) -> bool {
        let runs = locked(&self.life).0 == Life::Runs;
        if runs {
            self.become_(Life::Stopped);
        }
        runs
    }

    /// Lets it go on.
    pub(crate) fn resume(&self) {
        self.become_(Life::Runs);
    }

    /// Ends it without any cleanup: none of its tasks is polled or dropped again.
    pub(crate) fn die(&self) {
        self.become_(Life::Dead);
    }

    fn become_(&self, life: Life) {
        let mut state = locked(&self.life);
        if state.0 == Life::Dead {
            return;
        }
        state.0 = life;
        let wakers = mem::take(&mut state.1);
        drop(state);
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Changes what ails its connection.
    pub(crate) fn change_link(&self, change: impl FnOnce(&mut Link)) {
        change(&mut locked(&self.link));
        self.passes.notify_waiters();
    }

    fn link(&self) -> Link {
        *locked(&self.link)
    }

    async fn until_it_passes(&self) {
        loop {
            let passes = self.passes.notified();
            if !self.link().hangs {
                return;
            }
            passes.await;
        }
    }

    /// How long a message is under way, in milliseconds.
    fn delay(&self) -> u64 {
        let late = self.link().late;
        let usual = self.world.random(0..self.usual_delay);
        if late > 0 && self.world.happens(50) { usual + self.world.random(0..late) } else { usual }
    }

    /// Waits until a request of a transaction is at the server. Returns false if it is lost.
    pub(crate) async fn a_request_arrives(&self) -> bool {
        self.until_it_passes().await;
        let arrives = !self.world.happens(self.link().loses_requests);
        sleep_ms(self.delay()).await;
        arrives
    }

    /// The same for its reply.
    pub(crate) async fn a_reply_arrives(&self) -> bool {
        self.until_it_passes().await;
        let arrives = !self.world.happens(self.link().loses_replies);
        sleep_ms(self.delay()).await;
        arrives
    }

    /// Carries a message to the server, and the answer back.
    async fn carry(self: Arc<Self>, mut command: Box<dyn SentCommand>) {
        let (sent, forgotten) = (Instant::now(), self.world.applied.forgotten());
        self.until_it_passes().await;
        let link = self.link();
        if self.world.happens(link.loses_requests) {
            // It may still arrive after its process has heard that the connection is broken.
            if self.world.happens(30) {
                self.arrives_later(&*command);
            }
            return self.breaks(command).await;
        }
        if self.world.happens(link.doubles) {
            self.arrives_later(&*command);
        }
        sleep_ms(self.delay()).await;
        let answer = self.world.server.receive(&self.world, &mut *command).await;
        self.until_it_passes().await;
        if self.world.happens(self.link().loses_replies) {
            return self.breaks(command).await;
        }
        sleep_ms(self.delay()).await;
        if let Some(control) = self.world.control {
            control.reply(&self.world, &mut *command, sent.elapsed());
        }
        self.world.applied.answers(&mut *command, answer, sent.elapsed(), forgotten);
        command.answer(answer);
    }

    /// The command arrives some time later, and nobody hears of its reply.
    fn arrives_later(self: &Arc<Self>, command: &dyn SentCommand) {
        let (mut copy, process) = (command.copy(), Arc::clone(self));
        let later = self.world.random(0..SECOND_MS);
        tokio::spawn(async move {
            sleep_ms(later).await;
            process.world.server.receive(&process.world, &mut *copy).await;
        });
    }

    /// The process hears after some time that its connection is broken.
    async fn breaks(&self, command: Box<dyn SentCommand>) {
        sleep_ms(self.world.random(1..BREAKS_MS)).await;
        command.answer(SimulatedAnswer::ConnectionBroke);
    }
}

/// The process as its managers know it.
pub(crate) struct Connection(pub(crate) Arc<Process>);

impl SimulatedProcess for Connection {
    fn drift(&self) -> i32 {
        self.0.drift
    }

    fn run(&self, task: BoxedTask) -> BoxedTask {
        Box::pin(Gate { process: Arc::clone(&self.0), task: Some(task) })
    }

    fn send(&self, mut command: Box<dyn SentCommand>) {
        let (process, sent) = (Arc::clone(&self.0), self.0.world.now());
        process.world.applied.sends(&mut *command, sent);
        let slow = command.parts().0.downcast_ref::<SlowAcquire>();
        let call = slow.and_then(|it| Some(it.request.metadata.get_str("call").ok()?.to_owned()));
        tokio::spawn(async move {
            Arc::clone(&process).carry(command).await;
            if let Some(call) = call {
                process.world.attempted(call, sent);
            }
        });
    }

    fn hear(&self) -> Pin<Box<dyn Future<Output = bool> + Send>> {
        let process = Arc::clone(&self.0);
        Box::pin(async move {
            process.until_it_passes().await;
            process.world.server.until_it_answers().await;
            let longer = if process.world.is("late-event") { LATE_EVENT_MS } else { 0 };
            sleep_ms(process.delay() + longer).await;
            let has_primary = !process.world.server.health().has_no_primary;
            let is_refused = process.world.is("closed-streams");
            has_primary && !is_refused && !process.world.happens(process.link().breaks_streams)
        })
    }

    fn change(&self, event: &mut StreamEvent) {
        if let Some(control) = self.0.world.control {
            control.event(event);
        }
    }
}

/// Starts a task of the process.
pub(crate) fn spawn(
    process: &Arc<Process>,
    task: impl Future<Output = ()> + Send + 'static,
) -> tokio::task::JoinHandle<()> {
    tokio::spawn(Gate { process: Arc::clone(process), task: Some(Box::pin(task)) })
}

/// A task that is polled only while its process runs. After its death it is neither polled nor dropped.
struct Gate {
    process: Arc<Process>,
    task: Option<BoxedTask>,
}

impl Future for Gate {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let mut life = locked(&self.process.life);
        match life.0 {
            Life::Runs => drop(life),
            Life::Stopped => {
                life.1.push(context.waker().clone());
                return Poll::Pending;
            }
            Life::Dead => {
                drop(life);
                // Its destructors would send releases.
                mem::forget(self.task.take());
                return Poll::Ready(());
            }
        }
        match &mut self.task {
            Some(task) => task.as_mut().poll(context),
            None => Poll::Ready(()),
        }
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        if self.process.is_dead() {
            mem::forget(self.task.take());
        }
    }
}
