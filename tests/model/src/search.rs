//! Searches: a world to its end, or until a claim is found broken.

use std::fmt::Debug;
use std::hash::Hash;

use stateright::{Checker, Expectation, HasDiscoveries, Model};

use crate::bounds::Bounds;
use crate::explore::Explored;
use crate::properties::Claim;

/// The findings of a search to the end.
#[derive(Clone, Debug)]
pub struct Report {
    /// How many different states there are.
    pub states: usize,
    /// The length of the longest of the shortest paths to a state.
    pub depth: usize,
    /// Whether the search is complete: limited by the world's own bounds, not by a number of states, a depth or time.
    pub is_exhausted: bool,
    /// The claims that do not hold, each with the steps to the state that breaks it.
    pub broken: Vec<Found>,
    /// The sights that should have been seen and were not.
    pub unseen: Vec<&'static str>,
}

/// A claim that does not hold.
#[derive(Clone, Debug)]
pub struct Found {
    /// Its name.
    pub claim: &'static str,
    /// The steps to the state that breaks it.
    pub steps: Vec<String>,
    /// How many states had been seen by then.
    pub states: usize,
}

/// Searches a world to its end.
#[must_use]
pub fn check(bounds: &Bounds) -> Report {
    to_the_end(Explored { bounds: bounds.clone() })
}

/// Searches a model to its end.
pub(crate) fn to_the_end<M>(model: M) -> Report
where
    M: Model + Send + Sync + 'static,
    M::State: Clone + Debug + Hash + PartialEq + Send + Sync + 'static,
    M::Action: Clone + Debug + PartialEq,
{
    let checker = model.checker().threads(2).spawn_bfs().join();
    let discovered = checker.discoveries();
    let mut report = Report {
        states: checker.unique_state_count(),
        depth: checker.max_depth(),
        is_exhausted: checker.is_done(),
        broken: Vec::new(),
        unseen: Vec::new(),
    };
    for property in checker.model().properties() {
        let path = discovered.get(property.name);
        match (property.expectation, path) {
            (Expectation::Always, Some(path)) => report.broken.push(Found {
                claim: property.name,
                steps: path.clone().into_actions().iter().map(|step| format!("{step:?}")).collect(),
                states: report.states,
            }),
            (Expectation::Sometimes, None) => report.unseen.push(property.name),
            (Expectation::Always, None)
            | (Expectation::Sometimes, Some(_))
            | (Expectation::Eventually, Some(_) | None) => {}
        }
    }
    report
}

/// Searches a world until this claim is broken, and gives one of the shortest paths there.
#[must_use]
pub fn find(bounds: &Bounds, claim: Claim) -> Option<Found> {
    until_broken(Explored { bounds: bounds.clone() }, claim.name())
}

/// Searches a model until the claim with this name is broken.
pub(crate) fn until_broken<M>(model: M, claim: &'static str) -> Option<Found>
where
    M: Model + Send + Sync + 'static,
    M::State: Clone + Debug + Hash + PartialEq + Send + Sync + 'static,
    M::Action: Clone + Debug + PartialEq,
{
    let until = HasDiscoveries::AnyOf([claim].into());
    // One thread: then the search is breadth first in the strict sense.
    let checker = model.checker().threads(1).finish_when(until).spawn_bfs().join();
    let path = checker.discovery(claim)?;
    Some(Found {
        claim,
        steps: path.into_actions().iter().map(|step| format!("{step:?}")).collect(),
        states: checker.unique_state_count(),
    })
}
