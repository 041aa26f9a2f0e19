//! Searches: a world to its end, or until a claim is found broken.

use std::fmt::Debug;
use std::hash::Hash;
use std::sync::atomic::{AtomicBool, Ordering};

use stateright::{Checker, HasDiscoveries, Model, Property};

use crate::bounds::Bounds;
use crate::claimed::{Claimed, Condition};
use crate::explore::Explored;
use crate::properties::Claim;

/// A model as it is searched, with all conditions behind a single property.
///
/// The checker looks up each property at every state, in a map that its threads share, and writes each state that shows
/// a sight into it. With a property for each condition the search took a fifth longer.
struct Searched<M: Claimed> {
    model: M,
    claims: Vec<Condition<M>>,
    sights: Vec<Sight<M>>,
}

struct Sight<M: Model> {
    condition: Condition<M>,
    is_seen: AtomicBool,
}

/// The single property.
const HOLDS: &str = "every claim holds";

impl<M: Claimed> Searched<M> {
    /// Whether all claims hold in this state, whose sights are noted.
    fn look(&self, state: &M::State) -> bool {
        for sight in &self.sights {
            let shows = sight.condition.1;
            // In that order: most states are looked at when all has been seen.
            if !sight.is_seen.load(Ordering::Relaxed) && shows(&self.model, state) {
                sight.is_seen.store(true, Ordering::Relaxed);
            }
        }
        self.claims.iter().all(|(_, holds)| holds(&self.model, state))
    }
}

impl<M: Claimed> Model for Searched<M> {
    type State = M::State;
    type Action = M::Action;

    fn init_states(&self) -> Vec<M::State> {
        self.model.init_states()
    }

    fn actions(&self, state: &M::State, actions: &mut Vec<M::Action>) {
        self.model.actions(state, actions);
    }

    fn next_state(&self, before: &M::State, action: M::Action) -> Option<M::State> {
        self.model.next_state(before, action)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![Property::always(HOLDS, |searched, state| searched.look(state))]
    }
}

/// The findings of a search to the end.
#[derive(Clone, Debug)]
pub struct Report {
    /// How many different states there are.
    pub states: usize,
    /// The length of the longest of the shortest paths to a state.
    pub depth: usize,
    /// Whether the search is complete: limited by the world's own bounds, not by a number of states, a depth or time.
    pub is_exhausted: bool,
    /// A claim that does not hold, with the steps to the state that breaks it: there the search ends.
    pub broken: Option<Found>,
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
    M: Claimed + Send + Sync + 'static,
    M::State: Clone + Debug + Hash + PartialEq + Send + Sync + 'static,
    M::Action: Clone + Debug + PartialEq,
{
    let not_seen = |condition| Sight { condition, is_seen: AtomicBool::new(false) };
    let searched = Searched {
        claims: model.claims(),
        sights: model.sights().into_iter().map(not_seen).collect(),
        model,
    };
    let checker = searched.checker().threads(2).spawn_bfs().join();
    let broken = first_broken(&checker);
    let unseen = checker.model().sights.iter().filter(|it| !it.is_seen.load(Ordering::Relaxed));
    Report {
        states: checker.unique_state_count(),
        depth: checker.max_depth(),
        is_exhausted: checker.is_done() && broken.is_none(),
        unseen: unseen.map(|sight| sight.condition.0).collect(),
        broken,
    }
}

/// The claim that does not hold in the state at which a search has ended.
fn first_broken<M>(checker: &impl Checker<Searched<M>>) -> Option<Found>
where
    M: Claimed,
    M::State: Clone + Debug + Hash + PartialEq,
    M::Action: Clone + Debug + PartialEq,
{
    let path = checker.discovery(HOLDS)?;
    let searched = checker.model();
    let is_broken = |claim: &&Condition<M>| !claim.1(&searched.model, path.last_state());
    let claim = searched.claims.iter().find(is_broken).expect("one is broken where it ended");
    Some(Found {
        claim: claim.0,
        steps: path.into_actions().iter().map(|step| format!("{step:?}")).collect(),
        states: checker.unique_state_count(),
    })
}

/// Searches a world until this claim is broken, and gives one of the shortest paths there.
#[must_use]
pub fn find(bounds: &Bounds, claim: Claim) -> Option<Found> {
    until_broken(Explored { bounds: bounds.clone() }, claim.name())
}

/// Searches a model until the claim with this name is broken.
pub(crate) fn until_broken<M>(model: M, claim: &'static str) -> Option<Found>
where
    M: Claimed + Send + Sync + 'static,
    M::State: Clone + Debug + Hash + PartialEq + Send + Sync + 'static,
    M::Action: Clone + Debug + PartialEq,
{
    let mut claims = model.claims();
    claims.retain(|(name, _)| *name == claim);
    let searched = Searched { model, claims, sights: Vec::new() };
    let until = HasDiscoveries::AnyOf([HOLDS].into());
    // One thread: then the search is breadth first in the strict sense.
    first_broken(&searched.checker().threads(1).finish_when(until).spawn_bfs().join())
}
