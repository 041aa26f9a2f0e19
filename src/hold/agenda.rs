//! When each holding of a manager needs its rules.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use mongo_lease_core::rules::{HoldAction, HoldEvent, Instant};

use super::renewals::Due;
use crate::hold::{AgendaKey, Holding};
use crate::telemetry;

#[derive(Default)]
pub(super) struct Agenda {
    pub(super) next_number: u64,
    pub(super) holdings: BTreeMap<AgendaKey, Scheduled>,
    pub(super) times: BTreeSet<(Instant, AgendaKey)>,
    /// When the task looks at the agenda again by itself. `None` before its first look.
    pub(super) wakes_at: Option<Instant>,
}

pub(super) struct Scheduled {
    pub(super) holding: Arc<Holding>,
    pub(super) at: Instant,
}

impl Agenda {
    pub(super) fn remove(&mut self, number: AgendaKey) -> Option<Arc<Holding>> {
        let place = self.holdings.remove(&number)?;
        self.times.remove(&(place.at, number));
        telemetry::count_held(-1.0);
        Some(place.holding)
    }

    pub(super) fn schedule(&mut self, number: AgendaKey, at: Instant) {
        let Some(place) = self.holdings.get_mut(&number) else {
            return;
        };
        self.times.remove(&(place.at, number));
        place.at = at;
        self.times.insert((at, number));
    }

    /// Takes due and nearly due holdings, and calls the rules for each.
    pub(super) fn collect(&mut self, now: Instant) -> Vec<Due> {
        let mut due = Vec::new();
        let Some(&(first, number)) = self.times.first() else {
            return due;
        };
        // A nearly due holding goes out only together with one that is due. Otherwise each pass over the agenda would
        // send for the few that have come near since the last one, and batches would never form.
        if now < first {
            return due;
        }
        let slack = self.holdings.get(&number).map(|place| place.holding.timing.renew_slack);
        let until = now.after(slack.unwrap_or_default());
        let ready = self.times.range(..=(until, AgendaKey(u64::MAX)));
        let ready: Vec<AgendaKey> = ready.map(|&(_, number)| number).collect();
        for number in ready {
            let Some(place) = self.holdings.get(&number) else {
                continue;
            };
            let holding = Arc::clone(&place.holding);
            match holding.on(HoldEvent::Timer, None) {
                HoldAction::WakeAt(at) => self.schedule(number, at),
                HoldAction::Renew { alone } => {
                    // Also schedules the check whether the renewal was answered.
                    self.schedule(number, holding.wake_at());
                    due.push(Due { member: (number, holding), alone });
                }
                HoldAction::Lost(_) | HoldAction::Nothing => drop(self.remove(number)),
            }
        }
        due
    }
}
