//! The server: it carries out so many commands at a time, and each takes its time.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use mongo_lease::CommandKind;
use mongo_lease::simulated::{SentCommand, SimulatedAnswer};
use tokio::sync::{Notify, oneshot};
use tokio::time::Instant;

use crate::blocked;
use crate::statements;
use crate::world::{World, locked, sleep_ms};

/// How much later than others a write may come to a lock that is free again, in milliseconds.
const UNLOCKED_MS: u64 = 20;
/// How many commands a server in good health carries out at a time.
const SLOTS: usize = 64;

/// The troubles of the server at this moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Health {
    /// It carries nothing out, and answers nothing.
    pub(crate) hangs: bool,
    /// There is no primary.
    pub(crate) has_no_primary: bool,
    /// No write is confirmed. Of a hundred, so many are carried out all the same; the others are undone.
    pub(crate) without_majority: Option<u64>,
    /// Of a hundred commands, so many are refused for want of a primary.
    pub(crate) refused: u64,
    /// Of a hundred commands, so many are cut off at their time limit.
    pub(crate) cut_off: u64,
    /// Of a hundred commands with several statements, so many are carried out in part, and their connections break.
    pub(crate) torn: u64,
    /// Writes wait, and have looked at the clock before.
    pub(crate) is_locked: bool,
    /// No majority has the writes from now on: they are confirmed later, or undone.
    pub(crate) is_held_back: bool,
    /// How long a command takes at least, and how much longer at most, in milliseconds.
    pub(crate) takes: (u64, u64),
    /// How many commands it carries out at a time.
    pub(crate) slots: usize,
}

impl Health {
    /// Nothing.
    pub(crate) const GOOD: Health = Health {
        hangs: false,
        has_no_primary: false,
        without_majority: None,
        refused: 0,
        cut_off: 0,
        torn: 0,
        is_locked: false,
        is_held_back: false,
        takes: (0, 2),
        slots: SLOTS,
    };
}

/// Whether a command needs the confirmation of a majority. The reads have no kind, or that of reads.
fn is_write(command: &dyn SentCommand) -> bool {
    !matches!(command.kind(), None | Some(CommandKind::Read))
}

/// The turn of a command at the server.
#[derive(Clone, Copy)]
struct Turn {
    arrived: Instant,
    /// How long the command has waited for a lock, with its date taken already.
    waited: Duration,
}

impl Turn {
    /// Carries the command out, and returns its answer.
    async fn taken(
        self,
        world: &World,
        command: &mut dyn SentCommand,
        health: Health,
    ) -> SimulatedAnswer {
        // The control has the confirmation of the primary alone.
        let needs_majority = !world.is("w1") && !command.reads_applied();
        if health.is_held_back && needs_majority {
            // A majority read waits for the write that the primary has and no other member. In one control a read that
            // confirms is answered all the same.
            let is_answered = world.is("unconfirmed-read") && command.sees_all_until().is_some();
            if !is_write(command) && !is_answered {
                return self.ends(command, SimulatedAnswer::CutOff).await;
            }
            world.carry_out(command, self.waited);
            return match is_answered {
                true => SimulatedAnswer::Reply,
                false => self.ends(command, SimulatedAnswer::NoMajority).await,
            };
        }
        match health.without_majority {
            Some(carried_out) if is_write(command) && needs_majority => {
                if world.happens(carried_out) {
                    world.carry_out(command, self.waited);
                }
                self.ends(command, SimulatedAnswer::NoMajority).await
            }
            // It waits for writes that no majority has.
            Some(_) if command.sees_all_until().is_some() => {
                self.ends(command, SimulatedAnswer::CutOff).await
            }
            Some(_) | None => {
                world.carry_out(command, self.waited);
                SimulatedAnswer::Reply
            }
        }
    }

    /// Ends at the time limit of the command: for the majority, or for all of it.
    fn ends(
        self,
        command: &dyn SentCommand,
        answer: SimulatedAnswer,
    ) -> impl Future<Output = SimulatedAnswer> + use<> {
        let limit = if answer == SimulatedAnswer::NoMajority {
            command.acknowledged_within() + self.waited
        } else {
            command.time_limit()
        };
        let left = limit.min(command.time_limit()).saturating_sub(self.arrived.elapsed());
        async move {
            tokio::time::sleep(left).await;
            answer
        }
    }
}

