//! One manager: its options, its identity, and its guesses about names.

use std::sync::{Arc, OnceLock};

use mongo_lease_core::commands::FoundIndex;
use mongo_lease_core::rules::{Guess, Guesses, ManagerId, Timing, timing};
use wasm_bindgen::JsValue;
use wasm_bindgen::prelude::wasm_bindgen;

use crate::convert::{duration, instant, millis, whole};
use crate::error::Error;
use crate::failed::Fault;
use crate::index_problem;
use crate::options::{ManagerOptions, timing_error};

/// The options of a manager, unchecked.
#[wasm_bindgen]
#[derive(Default)]
pub struct ManagerSettings(ManagerOptions);

/// The library's name of an option.
pub(crate) fn option_name(option: &str) -> &'static str {
    const NAMES: [&str; 43] = [
        "collection",
        "owner",
        "ttl",
        "max_clock_skew",
        "attempt_timeout",
        "wait",
        "build_timeout",
        "release_timeout",
        "shutdown_timeout",
        "assume_indexes",
        "read_only",
        "waiter_ttl",
        "recheck_every",
        "change_stream",
        "max_waiting",
        "max_in_flight",
        "renew",
        "max_hold",
        "value",
        "metadata",
        "limit",
        "permits",
        "shared",
        "signal",
        "session",
        "field",
        "upsert",
        "pattern",
        "filter",
        "update",
        "db",
        "ensure_indexes",
        "prefix",
        "glob",
        "held_by",
        "with_free",
        "hold_at_least",
        "at_least",
        "at_most",
        "every",
        "names",
        "notice",
        "key",
    ];
    NAMES.into_iter().find(|name| *name == option).unwrap_or("options")
}

/// A number of milliseconds.
pub(crate) fn time(option: &'static str, value: &JsValue) -> Result<std::time::Duration, Error> {
    let number = value.as_f64().filter(|number| *number >= 0.0);
    let refused = || Error::invalid_option(option, "must be a number of milliseconds");
    number.map(duration).ok_or_else(refused)
}

/// A text.
pub(crate) fn text(option: &'static str, value: &JsValue) -> Result<String, Error> {
    value.as_string().ok_or_else(|| Error::invalid_option(option, "must be a string"))
}

/// True or false.
pub(crate) fn flag(option: &'static str, value: &JsValue) -> Result<bool, Error> {
    value.as_bool().ok_or_else(|| Error::invalid_option(option, "must be true or false"))
}

/// A whole number.
pub(crate) fn count(option: &'static str, value: &JsValue) -> Result<u32, Error> {
    let number = value.as_f64().filter(|number| *number >= 0.0 && number.fract() == 0.0);
    let refused = || Error::invalid_option(option, "must be a whole number");
    number.map(|it| u32::try_from(whole(it)).unwrap_or(u32::MAX)).ok_or_else(refused)
}

#[wasm_bindgen]
impl ManagerSettings {
    /// The defaults.
    #[wasm_bindgen(constructor)]
    pub fn new() -> ManagerSettings {
        ManagerSettings::default()
    }

    /// Sets an option, by the library's name of it.
    pub fn set(&mut self, option: &str, value: &JsValue) -> Result<(), Fault> {
        let name = option_name(option);
        let options = &mut self.0;
        match name {
            "collection" => options.collection = text(name, value)?,
            "owner" => options.owner = text(name, value)?,
            "ttl" => options.ttl = time(name, value)?,
            "max_clock_skew" => options.max_clock_skew = time(name, value)?,
            "attempt_timeout" => options.tuning.attempt_timeout = Some(time(name, value)?),
            "wait" => options.wait = time(name, value)?,
            "build_timeout" => options.build_timeout = time(name, value)?,
            "release_timeout" => options.release_timeout = time(name, value)?,
            "shutdown_timeout" => options.shutdown_timeout = time(name, value)?,
            "assume_indexes" => options.assume_indexes = flag(name, value)?,
            "waiter_ttl" => options.tuning.waiter_ttl = time(name, value)?,
            "recheck_every" => options.tuning.recheck_every = time(name, value)?,
            "change_stream" => options.tuning.change_stream = flag(name, value)?,
            "max_waiting" => options.tuning.max_waiting = count(name, value)?,
            "max_in_flight" => options.tuning.max_in_flight = count(name, value)? as usize,
            _ => {
                let reason = format!("there is no option {option:?}");
                return Err(Error::invalid_option("options", reason).into());
            }
        }
        Ok(())
    }
}

