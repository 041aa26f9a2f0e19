//! The comparison of one random sequence.

use std::fmt;
use std::panic::{AssertUnwindSafe, resume_unwind};

use crate::spec::{AsBuilt, Protections};
use futures_util::FutureExt;
use mongo_lease_core_tests::Chance;
use mongo_lease_testbed::Seed;

use super::names::Callers;
use super::real::Real;
use super::results::result;
use super::steps::Step;
use crate::commands::DecodeError;
use crate::rules::tombstone::PREFIX;
use crate::texts::LeaseDocument;

const STEPS: i64 = 24;

/// The first difference in a sequence, which ends there.
#[derive(Debug)]
pub(super) struct Difference {
    /// The command of the step, or `None` where another program wrote.
    pub(super) command: Option<&'static str>,
    /// Where the specification and the server differ.
    pub(super) what: &'static str,
    /// The whole sequence.
    text: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "the {} differs: {}", self.what, self.text)
    }
}

/// A step's name, and its result.
pub(super) type StepResult = (&'static str, &'static str);

/// The results of one sequence by the specification alone.
pub(super) fn by_the_spec(seed: u64) -> Vec<StepResult> {
    const NOW: i64 = 1_800_000_000_000;
    let mut chance = Chance::new(seed);
    let callers = Callers::choose(&mut chance);
    let mut before: Option<LeaseDocument> = None;
    let results = (1..=STEPS).map(|sent| {
        let step = Step::choose(&mut chance, callers, before.as_ref(), NOW);
        let (after, answer) = step.clone().in_the_spec(before.clone(), NOW, sent, &AsBuilt);
        let result = (step.name(), result(&step, &answer, before.as_ref(), after.as_ref()));
        before = after;
        result
    });
    results.collect()
}

/// Compares one sequence, on a name of its own, and returns the result of each step. As a seed, its number makes it the
/// first one.
pub(super) async fn compare(
    real: &Real,
    protections: &impl Protections,
    name: &str,
    seed: u64,
) -> Result<Vec<StepResult>, Difference> {
    let mut chance = Chance::new(seed);
    let callers = Callers::choose(&mut chance);
    let mut document: Option<LeaseDocument> = None;
    let mut results = Vec::new();
    let mut taken: Vec<Step> = Vec::new();
    let mut newest_token = None;
    let mut nobody = PREFIX.to_owned();
    for sent in 1..=STEPS {
        let step = Step::choose(&mut chance, callers, document.as_ref(), real.began);
        taken.push(step.clone());
        let before = document;
        let (after, expected) =
            step.clone().in_the_spec(before.clone(), real.began, sent, protections);
        let context = || format!("{}={seed}: {taken:#?}, before {before:#?}", Seed::VARIABLE);
        let both = async {
            let replied = real.take(name, &step, sent, &nobody).await;
            (replied, real.document(name).await)
        };
        let (replied, (found, value)) = match AssertUnwindSafe(both).catch_unwind().await {
            Ok(both) => both,
            Err(panic) => {
                eprintln!("the server did not answer: {}", context());
                resume_unwind(panic)
            }
        };
        let differs = |what, text: String| Difference {
            command: step.command(),
            what,
            text: format!("{text}: {}", context()),
        };
        let (answer, token) = match replied {
            Ok(replied) => replied,
            Err(DecodeError::Reply(reason)) => return Err(differs("reply", reason)),
            Err(cause) => return Err(differs("refusal", format!("{cause:?}"))),
        };
        let after = after.map(|after| real.with_recheck(after, before.as_ref(), found.as_ref()));
        if answer != expected {
            return Err(differs("answer", format!("{answer:?} is not {expected:?}")));
        }
        if !real.is_same(&found, &after) {
            return Err(differs("document", format!("{found:#?} is not {after:#?}")));
        }
        if token.is_some() && newest_token >= token {
            return Err(differs("token", format!("{token:?} is not after {newest_token:?}")));
        }
        newest_token = token.or(newest_token);
        results.push((step.name(), result(&step, &answer, before.as_ref(), after.as_ref())));
        (document, nobody) = (after, value);
    }
    Ok(results)
}
