//! The model as the checker explores it: its steps, and the state after each.

use mongo_lease_core::rules::attempts::Attempts;
use stateright::Model;

use crate::bounds::{Bounds, ClientBounds, Clocks, Variant};
use crate::client::{Acting, Silence};
use crate::handing_on::is_in_living_hands;
use crate::primary::Primary;
use crate::properties::believes;
use crate::releases::Ending;
use crate::state::{Client, Command, Does, InLine, Reply, Says, Server, Stage, World, Wrongs};
use crate::steps_of_line::one_after_the_other;

/// The model.
#[derive(Clone, Debug)]
pub(crate) struct Explored {
    pub(crate) bounds: Bounds,
}

/// A step.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Step {
    AdvanceClock,
    Acquire(usize),
    /// An attempt beside one without an answer, in the slow form: the manager has learned that it must not use batches.
    AcquireWhole(usize),
    Look(usize),
    /// Time has passed for a waiter.
    Wake(usize),
    /// A change stream delivers its next event.
    HearEvent(usize),
    Heartbeat(usize),
    /// A change stream breaks, or works again.
    StreamChanges(usize),
    Renew(usize),
    /// A transaction begins that is to guard last.
    BeginTransaction(usize),
    Guard(usize),
    /// A transaction is aborted before its guard.
    AbortUnguarded(usize),
    /// A transaction is committed without its guard, which is a mistake.
    CommitUnguarded(usize),
    Release(usize),
    DropLease(usize),
    Abandon(usize),
    Crash(usize),
    /// The primary carries it out, with this `$$NOW`.
    CarryOut(Command, i64),
    /// Its time is over before all of its statements were carried out. The flag: whether this client's was.
    CutOff(Command, bool),
    /// Its client is told that the outcome is unknown, and the command goes on.
    BreakEarly(Command),
    Hear(Reply),
    Lose(Reply),
    /// The server answers once more, from its stored result and with its newest time.
    AnswerAgain(Reply),
    Commit,
    Abort,
    TtlDelete,
    ForceDelete,
    ForeignTake(i64),
    ForeignRelease,
    /// Another program writes other numbers into the grant.
    Damage,
    Replicate,
    RollBack,
}

impl Model for Explored {
    type State = World;
    type Action = Step;

    fn init_states(&self) -> Vec<World> {
        let server = Server { document: None, position: 0, last_grant: None, ended: 0 };
        let client = |(number, bounds): (usize, &ClientBounds)| Client {
            attempts: Attempts::default(),
            started: 0,
            renewals: 0,
            guards: 0,
            begun: None,
            repeats: false,
            stage: Stage::Acquiring,
            taken: None,
            is_remembered: true,
            has_left: false,
            line: bounds.waits.map(|waits| InLine::new(&self.bounds, number, waits)),
        };
        let mut world = World {
            tick: 0,
            durable: (self.bounds.rollbacks > 0).then(|| server.clone()),
            server,
            rollbacks: 0,
            foreign_take_overs: 0,
            broken_streams: 0,
            damages: 0,
            losses: 0,
            cuts: 0,
            idle_since: 0,
            transaction: None,
            commands: Vec::new(),
            replies: Vec::new(),
            clients: self.bounds.clients.iter().enumerate().map(client).collect(),
            handed: Vec::new(),
            wrongs: Wrongs::default(),
        };
        self.begin(&mut world);
        vec![world]
    }

    fn actions(&self, world: &World, steps: &mut Vec<Step>) {
        (0..world.clients.len()).for_each(|client| self.acts(world, client, steps));
        self.network(world, steps);
        self.primary(world, steps);
        let time_is_over = match self.bounds.clocks {
            Clocks::Bounded { ticks, .. } => world.tick >= ticks,
            Clocks::Unbounded => true,
        };
        if self.bounds.is_prompt {
            one_after_the_other(steps);
        }
        let can_wait = !self.bounds.is_prompt || !steps.iter().any(Step::is_urgent);
        if !time_is_over && can_wait {
            steps.push(Step::AdvanceClock);
        }
    }

    fn next_state(&self, before: &World, step: Step) -> Option<World> {
        let mut world = before.clone();
        if !self.take(&mut world, step) {
            return None;
        }
        for (number, client) in world.clients.iter().enumerate() {
            let was_lost =
                before.clients[number].held().is_some() && !believes(&self.bounds, before, number);
            if was_lost && client.held().is_some() && believes(&self.bounds, &world, number) {
                world.wrongs.valid_again = true;
            }
        }
        let is_other = world.server.last_grant != before.server.last_grant;
        if self.bounds.is_prompt && (is_other || !is_waited_for(&world)) {
            world.idle_since = world.tick;
        }
        world.settle(self.bounds.reads_sent());
        Some(world)
    }
}