/// One manager.
#[wasm_bindgen]
pub struct Manager {
    pub(crate) options: ManagerOptions,
    pub(crate) timing: Arc<Timing>,
    pub(crate) owner: Arc<str>,
    id: ManagerId,
    process: String,
    guesses: Guesses,
}

impl Manager {
    pub(crate) fn id(&self) -> &ManagerId {
        &self.id
    }

    /// `@host:pid`, the end of its owners.
    pub(crate) fn process(&self) -> &str {
        &self.process
    }

    /// The timings for this ttl. An attempt deadline that is too long for it is shortened.
    pub(crate) fn timing_for(&self, ttl: std::time::Duration) -> Result<Arc<Timing>, Error> {
        let asked = self.options.tuning.attempt_timeout.map(|asked| asked.min(ttl / 2));
        let timing = Timing::new(ttl, self.options.max_clock_skew, asked);
        timing.map(Arc::new).map_err(timing_error)
    }
}

/// The randomness of a manager, which begins as that of the first manager of this process: so the process knows what it
/// has made.
fn of_process(randomness: &str) -> String {
    static PROCESS: OnceLock<String> = OnceLock::new();
    let (first, own) = randomness.split_at(ManagerId::OF_PROCESS.min(randomness.len()));
    format!("{}{own}", PROCESS.get_or_init(|| first.to_owned()))
}

#[wasm_bindgen]
impl Manager {
    /// Checks all options. `randomness` must be fresh: this manager's values begin with it. `process` is `@host:pid`.
    #[wasm_bindgen(constructor)]
    pub fn new(
        settings: ManagerSettings,
        randomness: String,
        process: String,
    ) -> Result<Manager, Fault> {
        let options = settings.0;
        let timing = Arc::new(options.check()?);
        let owner = format!("{}{process}", options.owner).into();
        let (id, guesses) = (ManagerId::new(of_process(&randomness)), Guesses::new(false));
        Ok(Manager { options, timing, owner, id, process, guesses })
    }

    /// The collection.
    pub fn collection(&self) -> String {
        self.options.collection.clone()
    }

    /// How long an option lasts, in milliseconds.
    pub fn time(&self, option: &str) -> f64 {
        let options = &self.options;
        millis(match option {
            "wait" => options.wait,
            "build_timeout" => options.build_timeout,
            "release_timeout" => options.release_timeout,
            "shutdown_timeout" => options.shutdown_timeout,
            "waiter_ttl" => options.tuning.waiter_ttl,
            "recheck_every" => options.tuning.recheck_every,
            "attempt_timeout" => self.timing.attempt_timeout,
            _ => timing::ATTEMPT_TIMEOUT_DEFAULT,
        })
    }

    /// How many commands may be under way at once.
    #[wasm_bindgen(js_name = maxInFlight)]
    pub fn max_in_flight(&self) -> usize {
        self.options.tuning.max_in_flight
    }

    /// Whether this option is on.
    pub fn is(&self, option: &str) -> bool {
        match option {
            "assume_indexes" => self.options.assume_indexes,
            "change_stream" => self.options.tuning.change_stream,
            _ => false,
        }
    }

    /// Whether the lease is likely to be held or waited for.
    #[wasm_bindgen(js_name = isContended)]
    pub fn is_contended(&self, name: &str, now: f64) -> bool {
        self.guesses.has(instant(now), Guess::Contended, name)
    }

    /// Notes whether the lease was found held or waited for.
    #[wasm_bindgen(js_name = noteContended)]
    pub fn note_contended(&mut self, name: &str, now: f64, is_true: bool) {
        self.guesses.note(instant(now), Guess::Contended, name, is_true);
    }

    /// Whether a transaction is likely to block writes to the document.
    #[wasm_bindgen(js_name = isBlocked)]
    pub fn is_blocked(&self, name: &str, now: f64) -> bool {
        self.guesses.has(instant(now), Guess::Blocked, name)
    }

    /// Notes whether a transaction was found to block writes to the document.
    #[wasm_bindgen(js_name = noteBlocked)]
    pub fn note_blocked(&mut self, name: &str, now: f64, is_true: bool) {
        self.guesses.note(instant(now), Guess::Blocked, name, is_true);
    }
}

/// The problems of these indexes as one text; `None` where there are none.
pub(crate) fn index_problem(found: &[FoundIndex]) -> Option<String> {
    index_problem::text(&index_problem::problems(found))
}
