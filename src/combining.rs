//! Calls that travel together: attempts of many callers in one command, each with a deadline and an answer of its own.
//!
//! When that is, is said by `rules::company`. What a caller gets does not depend on its company, but for one thing: a
//! command is answered as a whole, so a call waits for the slowest statement of its command. When that takes longer
//! than an attempt may, each goes on alone, as after any command that is not answered.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;

use crate::clock;
use crate::rules::company::Company;
use crate::rules::time::Instant;
use crate::runner::{Answered, NO_ANSWER, Runner, UnderWay};

/// After this time nobody who has not gone yet waits for a command any more.
const PATIENCE: Duration = Duration::from_millis(250);

/// How attempts of one kind are carried out together.
pub(crate) trait Combine: Send + Sync + 'static {
    /// What one of them asks for.
    type Item: Send + 'static;
    /// What one of them is answered.
    type Reply: Send + 'static;

    /// Carries them out, and answers each, in their order.
    fn carry_out(
        &self,
        runner: &Runner,
        items: Vec<Self::Item>,
        deadline: Instant,
    ) -> impl Future<Output = Vec<Answered<Self::Reply>>> + Send;
}

/// Attempts of one kind.
pub(crate) struct Combiner<C: Combine> {
    shared: Arc<Shared<C>>,
}

struct Shared<C: Combine> {
    runner: Runner,
    kind: C,
    state: Mutex<State<C>>,
}

struct State<C: Combine> {
    company: Company,
    waiting: VecDeque<Waiting<C>>,
}

/// An attempt that has not been answered.
struct Waiting<C: Combine> {
    item: C::Item,
    caller: Caller<C::Reply>,
}

/// What is told of an outcome, also when the caller has gone.
type Told<T> = Box<dyn FnOnce(&Answered<T>) + Send>;

/// Whoever is to hear of it.
struct Caller<T> {
    deadline: Instant,
    answered: Told<T>,
    sender: oneshot::Sender<Answered<T>>,
}

impl<T> Caller<T> {
    fn answer(self, result: Answered<T>) {
        (self.answered)(&result);
        // When nobody waits any more, `answered` was all that had to hear of it.
        let _ = self.sender.send(result);
    }
}

impl<C: Combine> Combiner<C> {
    pub(crate) fn new(runner: Runner, kind: C) -> Combiner<C> {
        let state = Mutex::new(State { company: Company::default(), waiting: VecDeque::new() });
        Combiner { shared: Arc::new(Shared { runner, kind, state }) }
    }

    /// Starts one attempt, at once or with those that come meanwhile. `answered` is told of its outcome in any case.
    pub(crate) fn start(
        &self,
        item: C::Item,
        deadline: Instant,
        answered: impl FnOnce(&Answered<C::Reply>) + Send + 'static,
    ) -> UnderWay<C::Reply> {
        let (waiting, under_way) = Waiting::new(item, deadline, answered);
        self.shared.state().waiting.push_back(waiting);
        Shared::go_next(&self.shared);
        under_way
    }

    /// Starts one attempt at once, and alone.
    pub(crate) fn start_alone(
        &self,
        item: C::Item,
        deadline: Instant,
        answered: impl FnOnce(&Answered<C::Reply>) + Send + 'static,
    ) -> UnderWay<C::Reply> {
        let (waiting, under_way) = Waiting::<C>::new(item, deadline, answered);
        let Waiting { item, caller } = waiting;
        let shared = Arc::clone(&self.shared);
        self.shared.runner.spawn(async move {
            let answers = shared.kind.carry_out(&shared.runner, vec![item], deadline).await;
            answers.into_iter().zip([caller]).for_each(|(answer, caller)| caller.answer(answer));
        });
        under_way
    }
}

impl<C: Combine> Waiting<C> {
    fn new(
        item: C::Item,
        deadline: Instant,
        answered: impl FnOnce(&Answered<C::Reply>) + Send + 'static,
    ) -> (Waiting<C>, UnderWay<C::Reply>) {
        let (sender, under_way) = UnderWay::pair();
        let caller = Caller { deadline, answered: Box::new(answered), sender };
        (Waiting { item, caller }, under_way)
    }
}

impl<C: Combine> Shared<C> {
    fn state(&self) -> MutexGuard<'_, State<C>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn go(shared: &Arc<Shared<C>>, together: Vec<Waiting<C>>) {
        let all = Arc::clone(shared);
        let next = Next { shared: Arc::clone(shared), calls: together.len() };
        shared.runner.spawn(async move {
            // Whose time was over while it waited has sent nothing.
            let now = clock::now();
            let (going, late): (Vec<_>, Vec<_>) =
                together.into_iter().partition(|it| now < it.caller.deadline);
            late.into_iter().for_each(|it| it.caller.answer(Err(NO_ANSWER)));
            let (items, callers): (Vec<_>, Vec<_>) =
                going.into_iter().map(|it| (it.item, it.caller)).unzip();
            all.carry_out(items, callers, next).await;
        });
    }

    async fn carry_out(
        self: Arc<Shared<C>>,
        items: Vec<C::Item>,
        callers: Vec<Caller<C::Reply>>,
        next: Next<C>,
    ) {
        let Some(deadline) = callers.iter().map(|caller| caller.deadline).max() else {
            return;
        };
        let answers = self.kind.carry_out(&self.runner, items, deadline);
        tokio::pin!(answers);
        let in_time = clock::before(clock::now().after(PATIENCE), &mut answers).await;
        drop(next);
        let answers = match in_time {
            Some(answers) => answers,
            None => answers.await,
        };
        debug_assert_eq!(answers.len(), callers.len(), "an answer for each");
        callers.into_iter().zip(answers).for_each(|(caller, answer)| caller.answer(answer));
    }

    /// Those go now who wait, if they may.
    fn go_next(shared: &Arc<Shared<C>>) {
        let mut state = shared.state();
        let waiting = state.waiting.len();
        let go = state.company.go(waiting);
        let together: Vec<_> = state.waiting.drain(..go).collect();
        drop(state);
        if !together.is_empty() {
            Shared::go(shared, together);
        }
    }
}

/// Lets those go who wait for a command with so many calls, when it is dropped.
struct Next<C: Combine> {
    shared: Arc<Shared<C>>,
    calls: usize,
}

impl<C: Combine> Drop for Next<C> {
    fn drop(&mut self) {
        self.shared.state().company.came_back(self.calls);
        Shared::go_next(&self.shared);
    }
}

#[cfg(test)]
mod tests;
