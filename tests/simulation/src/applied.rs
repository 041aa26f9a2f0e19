//! An attempt that is applied is not sent again while it waits for a majority.

use std::any::Any;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use mongo_lease::simulated::{SentCommand, SimulatedAnswer};
use mongo_lease_checker::Nanos;
use mongo_lease_core::commands::{
    AcquireReply, AcquireRequest, FastAcquire, FastAcquireMany, FastAcquired, FastAdmit,
    SlowAcquire,
};
use mongo_lease_core::rules::CallId;

use crate::promises::Broken;
use crate::world::locked;

/// The attempts whose processes have been told that they were granted, and that no majority has it yet.
#[derive(Default)]
pub(crate) struct AppliedAttempts {
    /// By their calls, whether another attempt was sent since. One may have waited in its process already.
    told: Mutex<BTreeMap<CallId, bool>>,
    /// How often they were forgotten.
    forgotten: AtomicU64,
    repeated: Mutex<Vec<Broken>>,
}

impl AppliedAttempts {
    /// A process sends a command.
    pub(crate) fn sends(&self, command: &mut dyn SentCommand, now: Nanos) {
        let mut told = locked(&self.told);
        if told.is_empty() {
            return;
        }
        for request in requests(command.parts().0) {
            let Some(is_repeated) = told.get_mut(&request.call_id) else { continue };
            if std::mem::replace(is_repeated, true) {
                let call = &request.call_id;
                locked(&self.repeated).push(Broken {
                    promise: "Repeated".to_owned(),
                    at: now,
                    lease: Some(request.name.clone()),
                    calls: Vec::new(),
                    text: format!("an attempt of {call} is applied, and two more are sent"),
                });
            }
        }
    }

    /// How often they were forgotten so far.
    pub(crate) fn forgotten(&self) -> u64 {
        self.forgotten.load(Ordering::Relaxed)
    }

    /// A process is told the answer to a command that was sent so long ago, when they were forgotten so often.
    pub(crate) fn answers(
        &self,
        command: &mut dyn SentCommand,
        answer: SimulatedAnswer,
        took: Duration,
        forgotten: u64,
    ) {
        let (command, reply) = command.parts();
        let is_many = matches!(reply.downcast_ref::<Option<FastAcquired>>(), Some(Some(_)));
        let reply = reply.downcast_ref::<Option<AcquireReply>>().and_then(Option::as_ref);
        if is_many {
            // It is not known here which of its calls were granted anything.
            return;
        }
        // Without its time no read can confirm a grant.
        let is_granted =
            matches!(reply, Some(AcquireReply::Granted(it)) if it.acquired_at().is_some());
        // Meanwhile a majority may have it, or another primary has undone it.
        let is_known = answer == SimulatedAnswer::NoMajority && forgotten == self.forgotten();
        let mut told = locked(&self.told);
        for request in requests(command) {
            if !is_granted {
                // Another attempt has failed, or tells its call to go on, as the grant has ended.
                told.remove(&request.call_id);
            } else if is_known && took < request.timing.validity() - request.timing.margin {
                // One that is over by its process's clock, which may be fast, is of no use.
                told.entry(request.call_id.clone()).or_default();
            }
        }
    }

    /// From now on attempts may be repeated: a majority has them, or they are undone, or a process was stopped when it
    /// was told.
    pub(crate) fn forget(&self) {
        locked(&self.told).clear();
        self.forgotten.fetch_add(1, Ordering::Relaxed);
    }

    /// The attempts that were repeated.
    pub(crate) fn take_repeated(&self) -> Vec<Broken> {
        std::mem::take(&mut locked(&self.repeated))
    }
}

/// The calls of which a command is an attempt.
fn requests(command: &dyn Any) -> Vec<Arc<AcquireRequest>> {
    if let Some(many) = command.downcast_ref::<FastAcquireMany>() {
        // A piece of a command that was cut off belongs to an earlier attempt.
        let first_sent = many.acquires.iter().filter(|it| it.resends == 0);
        return first_sent.map(|it| Arc::clone(&it.request)).collect();
    }
    let fast = command.downcast_ref::<FastAcquire>().map(|it| &it.request);
    let slow = command.downcast_ref::<SlowAcquire>().map(|it| &it.request);
    let admit = command.downcast_ref::<FastAdmit>().map(|it| &it.request);
    fast.or(slow).or(admit).into_iter().cloned().collect()
}
