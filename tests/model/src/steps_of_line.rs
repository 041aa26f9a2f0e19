//! The first state of a world, and the steps of clients that wait in its queue.

use mongo_lease_core::rules::waiter::{WaitAction, WaitEvent, next_heartbeat_at};

use crate::bounds::{Begins, Bounds, LIFE};
use crate::client::Acting;
use crate::explore::{Explored, Step};
use crate::primary::Primary;
use crate::state::{Does, Says, Stage, World};

impl Step {
    /// Whether it is done before time goes on, where all is prompt.
    pub(crate) fn is_urgent(&self) -> bool {
        self.hurries().is_some()
    }

    /// The client for which this step is done before time advances.
    fn hurries(&self) -> Option<usize> {
        match self {
            Step::Look(client) | Step::Wake(client) | Step::HearEvent(client) => Some(*client),
            Step::Heartbeat(client) => Some(*client),
            Step::CarryOut(command, _) => Some(command.client),
            Step::Hear(reply) => Some(reply.client),
            Step::AdvanceClock
            | Step::Acquire(_)
            | Step::AcquireWhole(_)
            | Step::StreamChanges(_)
            | Step::Renew(_)
            | Step::BeginTransaction(_)
            | Step::Guard(_)
            | Step::AbortUnguarded(_)
            | Step::CommitUnguarded(_)
            | Step::Release(_)
            | Step::DropLease(_)
            | Step::Abandon(_)
            | Step::Crash(_)
            | Step::BreakEarly(_)
            | Step::CutOff(..)
            | Step::Lose(_)
            | Step::AnswerAgain(_)
            | Step::Commit
            | Step::Abort
            | Step::TtlDelete
            | Step::ForceDelete
            | Step::ForeignTake(_)
            | Step::ForeignRelease
            | Step::Damage
            | Step::Replicate
            | Step::RollBack => None,
        }
    }
}

/// Keeps only the first urgent step of each client: a prompt client does one thing after the other.
pub(crate) fn one_after_the_other(steps: &mut Vec<Step>) {
    let mut busy = Vec::new();
    steps.retain(|step| match step.hurries() {
        Some(client) if busy.contains(&client) => false,
        Some(client) => {
            busy.push(client);
            true
        }
        None => true,
    });
}

impl Explored {
    /// Advances to the state in which the world begins: each of the first steps is carried out and heard of at once.
    pub(crate) fn begin(&self, world: &mut World) {
        let ready = match self.bounds.begins {
            Begins::Empty => 0,
            Begins::Held => 1,
            Begins::InLine => world.clients.len(),
        };
        for client in 0..ready {
            let bounds = &self.bounds;
            match (world.clients[client].line.is_some(), client) {
                (true, _) if !self.has_turn(world, client) => continue,
                (true, _) => Acting { bounds, world, client }.wake(),
                (false, 0) => Acting { bounds, world, client }.ask(true),
                // A client that neither holds nor waits comes later.
                (false, _) => continue,
            }
            for command in world.commands.clone() {
                Primary { bounds, world }.carry_out(command, 0);
            }
            for reply in std::mem::take(&mut world.replies) {
                Acting { bounds, world, client }.hear(&reply);
            }
        }
        world.settle(self.bounds.reads_sent());
    }

    /// The steps that a waiter may take, and the events that may reach it.
    pub(crate) fn waits(&self, world: &World, number: usize, steps: &mut Vec<Step>) {
        let client = &world.clients[number];
        let (Some(line), Some(waits)) = (&client.line, self.bounds.clients[number].waits) else {
            return;
        };
        if !line.events.is_empty() {
            steps.push(Step::HearEvent(number));
        }
        let beats_are_due = !self.bounds.is_prompt || self.beat_is_due(world, number);
        if line.stands && line.beats < waits.beats && beats_are_due {
            steps.push(Step::Heartbeat(number));
        }
        if client.stage == Stage::Bequeathed {
            return;
        }
        if self.would_wake(world, number) {
            steps.push(Step::Wake(number));
        }
        if client.started > 0 && self.bounds.drops {
            steps.push(Step::Abandon(number));
        }
        if line.has_no_stream || world.broken_streams < self.bounds.broken_streams {
            steps.push(Step::StreamChanges(number));
        }
    }

    fn beat_is_due(&self, world: &World, number: usize) -> bool {
        let (Some(line), Some(waits)) =
            (&world.clients[number].line, self.bounds.clients[number].waits)
        else {
            return false;
        };
        let is_under_way =
            |client: usize, does: &Does| client == number && *does == Does::Heartbeat;
        let clock = |tick| self.bounds.clock(number, tick);
        let due = next_heartbeat_at(clock(line.confirmed), Bounds::ticks(LIFE), clock(waits.ticks));
        clock(world.tick) >= due
            && !world.commands.iter().any(|it| is_under_way(it.client, &it.does))
            && !world
                .replies
                .iter()
                .any(|it| it.client == number && matches!(it.says, Says::HeartbeatConfirmed { .. }))
    }

    /// Whether this call is the active waiter of its process.
    fn has_turn(&self, world: &World, number: usize) -> bool {
        let waits = self.bounds.clients[number].waits;
        let before = waits.and_then(|waits| waits.follows);
        before.is_none_or(|before| world.clients[before].stage != Stage::Acquiring)
    }

    /// Whether the rules do more for a waiter than set the next wake-up.
    pub(crate) fn would_wake(&self, world: &World, number: usize) -> bool {
        let client = &world.clients[number];
        let (Some(line), Some(waits)) = (&client.line, self.bounds.clients[number].waits) else {
            return false;
        };
        let may_ask = client.started < self.bounds.clients[number].attempts;
        let is_over = world.tick >= waits.ticks;
        if !self.has_turn(world, number) || line.asking.is_some() {
            return is_over || may_ask && self.attempt_takes_long(world, number);
        }
        let now = self.bounds.clock(number, world.tick);
        match line.waiter.clone().on(&self.bounds.timing(), now, WaitEvent::Timer) {
            WaitAction::GiveUp => true,
            WaitAction::Acquire => may_ask,
            WaitAction::WakeAt(_) | WaitAction::TakePromotion(_) => false,
        }
    }

    /// The newest attempt is past its deadline.
    fn attempt_takes_long(&self, world: &World, number: usize) -> bool {
        let asks = world.commands.iter().filter(|command| {
            command.client == number && matches!(command.does, Does::Acquire { .. })
        });
        let answers = world.replies.iter().filter(|reply| {
            let is_answer = matches!(reply.says, Says::Granted { .. } | Says::Refused { .. });
            reply.client == number && is_answer
        });
        let sent = asks.map(|command| command.sent).chain(answers.map(|reply| reply.sent));
        let clock = |tick| self.bounds.clock(number, tick);
        let deadline = self.bounds.timing().attempt_timeout;
        sent.max().is_some_and(|sent| clock(sent).after(deadline) <= clock(world.tick))
    }
}