impl Explored {
    fn network(&self, world: &World, steps: &mut Vec<Step>) {
        for &command in &world.commands {
            match command.does {
                // The rest of an attempt's batch reads no clock: only its answer does.
                Does::Rest { .. } | Does::LookAtEnded { .. } | Does::Confirm { .. } => {
                    steps.push(Step::CarryOut(command, world.tick));
                }
                // Where nobody waits, a release reads no clock.
                Does::End { by, .. } if by == Ending::Delete || !self.bounds.has_line() => {
                    steps.push(Step::CarryOut(command, world.tick));
                }
                Does::End { .. }
                | Does::Acquire { .. }
                | Does::FastAcquire { .. }
                | Does::LookAtTaken { .. }
                | Does::Renew { .. }
                | Does::Heartbeat
                | Does::Guard { .. } => {
                    let stamps = Primary::stamps(&self.bounds, world, command.sent);
                    steps.extend(stamps.into_iter().map(|now| Step::CarryOut(command, now)));
                }
            }
            if world.cuts < self.bounds.cuts {
                self.cuts_off(command, steps);
            }
            if self.bounds.breaks_early && command.is_heard {
                steps.push(Step::BreakEarly(command));
            }
        }
        for &reply in world.replies.iter().filter(|reply| reply.is_acknowledged) {
            steps.push(Step::Hear(reply));
            if self.bounds.losses.is_none_or(|losses| world.losses < losses) {
                steps.push(Step::Lose(reply));
            }
            let is_grant = matches!(reply.says, Says::Granted { .. });
            if is_grant && self.bounds.variant == Variant::RetriedToken {
                steps.push(Step::AnswerAgain(reply));
            }
        }
    }

    fn primary(&self, world: &World, steps: &mut Vec<Step>) {
        if world.transaction.is_some() {
            steps.extend([Step::Commit, Step::Abort]);
        }
        match self.bounds.clocks {
            Clocks::Bounded { .. } => steps.push(Step::TtlDelete),
            Clocks::Unbounded => steps.push(Step::ForceDelete),
        }
        if self.bounds.foreigner && world.foreign_take_overs == 0 {
            let stamps = Primary::stamps(&self.bounds, world, world.tick);
            steps.extend(stamps.into_iter().map(Step::ForeignTake));
        }
        if world.foreign_take_overs > 0 {
            steps.push(Step::ForeignRelease);
        }
        if world.damages < self.bounds.damages {
            steps.push(Step::Damage);
        }
        if self.bounds.rollbacks > 0 {
            steps.push(Step::Replicate);
        }
        if world.rollbacks < self.bounds.rollbacks {
            steps.push(Step::RollBack);
        }
    }

    /// Takes a step. False when it cannot be taken, or changes nothing.
    fn take(&self, world: &mut World, step: Step) -> bool {
        let bounds = &self.bounds;
        let mut primary = Primary { bounds, world };
        match step {
            Step::CarryOut(command, now) => return primary.carry_out(command, now),
            Step::CutOff(command, is_done) => return primary.cut_off(command, is_done),
            Step::Commit => return primary.commit(),
            Step::TtlDelete => return primary.ttl_delete(),
            Step::ForceDelete => return primary.force_delete(),
            Step::ForeignTake(now) => return primary.foreign_take(now),
            Step::ForeignRelease => return primary.foreign_release(),
            Step::Damage => return primary.damage(),
            Step::Replicate => return primary.replicate(),
            Step::RollBack => return primary.roll_back(),
            Step::AdvanceClock => world.tick += 1,
            Step::Abort => return primary.abort(),
            Step::Acquire(client) => Acting { bounds, world, client }.ask(true),
            Step::AcquireWhole(client) => Acting { bounds, world, client }.ask(false),
            Step::Wake(client) => Acting { bounds, world, client }.wake(),
            Step::HearEvent(client) => Acting { bounds, world, client }.hear_event(),
            Step::Heartbeat(client) => Acting { bounds, world, client }.heartbeat(),
            Step::StreamChanges(client) => Acting { bounds, world, client }.stream_changes(),
            Step::Look(client) => Acting { bounds, world, client }.look(),
            Step::Renew(client) => Acting { bounds, world, client }.renew(),
            Step::Guard(client) => Acting { bounds, world, client }.guard(),
            Step::BeginTransaction(client) => Acting { bounds, world, client }.begin_transaction(),
            Step::AbortUnguarded(client) => Acting { bounds, world, client }.end_transaction(),
            Step::CommitUnguarded(client) => Acting { bounds, world, client }.commit_unguarded(),
            Step::Release(client) => Acting { bounds, world, client }.release(),
            Step::DropLease(client) => Acting { bounds, world, client }.drop_lease(),
            Step::Abandon(client) if bounds.clients[client].waits.is_some() => {
                Acting { bounds, world, client }.give_up();
            }
            Step::Abandon(client) => Acting { bounds, world, client }.abandon(),
            Step::Crash(client) => world.clients[client].stage = Stage::Crashed,
            Step::BreakEarly(command) => self.break_early(world, command),
            Step::Hear(reply) => {
                remove(&mut world.replies, &reply);
                Acting { bounds, world, client: reply.client }.hear(&reply);
            }
            Step::Lose(reply) => {
                remove(&mut world.replies, &reply);
                world.losses += u8::from(bounds.losses.is_some());
                let silence = Silence::from(&reply);
                Acting { bounds, world, client: reply.client }.hear_nothing(silence);
            }
            Step::AnswerAgain(reply) => primary.answer_again(reply),
        }
        true
    }
}

/// Whether a live client waits for a lease that no live client has.
fn is_waited_for(world: &World) -> bool {
    !is_in_living_hands(world)
        && world.clients.iter().any(|client| client.line.as_ref().is_some_and(|line| line.stands))
}

pub(crate) fn remove<T: PartialEq>(from: &mut Vec<T>, what: &T) {
    if let Some(at) = from.iter().position(|each| each == what) {
        from.remove(at);
    }
}
