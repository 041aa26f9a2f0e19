//! Which commands may be under way at once, and how much time the server gets for them.

use mongo_lease_core::rules::{BOUND_MIN, Batching, Bound, Lane as Class, Slots as Rules};
use mongo_lease_core::rules::{Instant, is_too_late};
use wasm_bindgen::prelude::wasm_bindgen;

use crate::convert::{duration, instant, millis};

/// The class of a command, which decides the slots that it may use. In the order in which waiting commands get a slot.
#[wasm_bindgen]
#[derive(Clone, Copy)]
pub enum Lane {
    /// Commands that keep a lease or a place in a queue, reads that confirm a write, and pings.
    Critical,
    /// Commands that keep or free a lease whose document is known to be blocked.
    BlockedCritical,
    /// Commands that free a lease or a place in a queue.
    Release,
    /// New leases, and queries of leases.
    Acquire,
    /// The same for a document that is known to be blocked.
    BlockedAcquire,
}

impl From<Class> for Lane {
    fn from(class: Class) -> Lane {
        match class {
            Class::Critical => Lane::Critical,
            Class::BlockedCritical => Lane::BlockedCritical,
            Class::Release => Lane::Release,
            Class::Acquire => Lane::Acquire,
            Class::BlockedAcquire => Lane::BlockedAcquire,
        }
    }
}

impl From<Lane> for Class {
    fn from(lane: Lane) -> Class {
        Class::ALL[lane as usize]
    }
}

/// The slots of one manager.
#[wasm_bindgen]
pub struct Slots(Rules);

#[wasm_bindgen]
impl Slots {
    /// So many free slots.
    #[wasm_bindgen(constructor)]
    pub fn new(all: usize) -> Slots {
        Slots(Rules::new(all))
    }

    /// Whether there are too few slots for lanes: then attempts must be short.
    #[wasm_bindgen(js_name = areFew)]
    pub fn are_few(&self) -> bool {
        self.0.are_few()
    }

    /// Takes a slot. Returns false if this lane can have none now.
    pub fn occupy(&mut self, lane: Lane) -> bool {
        self.0.occupy(lane.into())
    }

    /// Returns a slot that was taken for this lane.
    #[wasm_bindgen(js_name = giveBack)]
    pub fn give_back(&mut self, lane: Lane) {
        self.0.give_back(lane.into());
    }
}

/// How long commands take, and what follows from it for the next ones.
#[wasm_bindgen]
#[derive(Default)]
pub struct Pace {
    bound: Bound,
    durations: Batching,
}

#[wasm_bindgen]
impl Pace {
    /// No command has gone through yet.
    #[wasm_bindgen(constructor)]
    pub fn new() -> Pace {
        Pace::default()
    }

    /// The server's time limit in milliseconds for a command that must not keep a slot for long.
    pub fn bound(&self, is_blocked: bool) -> f64 {
        millis(if is_blocked { self.bound.get_blocked() } else { self.bound.get() })
    }

    /// A command that was sent at `sent` went through.
    #[wasm_bindgen(js_name = wentThrough)]
    pub fn went_through(&mut self, now: f64, sent: f64) {
        let (now, sent): (Instant, Instant) = (instant(now), instant(sent));
        self.bound.went_through(now, now.since(sent));
        self.durations.took(now.since(sent));
    }

    /// A command that was sent at `sent` ran into its time limit.
    #[wasm_bindgen(js_name = timedOut)]
    pub fn timed_out(&mut self, now: f64, sent: f64) {
        self.bound.timed_out(instant(now), instant(sent));
    }

    /// Whether a command that has waited for a slot is not worth sending, as its caller would have gone when the answer
    /// comes. It has `left` milliseconds, and an attempt has `timeout`.
    #[wasm_bindgen(js_name = isTooLate)]
    pub fn is_too_late(&self, left: f64, timeout: f64) -> bool {
        is_too_late(duration(left), self.durations.typical(), duration(timeout))
    }

    /// Whether a time limit that was reached after so many milliseconds says that something blocks the document. A
    /// command that had hardly any time says nothing about it.
    #[wasm_bindgen(js_name = saysBlocked)]
    pub fn says_blocked(after: f64) -> bool {
        duration(after) >= BOUND_MIN * 3 / 4
    }
}
