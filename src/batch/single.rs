//! Commands about one document, in attempts short enough not to block other commands.

use std::time::Duration;

use mongo_lease_core::rules::BOUND_MIN;

use crate::failure::Failure;
use crate::hints::NameHint;
use crate::runner::{
    AttemptLimits, AttemptResult, AttemptTime, BackendCommand, Pace, Pending, Runner,
};

/// Sends commands that are each about one document. Cheap to clone.
///
/// The server is told to give up soon if a transaction blocks the document. From then on the document's commands get
/// few slots.
#[derive(Clone)]
pub(crate) struct SingleSender {
    pub(crate) runner: Runner,
    /// `None` where the attempt's own deadline is the bound.
    pace: Option<Pace>,
    blocked: NameHint,
}

impl SingleSender {
    pub(crate) fn new(runner: Runner, pace: Option<Pace>, blocked: NameHint) -> SingleSender {
        SingleSender { runner, pace, blocked }
    }

    /// Starts one attempt. `on_answer` gets its outcome in any case.
    pub(crate) fn start<C: BackendCommand>(
        &self,
        name: &str,
        command: C,
        time: AttemptTime,
        has_written: fn(&C::Reply) -> bool,
        on_answer: impl FnOnce(&AttemptResult<C::Reply>) + Send + 'static,
    ) -> Pending<C::Reply> {
        let is_blocked = self.blocked.has(name);
        let limits = AttemptLimits { time, pace: self.pace.clone(), is_blocked };
        let (blocked, name) = (self.blocked.clone(), name.to_owned());
        let clock = self.runner.clock().clone();
        self.runner.start(command, limits, move |answer, sent| {
            match (answer, sent) {
                (Ok(reply), _) if has_written(reply) => blocked.note(&name, false),
                (Err(failure), Some(sent)) => {
                    note_cut_off(&blocked, &name, failure, clock.now().since(sent));
                }
                (Ok(_), _) | (Err(_), None) => {}
            }
            on_answer(answer);
        })
    }
}

/// Notes that a command failed after this time because its document was blocked.
pub(super) fn note_cut_off(blocked: &NameHint, name: &str, failure: &Failure, after: Duration) {
    // A command that had hardly any time says nothing about its document.
    if failure.is_blocked() && after >= BOUND_MIN * 3 / 4 {
        blocked.found(name);
    }
}
