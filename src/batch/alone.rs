//! Commands about one document, in attempts short enough not to hold up other commands.

use std::time::Duration;

use mongo_lease_core::commands::Command;
use mongo_lease_core::rules::BOUND_MIN;

use crate::failure::Failure;
use crate::hints::NameHint;
use crate::runner::{AttemptLimits, AttemptResult, AttemptTime, Pace, Pending, Runner};

/// Sends commands that are each about one document. Cheap to clone.
///
/// The server is told to give up soon if a transaction holds the document up. From then on the document's commands get
/// few slots.
#[derive(Clone)]
pub(crate) struct Alone {
    pub(crate) runner: Runner,
    /// `None` where the attempt's own deadline is the bound.
    pace: Option<Pace>,
    held_up: NameHint,
}

impl Alone {
    pub(crate) fn new(runner: Runner, pace: Option<Pace>, held_up: NameHint) -> Alone {
        Alone { runner, pace, held_up }
    }

    /// Starts one attempt. `on_answer` gets its outcome in any case.
    pub(crate) fn start<C: Command>(
        &self,
        name: &str,
        command: C,
        time: AttemptTime,
        has_written: fn(&C::Reply) -> bool,
        on_answer: impl FnOnce(&AttemptResult<C::Reply>) + Send + 'static,
    ) -> Pending<C::Reply> {
        let is_held_up = self.held_up.has(name);
        let limits = AttemptLimits { time, pace: self.pace.clone(), is_held_up };
        let (held_up, name) = (self.held_up.clone(), name.to_owned());
        let clock = self.runner.clock().clone();
        self.runner.start(command, limits, move |answer, sent| {
            match (answer, sent) {
                (Ok(reply), _) if has_written(reply) => held_up.note(&name, false),
                (Err(failure), Some(sent)) => {
                    note_cut_off(&held_up, &name, failure, clock.now().since(sent));
                }
                (Ok(_), _) | (Err(_), None) => {}
            }
            on_answer(answer);
        })
    }
}

/// Notes that a command failed after this time because its document was held up.
pub(super) fn note_cut_off(held_up: &NameHint, name: &str, failure: &Failure, after: Duration) {
    // A command that had hardly any time says nothing about its document.
    if failure.is_held_up() && after >= BOUND_MIN * 3 / 4 {
        held_up.found(name);
    }
}
