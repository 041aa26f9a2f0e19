//! The steps that clients may take of their own accord.

use mongo_lease_core::rules::holder::{HoldAction, HoldEvent};

use crate::bounds::First;
use crate::explore::{Explored, Step};
use crate::properties::believes;
use crate::state::{Client, Stage, World};

impl Explored {
    /// The steps that a client may take of its own accord.
    pub(crate) fn acts(&self, world: &World, number: usize, steps: &mut Vec<Step>) {
        let (client, bounds) = (&world.clients[number], &self.bounds.clients[number]);
        let believes = believes(&self.bounds, world, number);
        match client.stage {
            Stage::Acquiring | Stage::Bequeathed if client.line.is_some() => {
                self.waits(world, number, steps);
            }
            Stage::Acquiring => {
                if client.started < bounds.attempts {
                    steps.push(Step::Acquire(number));
                    if client.started > 0 && self.bounds.first == First::Together {
                        steps.push(Step::AcquireWhole(number));
                    }
                }
                if client.started > 0 {
                    steps.push(Step::Abandon(number));
                }
            }
            Stage::Holding(_) => {
                if self.would_act(world, number) {
                    steps.push(Step::Look(number));
                }
                if believes && client.renewals < bounds.renewals {
                    steps.push(Step::Renew(number));
                }
                if client.begun.is_some() {
                    self.is_in_transaction(world, number, steps);
                    return self.may_crash(client, number, steps);
                }
                let repeats = client.repeats && client.guards == bounds.guards;
                if believes && (client.guards < bounds.guards || repeats) {
                    steps.push(Step::Guard(number));
                    if self.bounds.guards_last && !repeats {
                        steps.push(Step::BeginTransaction(number));
                    }
                }
                steps.push(Step::DropLease(number));
                if bounds.releases {
                    steps.push(Step::Release(number));
                }
            }
            Stage::Bequeathed | Stage::Releasing(_) | Stage::Ended | Stage::Crashed => {}
        }
        self.may_crash(client, number, steps);
    }

    fn may_crash(&self, client: &Client, number: usize, steps: &mut Vec<Step>) {
        if self.bounds.crashes && client.started > 0 && client.stage != Stage::Crashed {
            steps.push(Step::Crash(number));
        }
    }

    /// Whether the rules do more at a tick than set the next one.
    pub(crate) fn would_act(&self, world: &World, number: usize) -> bool {
        let Some(held) = world.clients[number].held() else {
            return false;
        };
        let mut holder = held.holder.clone();
        let now = self.bounds.clock(number, world.tick);
        let next = holder.on(&self.bounds.timing(), now, HoldEvent::Timer);
        let may_renew = world.clients[number].renewals < self.bounds.clients[number].renewals;
        match next {
            HoldAction::Renew { .. } => {
                may_renew && !world.clients[number].is_held_back_for_ever(&self.bounds)
            }
            HoldAction::Lost(_) => true,
            HoldAction::WakeAt(_) | HoldAction::Nothing => false,
        }
    }
}
