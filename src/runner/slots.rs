//! The slots of `rules::slots`, and the commands that wait for one.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

use crate::rules::slots::{Lane, Slots};

/// The slots of one runner. Cheap to clone.
#[derive(Clone)]
pub(super) struct SlotQueue(Arc<Mutex<State>>);

struct State {
    slots: Slots,
    /// The commands that wait, by lane; nothing for a lane that is closed.
    waiting: [Option<VecDeque<oneshot::Sender<Slot>>>; Lane::ALL.len()],
}

/// The place of one command among those under way. Dropping it lets the next one go.
pub(super) struct Slot {
    queue: SlotQueue,
    lane: Lane,
}

/// The lane is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Closed;

impl SlotQueue {
    pub(super) fn new(slots: Slots) -> SlotQueue {
        let waiting = Lane::ALL.map(|_| Some(VecDeque::new()));
        SlotQueue(Arc::new(Mutex::new(State { slots, waiting })))
    }

    /// Waits for a slot.
    pub(super) async fn slot(&self, lane: Lane) -> Result<Slot, Closed> {
        let receiver = {
            let mut state = self.state();
            let state = &mut *state;
            let Some(waiting) = &mut state.waiting[lane as usize] else {
                return Err(Closed);
            };
            if waiting.is_empty() && state.slots.occupy(lane) {
                return Ok(Slot { queue: self.clone(), lane });
            }
            let (sender, receiver) = oneshot::channel();
            waiting.push_back(sender);
            receiver
        };
        receiver.await.map_err(|_| Closed)
    }

    /// Lets nobody take a slot of these lanes any more, also those who wait for one.
    pub(super) fn close(&self, lanes: &[Lane]) {
        let mut state = self.state();
        let closed = lanes.iter().map(|lane| state.waiting[*lane as usize].take());
        let closed: Vec<_> = closed.collect();
        drop(state);
        drop(closed);
    }

    fn give_back(&self, lane: Lane) {
        let mut state = self.state();
        state.slots.give_back(lane);
        let going = state.going();
        drop(state);
        for (lane, sender) in going {
            // One whose waiter has gone gives its slot back when it is dropped here.
            let _ = sender.send(Slot { queue: self.clone(), lane });
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Those who get a slot now.
    fn going(&mut self) -> Vec<(Lane, oneshot::Sender<Slot>)> {
        let mut going = Vec::new();
        for lane in Lane::ALL {
            let Some(waiting) = &mut self.waiting[lane as usize] else {
                continue;
            };
            // A command that nobody waits for any more needs none.
            waiting.retain(|sender| !sender.is_closed());
            while !waiting.is_empty() && self.slots.occupy(lane) {
                going.extend(waiting.pop_front().map(|sender| (lane, sender)));
            }
        }
        going
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.queue.give_back(self.lane);
    }
}
