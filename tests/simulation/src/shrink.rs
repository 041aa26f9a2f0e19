//! Shrinks a round that breaks a promise to the shortest prefix of its faults that still does.

use crate::control::Control;
use crate::plan::Plan;
use crate::promises::Broken;
use crate::round::{History, judge, run};

/// A round that breaks a promise.
#[derive(Clone, Debug)]
pub struct Shrunk {
    /// Its plan.
    pub plan: Plan,
    /// Its history.
    pub history: History,
    /// The promises that it breaks.
    pub violations: Vec<Broken>,
    /// How many rounds were run to find it.
    pub runs: usize,
}

/// The shortest prefix of the plan's faults that still breaks a promise.
///
/// Longer prefixes need not break one where a shorter one does: bisection finds a prefix that does and whose
/// predecessor does not, and then each shorter one is tried, if there are few.
pub fn shrink(plan: &Plan, control: Option<&'static Control>) -> Option<Shrunk> {
    const FEW: usize = 8;
    let mut runs = 0;
    // The first one of the whole round.
    let mut promise: Option<String> = None;
    let mut attempt = |faults: usize| {
        runs += 1;
        let mut plan = plan.clone();
        plan.faults.truncate(faults);
        let history = run(&plan, control);
        let mut violations = judge(&plan, &history);
        let promise = promise.get_or_insert_with(|| {
            violations.first().map(|first| first.promise.clone()).unwrap_or_default()
        });
        violations.retain(|it| it.promise == *promise);
        (!violations.is_empty()).then_some((plan, history, violations))
    };
    let mut best = attempt(plan.faults.len())?;
    let (mut good, mut bad) = (0, plan.faults.len());
    // The prefix with `bad` faults breaks a promise. Without any fault none should be broken.
    while good < bad {
        let middle = good + (bad - good) / 2;
        match attempt(middle) {
            Some(found) => (best, bad) = (found, middle),
            None => good = middle + 1,
        }
    }
    for shorter in 0..bad.min(FEW) {
        if let Some(found) = attempt(shorter) {
            best = found;
            break;
        }
    }
    let (plan, history, violations) = best;
    Some(Shrunk { plan, history, violations, runs })
}
