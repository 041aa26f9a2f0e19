//! The conditions by which a model is judged.

use stateright::Model;

/// A condition of a state, with its name in the reports.
pub(crate) type Condition<M> = (&'static str, fn(&M, &<M as Model>::State) -> bool);

/// A model with its conditions.
pub(crate) trait Claimed: Model + Sized {
    /// They hold in every state.
    fn claims(&self) -> Vec<Condition<Self>>;

    /// Some state must show each of them, or the claims would say nothing.
    fn sights(&self) -> Vec<Condition<Self>>;
}
