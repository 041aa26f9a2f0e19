//! One manager: its options, its identity, and its guesses about names.

use std::sync::{Arc, OnceLock};

use mongo_lease_core::commands::FoundIndex;
use mongo_lease_core::rules::{Guess as Rules, Guesses, ManagerId, Timing, timing};
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

/// The duration of so many milliseconds. TypeScript has checked that it is a number, as with the other kinds.
pub(crate) fn time(value: &JsValue) -> std::time::Duration {
    duration(value.as_f64().unwrap_or_default())
}

/// A text.
pub(crate) fn text(value: &JsValue) -> String {
    value.as_string().unwrap_or_default()
}

/// True or false.
pub(crate) fn flag(value: &JsValue) -> bool {
    value.as_bool().unwrap_or_default()
}

/// A whole number. One that is too large stays too large.
pub(crate) fn count(value: &JsValue) -> u32 {
    u32::try_from(whole(value.as_f64().unwrap_or_default())).unwrap_or(u32::MAX)
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
        let options = &mut self.0;
        match option {
            "collection" => options.collection = text(value),
            "owner" => options.owner = text(value),
            "ttl" => options.ttl = time(value),
            "max_clock_skew" => options.max_clock_skew = time(value),
            "attempt_timeout" => options.tuning.attempt_timeout = Some(time(value)),
            "wait" => options.wait = time(value),
            "build_timeout" => options.build_timeout = time(value),
            "release_timeout" => options.release_timeout = time(value),
            "shutdown_timeout" => options.shutdown_timeout = time(value),
            "assume_indexes" => options.assume_indexes = flag(value),
            "waiter_ttl" => options.tuning.waiter_ttl = time(value),
            "recheck_every" => options.tuning.recheck_every = time(value),
            "change_stream" => options.tuning.change_stream = flag(value),
            "max_waiting" => options.tuning.max_waiting = count(value),
            "max_in_flight" => options.tuning.max_in_flight = count(value) as usize,
            // TypeScript refuses it first.
            _ => return Err(Error::unsupported(format!("the option {option}")).into()),
        }
        Ok(())
    }
}

/// What is guessed of a name.
#[wasm_bindgen]
#[derive(Clone, Copy)]
pub enum Guess {
    /// The lease is held or waited for.
    Contended,
    /// A transaction blocks writes to the document.
    Blocked,
    /// Calls wait for the lease, which is held here.
    Awaited,
}

impl From<Guess> for Rules {
    fn from(guess: Guess) -> Rules {
        match guess {
            Guess::Contended => Rules::Contended,
            Guess::Blocked => Rules::Blocked,
            Guess::Awaited => Rules::Awaited,
        }
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
            "max_clock_skew" => options.max_clock_skew,
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

    /// Whether this is likely of the name.
    #[wasm_bindgen(js_name = isLikely)]
    pub fn is_likely(&self, guess: Guess, name: &str, now: f64) -> bool {
        self.guesses.has(instant(now), guess.into(), name)
    }

    /// Notes whether this was found true of the name.
    #[wasm_bindgen(js_name = noteFound)]
    pub fn note_found(&mut self, guess: Guess, name: &str, now: f64, is_true: bool) {
        self.guesses.note(instant(now), guess.into(), name, is_true);
    }
}

/// The problems of these indexes as one text; `None` where there are none.
pub(crate) fn index_problem(found: &[FoundIndex]) -> Option<String> {
    index_problem::text(&index_problem::problems(found))
}
