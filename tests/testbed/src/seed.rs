use std::io::Write;
use std::{env, io, thread};

use crate::random;

/// The seed of a test's random choices.
///
/// It is printed when it is chosen and again when the test panics, past the test harness, which would keep it back
/// until the test ends: so a test that hangs or is killed has shown its seed too. With `MONGO_LEASE_SEED=<number>` in
/// the environment every test uses that number, and so repeats the run that printed it.
///
/// ```
/// let seed = mongo_lease_testbed::Seed::fixed("an example", 7);
/// for run in 0..100 {
///     let number = seed.number_of(run);
///     // … a run that depends on nothing but this number …
/// #   let _ = number;
/// }
/// ```
#[derive(Debug)]
#[must_use = "dropping the seed in a panic prints it"]
pub struct Seed {
    what: &'static str,
    number: u64,
}

impl Seed {
    /// The environment variable that names a seed.
    pub const VARIABLE: &'static str = "MONGO_LEASE_SEED";

    /// The same seed in each run, unless the environment names another.
    ///
    /// # Panics
    ///
    /// When the environment names something that is no number.
    pub fn fixed(what: &'static str, number: u64) -> Self {
        Self::begin(what, Self::named().unwrap_or(number))
    }

    /// Another seed in each run, unless the environment names one.
    ///
    /// # Panics
    ///
    /// When the environment names something that is no number.
    pub fn fresh(what: &'static str) -> Self {
        Self::begin(what, Self::named().unwrap_or_else(random::number))
    }

    /// The number.
    #[must_use]
    pub fn number(&self) -> u64 {
        self.number
    }

    /// The number of one of many runs. As a seed, it makes that run the first one.
    #[must_use]
    pub fn number_of(&self, run: u64) -> u64 {
        self.number.wrapping_add(run)
    }

    fn begin(what: &'static str, number: u64) -> Self {
        let seed = Self { what, number };
        seed.say("begins");
        seed
    }

    fn named() -> Option<u64> {
        let text = env::var(Self::VARIABLE).ok()?;
        let number = text.parse();
        Some(number.unwrap_or_else(|_| panic!("{} is no number: {text:?}", Self::VARIABLE)))
    }

    fn say(&self, what_happens: &str) {
        let Self { what, number } = self;
        // Not `eprintln!`, which the test harness captures. Without standard error there is no reader.
        let _ = writeln!(io::stderr(), "{}={number}: {what} {what_happens}", Self::VARIABLE);
    }
}

impl Drop for Seed {
    fn drop(&mut self) {
        if thread::panicking() {
            self.say("failed");
        }
    }
}
