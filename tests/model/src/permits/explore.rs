//! A world with permits as the checker explores it: its steps, and the state after each.

use stateright::Model;

use crate::explore::remove;
use crate::permits::bounds::PermitBounds;
use crate::permits::client::Calling;
use crate::permits::primary::Carrying;
use crate::permits::state::{Answer, Caller, Does, Mistakes, Order, Permitting, Stage};
use crate::releases::Ending;

/// The model.
#[derive(Clone, Debug)]
pub(crate) struct Permitted {
    pub(crate) bounds: PermitBounds,
}

/// A step.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Step {
    AdvanceClock,
    /// A client sends an attempt, in the fast form or in the full one.
    Attempt(usize, bool),
    GiveUp(usize),
    Heartbeat(usize),
    Renew(usize),
    DropLease(usize),
    Crash(usize),
    /// The primary carries it out, with this `$$NOW`.
    CarryOut(Order, i64),
    Hear(Answer),
    Lose(Answer),
    TtlDelete,
    ForeignTake,
    ForeignRelease,
    /// Another program writes other numbers into the holders.
    Damage,
}

/// Whether a client believes, by its own clock, that it holds.
pub(crate) fn believes(bounds: &PermitBounds, world: &Permitting, client: usize) -> bool {
    let now = bounds.clock(client, world.tick);
    matches!(&world.clients[client].stage, Stage::Holding(holder, ..) if holder.is_valid(now))
}

impl Model for Permitted {
    type State = Permitting;
    type Action = Step;

    fn init_states(&self) -> Vec<Permitting> {
        vec![Permitting {
            tick: 0,
            document: None,
            clients: self.bounds.clients.iter().map(|_| Caller::new()).collect(),
            orders: Vec::new(),
            answers: Vec::new(),
            foreign_take_overs: 0,
            damages: 0,
            crashes: 0,
            losses: 0,
            seen: Mistakes::default(),
        }]
    }

    fn actions(&self, world: &Permitting, steps: &mut Vec<Step>) {
        (0..world.clients.len()).for_each(|client| self.acts(world, client, steps));
        self.network(world, steps);
        if world.document.is_some() {
            steps.extend([Step::TtlDelete, Step::ForeignRelease]);
        }
        if world.foreign_take_overs < self.bounds.foreign_take_overs {
            steps.push(Step::ForeignTake);
        }
        if world.damages < self.bounds.damages {
            steps.push(Step::Damage);
        }
        if world.tick < self.bounds.ticks {
            steps.push(Step::AdvanceClock);
        }
    }

    fn next_state(&self, before: &Permitting, step: Step) -> Option<Permitting> {
        let mut world = before.clone();
        if !self.take(&mut world, step) {
            return None;
        }
        world.settle();
        Some(world)
    }
}

impl Permitted {
    /// The steps that a client may take of its own accord.
    fn acts(&self, world: &Permitting, number: usize, steps: &mut Vec<Step>) {
        let caller = &world.clients[number];
        match caller.stage {
            Stage::Acquiring => {
                if caller.started < self.bounds.clients[number].attempts {
                    steps.push(Step::Attempt(number, false));
                    steps.extend((caller.started == 0).then_some(Step::Attempt(number, true)));
                }
                if caller.started > 0 {
                    steps.push(Step::GiveUp(number));
                    let may_beat = caller.heartbeats < self.bounds.heartbeats;
                    steps.extend(may_beat.then_some(Step::Heartbeat(number)));
                }
            }
            Stage::Holding(..) => {
                steps.push(Step::DropLease(number));
                if caller.renewals < self.bounds.renewals && believes(&self.bounds, world, number) {
                    steps.push(Step::Renew(number));
                }
            }
            Stage::Ended | Stage::Crashed => return,
        }
        if caller.started > 0 && world.crashes < self.bounds.crashes {
            steps.push(Step::Crash(number));
        }
    }

    fn network(&self, world: &Permitting, steps: &mut Vec<Step>) {
        for (place, order) in world.orders.iter().enumerate() {
            if place > 0 && world.orders[place - 1] == *order {
                continue;
            }
            let stamps = match order.does {
                // It reads no clock.
                Does::End { by: Ending::Delete, .. } => vec![world.tick],
                Does::FastAttempt { .. }
                | Does::FullAttempt { .. }
                | Does::Renew { .. }
                | Does::Heartbeat
                | Does::End { .. } => Carrying::stamps(&self.bounds, world, order),
            };
            steps.extend(stamps.into_iter().map(|now| Step::CarryOut(*order, now)));
        }
        for (place, answer) in world.answers.iter().enumerate() {
            if place > 0 && world.answers[place - 1] == *answer {
                continue;
            }
            steps.push(Step::Hear(*answer));
            if world.losses < self.bounds.losses {
                steps.push(Step::Lose(*answer));
            }
        }
    }

    /// Takes a step. False when it changes nothing.
    fn take(&self, world: &mut Permitting, step: Step) -> bool {
        let bounds = &self.bounds;
        match step {
            Step::CarryOut(order, now) => {
                remove(&mut world.orders, &order);
                Carrying { bounds, world }.carry_out(order, now);
            }
            Step::Damage => return Carrying { bounds, world }.damage(),
            Step::TtlDelete => return Carrying { bounds, world }.ttl_delete(),
            Step::ForeignTake => return Carrying { bounds, world }.foreign_take(),
            Step::ForeignRelease => return Carrying { bounds, world }.foreign_release(),
            Step::AdvanceClock => world.tick += 1,
            Step::Attempt(client, is_fast) => Calling { bounds, world, client }.ask(is_fast),
            Step::GiveUp(client) => Calling { bounds, world, client }.give_up(),
            Step::Heartbeat(client) => Calling { bounds, world, client }.heartbeat(),
            Step::Renew(client) => Calling { bounds, world, client }.renew(),
            Step::DropLease(client) => Calling { bounds, world, client }.drop_lease(),
            Step::Crash(client) => {
                world.crashes += 1;
                world.clients[client].stage = Stage::Crashed;
            }
            Step::Hear(answer) => {
                remove(&mut world.answers, &answer);
                Calling { bounds, world, client: answer.client }.hear(&answer);
            }
            Step::Lose(answer) => {
                remove(&mut world.answers, &answer);
                world.losses += 1;
                Calling { bounds, world, client: answer.client }.hear_nothing(&answer);
            }
        }
        true
    }
}
