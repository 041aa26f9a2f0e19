//! The rules of jobs, leaders, listeners and calls for several names.

use mongo_lease_core::info::human;
use mongo_lease_core::rules::{EVENTS_BACKLOG, leader_notice};
use wasm_bindgen::prelude::wasm_bindgen;

use crate::convert::{duration, millis};
use crate::error::{Error, LostReason};
use crate::failed::Fault;
use crate::options::{check_job, sorted_names};

/// Rules that concern no single lease.
#[wasm_bindgen]
pub struct Rules;

#[wasm_bindgen]
impl Rules {
    /// The names in the order in which every process waits for them, if they are fit to be acquired together.
    #[wasm_bindgen(js_name = sortedNames)]
    pub fn sorted_names(names: Vec<String>) -> Result<Vec<String>, Fault> {
        Ok(sorted_names(names)?)
    }

    /// Checks the times of a job, in milliseconds.
    #[wasm_bindgen(js_name = checkJob)]
    pub fn check_job(
        at_least: Option<f64>,
        at_most: Option<f64>,
        every: Option<f64>,
    ) -> Result<(), Fault> {
        let (at_least, at_most) = (at_least.map(duration), at_most.map(duration));
        check_job(at_least, at_most)?;
        if let (Some(shortest), Some(period)) = (at_least, every.map(duration))
            && shortest >= period
        {
            // Each other tick would be left out.
            let (shortest, period) = (human(shortest), human(period));
            let reason = format!("{shortest} is not shorter than `every`, which is {period}");
            return Err(Error::invalid_option("at_least", reason).into());
        }
        Ok(())
    }

    /// The remaining time of its lease at which a leader has to stop. `whole` is the longest one so far.
    #[wasm_bindgen(js_name = leaderNotice)]
    pub fn leader_notice(asked: Option<f64>, whole: f64) -> f64 {
        millis(leader_notice(asked.map(duration), duration(whole)))
    }

    /// How many events are kept for a listener.
    #[wasm_bindgen(js_name = eventsBacklog)]
    pub fn events_backlog() -> u32 {
        u32::try_from(EVENTS_BACKLOG).unwrap_or(u32::MAX)
    }

    /// The error of work that goes on after its leader was asked to step down.
    #[wasm_bindgen(js_name = steppedDown)]
    pub fn stepped_down(name: String) -> Fault {
        Error::Lost { name, reason: LostReason::Released }.into()
    }
}
