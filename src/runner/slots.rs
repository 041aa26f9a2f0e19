//! The slots of `rules::slots`, and the queue of commands that wait for one.

#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::sync::Arc;

use tokio::sync::oneshot;

use mongo_lease_core::rules::{Lane, Slots};

use crate::lock::Lock;
use crate::mistake::{Mistake, is_made};

/// The slots of one runner. Cheap to clone.
#[derive(Clone)]
pub(super) struct SlotQueue(Arc<Lock<State>>);

struct State {
    slots: Slots,
    /// The waiting commands by lane; `None` for a closed lane.
    waiting: [Option<Waiting>; Lane::ALL.len()],
}

/// The commands that wait for a slot of one lane, in order.
#[derive(Default)]
struct Waiting {
    senders: VecDeque<oneshot::Sender<Occupied>>,
    /// The length at which those whose callers have gone are removed.
    sweep_at: usize,
}

/// An occupied slot. Dropping it gives it to the next command.
pub(super) struct Occupied {
    queue: SlotQueue,
    lane: Lane,
}

impl SlotQueue {
    pub(super) fn new(slots: Slots) -> SlotQueue {
        let waiting = Lane::ALL.map(|_| Some(Waiting::default()));
        SlotQueue(Arc::new(Lock::new(State { slots, waiting })))
    }

    /// Waits for a slot; `None` if the lane is closed.
    pub(super) async fn slot(&self, lane: Lane) -> Option<Occupied> {
        let receiver = {
            let mut state = self.0.lock();
            let state = &mut *state;
            let waiting = state.waiting[lane as usize].as_mut()?;
            if waiting.is_empty() && state.slots.occupy(lane) {
                return Some(Occupied { queue: self.clone(), lane });
            }
            let (sender, receiver) = oneshot::channel();
            waiting.push(sender);
            receiver
        };
        receiver.await.ok()
    }

    pub(super) fn free_slot(&self, lane: Lane) -> Option<Occupied> {
        let mut state = self.0.lock();
        let state = &mut *state;
        let has_none = state.waiting[lane as usize].as_mut()?.is_empty();
        (has_none && state.slots.occupy(lane)).then(|| Occupied { queue: self.clone(), lane })
    }

    /// Closes these lanes. Commands that already wait for a slot in them fail too.
    pub(super) fn close(&self, lanes: &[Lane]) {
        let mut state = self.0.lock();
        let closed: Vec<_> =
            lanes.iter().map(|lane| state.waiting[*lane as usize].take()).collect();
        drop(state);
        drop(closed);
    }

    fn give_back(&self, lane: Lane) {
        let mut state = self.0.lock();
        state.slots.give_back(lane);
        let going = state.going();
        drop(state);
        for (lane, sender) in going {
            // If the receiver has gone, the slot is dropped here and so given back.
            let _ = sender.send(Occupied { queue: self.clone(), lane });
        }
    }
}

impl State {
    fn going(&mut self) -> Vec<(Lane, oneshot::Sender<Occupied>)> {
        let mut going = Vec::new();
        for lane in Lane::ALL {
            let Some(waiting) = &mut self.waiting[lane as usize] else {
                continue;
            };
            while !waiting.is_empty() && self.slots.occupy(lane) {
                going.extend(waiting.senders.pop_front().map(|sender| (lane, sender)));
            }
        }
        going
    }
}

impl Waiting {
    /// The length at which nothing is worth sweeping.
    const FEW: usize = 64;

    fn push(&mut self, sender: oneshot::Sender<Occupied>) {
        if self.senders.len() >= self.sweep_at.max(Waiting::FEW) {
            self.senders.retain(|sender| !sender.is_closed());
            self.sweep_at = 2 * self.senders.len();
        }
        self.senders.push_back(sender);
    }

    /// Whether no command waits. A command whose caller has stopped waiting needs no slot.
    fn is_empty(&mut self) -> bool {
        while self.senders.front().is_some_and(oneshot::Sender::is_closed) {
            self.senders.pop_front();
        }
        self.senders.is_empty()
    }
}

impl Drop for Occupied {
    fn drop(&mut self) {
        if self.lane == Lane::Acquire && is_made(Mistake::SlotKept) {
            return;
        }
        self.queue.give_back(self.lane);
    }
}
