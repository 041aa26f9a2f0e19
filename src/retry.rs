//! Retries a command until it is answered or the caller's deadline passes.
//!
//! When an attempt takes too long, another one is sent beside it, and the first goes on: driver futures are never
//! dropped. So this is only for commands that may be applied twice. The answer includes what is known of the earlier
//! attempts.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use crate::batch::alone::Alone;
use crate::clock::{self, Clock};
use crate::commands::Command;
use crate::commands::failure::{Cause, Failure};
use crate::rules::backoff::RETRY;
use crate::rules::outcome::{MAYBE_APPLIED, Then};
use crate::rules::time::Instant;
use crate::runner::{AttemptLimits, AttemptResult, Earlier, NO_ANSWER, Pending, Runner};

/// The time limits of a command and of each of its attempts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RetryPolicy {
    /// After this time another attempt is sent beside the pending one.
    pub(crate) attempt: Duration,
    /// The caller gets an answer at this moment at the latest.
    pub(crate) deadline: Instant,
}

impl RetryPolicy {
    /// A limit of one attempt's time from now. Within it, a failed attempt is repeated.
    pub(crate) fn one_attempt(now: Instant, attempt: Duration) -> RetryPolicy {
        RetryPolicy { attempt, deadline: now.after(attempt) }
    }

    /// A limit of two attempts' time from now.
    pub(crate) fn two_attempts(now: Instant, attempt: Duration) -> RetryPolicy {
        RetryPolicy { attempt, deadline: now.after(attempt * 2) }
    }

    /// The deadline of an attempt that starts now.
    pub(crate) fn attempt_deadline(&self, now: Instant) -> Instant {
        now.after(self.attempt).min(self.deadline)
    }
}

/// The reply to a command, and what is known of its earlier attempts.
#[derive(Clone, Debug)]
pub(crate) struct Answer<T> {
    pub(crate) reply: T,
    pub(crate) earlier: Earlier,
}

/// Runs a command until it is answered. Repeats it after failures that allow that.
pub(crate) async fn run<C: Command + Clone>(
    runner: &Runner,
    command: C,
    policy: RetryPolicy,
) -> AttemptResult<Answer<C::Reply>> {
    let attempt = |deadline| runner.start(command.clone(), deadline, |_| ());
    until_answered(runner.clock(), policy, attempt).await
}

/// Runs a command on one document until it is answered.
pub(crate) async fn run_alone<C: Command + Clone>(
    alone: &Alone,
    name: &str,
    command: C,
    policy: RetryPolicy,
) -> AttemptResult<Answer<C::Reply>> {
    let attempt = |deadline| alone.start(name, command.clone(), deadline, |_| true, |_| ());
    until_answered(alone.clock(), policy, attempt).await
}

/// Runs a command on many documents. A failure because one of them is held up is not retried: the caller then splits
/// the batch.
pub(crate) async fn run_batch<C: Command + Clone>(
    runner: &Runner,
    command: C,
    policy: RetryPolicy,
    is_held_up: bool,
) -> AttemptResult<C::Reply> {
    let attempt = |deadline: Instant| {
        let limits = AttemptLimits { is_held_up, ..AttemptLimits::from(deadline) };
        runner.start(command.clone(), limits, |_| ())
    };
    Ok(until(runner.clock(), policy, attempt, Failure::is_held_up).await?.reply)
}

/// Runs a command once, and returns its first answer of any kind. For callers that query the database before they
/// repeat a command.
pub(crate) async fn run_once<C: Command>(
    runner: &Runner,
    command: C,
    deadline: Instant,
) -> AttemptResult<C::Reply> {
    let unanswered = Failure { outcome: MAYBE_APPLIED, cause: Cause::Deadline };
    let answer = runner.start(command, deadline, |_| ());
    runner.clock().before(deadline, answer).await.unwrap_or(Err(unanswered))
}

/// Starts attempts until one is answered. `attempt` starts one attempt with the given deadline.
pub(crate) fn until_answered<T>(
    clock: &Clock,
    policy: RetryPolicy,
    attempt: impl FnMut(Instant) -> Pending<T>,
) -> impl Future<Output = AttemptResult<Answer<T>>> {
    until(clock, policy, attempt, |_| false)
}

/// Like [`until_answered`], but a failure for which `ends` is true is not retried.
async fn until<T>(
    clock: &Clock,
    policy: RetryPolicy,
    mut attempt: impl FnMut(Instant) -> Pending<T>,
    ends: fn(&Failure) -> bool,
) -> AttemptResult<Answer<T>> {
    // A few at most, in a list: `FuturesUnordered` wakes its task after each poll, which makes the task poll again.
    let mut under_way = Vec::new();
    // Made at the first failure, as most commands have none.
    let mut delays = None;
    let mut earlier = Earlier::NotApplied;
    let mut last = NO_ANSWER;
    let mut next_attempt_at = Instant::START;
    loop {
        let now = clock.now();
        if now >= next_attempt_at {
            next_attempt_at = now.after(policy.attempt);
            under_way.push(attempt(next_attempt_at.min(policy.deadline)));
        }
        let wake_at = next_attempt_at.min(policy.deadline);
        // With no attempt in progress no answer can come: then only the time counts.
        let heard = poll_fn(|context| first_answer(&mut under_way, context));
        match clock.before(wake_at, heard).await {
            Some(Ok(reply)) => {
                if !under_way.is_empty() {
                    earlier = Earlier::Unanswered;
                }
                return Ok(Answer { reply, earlier });
            }
            Some(Err(failure)) => {
                earlier = earlier.max(Earlier::of(&failure));
                let maybe_applied = earlier > Earlier::NotApplied || !under_way.is_empty();
                if failure.outcome.then != Then::Retry || ends(&failure) {
                    return Err(failure.or_maybe(maybe_applied));
                }
                last = failure;
                let delays = delays.get_or_insert_with(|| Box::new(clock::jittered(RETRY)));
                let delay = delays.next().unwrap_or(RETRY.longest);
                next_attempt_at = next_attempt_at.min(clock.now().after(delay));
            }
            None if clock.now() >= policy.deadline => {
                let maybe_applied = earlier > Earlier::NotApplied || !under_way.is_empty();
                return Err(last.or_maybe(maybe_applied));
            }
            None => {}
        }
    }
}

/// Polls the attempts in progress, the newest one last. Takes out the first that is answered.
fn first_answer<T>(
    under_way: &mut Vec<Pending<T>>,
    context: &mut Context<'_>,
) -> Poll<AttemptResult<T>> {
    for place in 0..under_way.len() {
        if let Poll::Ready(answer) = Pin::new(&mut under_way[place]).poll(context) {
            under_way.remove(place);
            return Poll::Ready(answer);
        }
    }
    Poll::Pending
}