/// The server.
pub(crate) struct Server {
    health: Mutex<Health>,
    /// Notified when a hang ends.
    answers: Notify,
    queue: Mutex<Queue>,
}

/// The commands that are carried out, and those that wait for that.
#[derive(Default)]
struct Queue {
    busy: usize,
    waiting: VecDeque<oneshot::Sender<()>>,
}

impl Default for Server {
    fn default() -> Server {
        Server { health: Mutex::new(Health::GOOD), answers: Notify::new(), queue: Mutex::default() }
    }
}

impl Server {
    /// Its troubles now.
    pub(crate) fn health(&self) -> Health {
        *locked(&self.health)
    }

    /// Changes what ails it.
    pub(crate) fn change(&self, change: impl FnOnce(&mut Health)) {
        change(&mut locked(&self.health));
        self.answers.notify_waiters();
        self.let_in();
    }

    /// Receives a command, and returns its answer.
    pub(crate) async fn receive(
        &self,
        world: &Arc<World>,
        command: &mut dyn SentCommand,
    ) -> SimulatedAnswer {
        let arrived = Instant::now();
        self.slot().await;
        let answer = self.in_slot(world, command, arrived).await;
        locked(&self.queue).busy -= 1;
        self.let_in();
        answer
    }

    async fn in_slot(
        &self,
        world: &Arc<World>,
        command: &mut dyn SentCommand,
        arrived: Instant,
    ) -> SimulatedAnswer {
        self.until_it_answers().await;
        let (at_least, more) = self.health().takes;
        sleep_ms(at_least + world.random(0..more + 1)).await;
        let began = Instant::now();
        if is_write(command) && self.until(|health| !health.is_locked).await {
            sleep_ms(world.random(0..UNLOCKED_MS)).await;
        }
        let left = command.time_limit().saturating_sub(arrived.elapsed());
        if is_write(command) && !self.is_unblocked_within(world, command, left).await {
            return SimulatedAnswer::CutOff;
        }
        let waited = began.elapsed();
        // As it is when the command has its turn.
        let health = self.health();
        let is_late = arrived.elapsed() > command.time_limit();
        if health.has_no_primary || world.happens(health.refused) {
            return SimulatedAnswer::NoPrimary;
        }
        let turn = Turn { arrived, waited };
        if is_late || world.happens(health.cut_off) {
            world.carry_out_first(command, waited);
            return turn.ends(command, SimulatedAnswer::CutOff).await;
        }
        if statements::count(command) > 1 && world.happens(health.torn) {
            world.carry_out_first(command, waited);
            return SimulatedAnswer::ConnectionBroke;
        }
        turn.taken(world, command, health).await
    }

    /// Waits for the transactions on documents that the command changes. Returns false if its time is over before.
    async fn is_unblocked_within(
        &self,
        world: &World,
        command: &mut dyn SentCommand,
        left: Duration,
    ) -> bool {
        let deadline = Instant::now() + left;
        loop {
            let unblocked = world.transactions.unblocked();
            if !blocked::is_blocked(world, command) {
                return true;
            }
            if tokio::time::timeout_at(deadline, unblocked).await.is_err() {
                return false;
            }
        }
    }

    /// Waits while it hangs.
    pub(crate) async fn until_it_answers(&self) {
        self.until(|health| !health.hangs).await;
    }

    /// Waits until its health is such. Returns false if it was already.
    pub(crate) async fn until(&self, is_such: impl Fn(Health) -> bool) -> bool {
        let mut has_waited = false;
        loop {
            let answers = self.answers.notified();
            if is_such(self.health()) {
                return has_waited;
            }
            has_waited = true;
            answers.await;
        }
    }

    /// Waits for a slot, in the order of arrival.
    async fn slot(&self) {
        let turn = {
            let slots = self.health().slots;
            let mut queue = locked(&self.queue);
            if queue.busy < slots && queue.waiting.is_empty() {
                queue.busy += 1;
                return;
            }
            let (sender, turn) = oneshot::channel();
            queue.waiting.push_back(sender);
            turn
        };
        // The server lets it in, or the round is over.
        let _ = turn.await;
    }

    /// Gives free slots to the commands that wait.
    fn let_in(&self) {
        let slots = self.health().slots;
        let mut queue = locked(&self.queue);
        while queue.busy < slots
            && let Some(next) = queue.waiting.pop_front()
        {
            queue.busy += usize::from(next.send(()).is_ok());
        }
    }
}
