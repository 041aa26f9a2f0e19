//! Retries a command until it is answered or the caller's deadline passes.
//!
//! An attempt begins when its command is sent. While it waits in this process, for its batch or for a slot, no other
//! one is started. When an attempt that was sent takes too long, another one is sent beside it, and the first goes on.
//! So this is only for commands that may be applied twice. The answer includes what is known of the earlier attempts.

#[cfg(test)]
mod tests;

use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use mongo_lease_core::rules::{Advice, Instant, RETRY};

use crate::batch::single::SingleSender;
use crate::clock::Clock;
use crate::failure::{Failure, NOT_DRIVEN, NOT_SENT, UNANSWERED};
use crate::mistake::{Mistake, is_made};
use crate::runner::{
    AppliedResult, AttemptLimits, AttemptResult, AttemptTime, BackendCommand, Pending, PriorEffect,
    Runner,
};

/// The time limits of a command and of each of its attempts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RetryPolicy {
    /// This long after an attempt was sent, another one is sent beside it.
    pub(crate) attempt_timeout: Duration,
    /// The caller gets an answer at this moment at the latest.
    pub(crate) deadline: Instant,
}

impl RetryPolicy {
    /// Within one attempt's time from now, a failed attempt is repeated.
    pub(crate) fn one_attempt(now: Instant, attempt_timeout: Duration) -> RetryPolicy {
        RetryPolicy { attempt_timeout, deadline: now.after(attempt_timeout) }
    }

    pub(crate) fn attempt_time(&self) -> AttemptTime {
        AttemptTime { timeout: self.attempt_timeout, deadline: self.deadline }
    }
}

/// The reply to a command, and what is known of its earlier attempts.
#[derive(Clone, Debug)]
pub(crate) struct Answer<T> {
    pub(crate) reply: T,
    pub(crate) earlier: PriorEffect,
}

/// Runs a command until it is answered. Repeats it after failures that allow that.
pub(crate) async fn run<C: BackendCommand + Clone>(
    runner: &Runner,
    command: C,
    policy: RetryPolicy,
) -> AttemptResult<Answer<C::Reply>> {
    run_unless(runner, command, policy, |_| false).await
}

/// Like [`run`], but a failure for which `ends` is true is not retried.
pub(crate) async fn run_unless<C: BackendCommand + Clone>(
    runner: &Runner,
    command: C,
    policy: RetryPolicy,
    ends: fn(&Failure) -> bool,
) -> AttemptResult<Answer<C::Reply>> {
    let start_attempt = |time| runner.start(command.clone(), time, |_, _| ());
    until_answered(runner.clock(), policy, start_attempt, ends).await
}

/// Runs a command on one document until it is answered.
pub(crate) async fn run_alone<C: BackendCommand + Clone>(
    alone: &SingleSender,
    name: &str,
    command: C,
    policy: RetryPolicy,
) -> AttemptResult<Answer<C::Reply>> {
    let start_attempt = |time| alone.start(name, command.clone(), time, |_| true, |_| ());
    until_answered(alone.runner.clock(), policy, start_attempt, |_| false).await
}

/// Runs a command on many documents until it is applied: the caller has it confirmed. A failure because one of them is
/// blocked is not retried: the caller then splits the batch.
pub(crate) async fn run_batch<C: BackendCommand + Clone>(
    runner: &Runner,
    command: C,
    policy: RetryPolicy,
    is_blocked: bool,
) -> AppliedResult<C::Reply> {
    let start_attempt = |time: AttemptTime| {
        let limits = AttemptLimits { is_blocked, ..AttemptLimits::from(time) };
        runner.start_applied(command.clone(), limits)
    };
    Ok(until_answered(runner.clock(), policy, start_attempt, Failure::is_blocked).await?.reply)
}

/// Runs a command once, and returns its first answer of any kind. For callers that query the database before they
/// repeat a command.
pub(crate) async fn run_once<C: BackendCommand>(
    runner: &Runner,
    command: C,
    deadline: Instant,
) -> AttemptResult<C::Reply> {
    let answer = runner.start(command, AttemptTime::from(deadline), |_, _| ());
    runner.clock().before(deadline, answer).await.unwrap_or(Err(UNANSWERED))
}

/// Starts attempts until one is answered, or fails so that `ends` is true. `attempt` starts one attempt, which has the
/// given time.
pub(crate) async fn until_answered<T>(
    clock: &Clock,
    policy: RetryPolicy,
    start_attempt: impl FnMut(AttemptTime) -> Pending<T>,
    ends: fn(&Failure) -> bool,
) -> AttemptResult<Answer<T>> {
    until_one_is_answered(&mut StartedAttempts::new(), clock, policy, start_attempt, ends).await
}

/// The same for a command that went on in another form, while attempts in the former one may be under way. While one of
/// those is applied, and waits for a majority, no other one is started, and its answer counts. Other answers do not.
pub(crate) async fn until_one_is_answered<T>(
    started: &mut StartedAttempts<T>,
    clock: &Clock,
    policy: RetryPolicy,
    mut start_attempt: impl FnMut(AttemptTime) -> Pending<T>,
    ends: fn(&Failure) -> bool,
) -> AttemptResult<Answer<T>> {
    started.go_on();
    // Made at the first failure, as most commands have none.
    let mut delays = None;
    let mut earlier = PriorEffect::NotApplied;
    let mut last = None;
    let mut next_attempt_at = Instant::START;
    loop {
        let now = clock.now();
        if now >= next_attempt_at {
            next_attempt_at = started.newest_is_over(now, policy.attempt_timeout);
            if now >= next_attempt_at {
                next_attempt_at = now.after(policy.attempt_timeout);
                started.all.push(start_attempt(policy.attempt_time()));
            }
        }
        let wake_at = next_attempt_at.min(policy.deadline);
        // With no attempt in progress no answer can come: then only the time counts.
        let heard = poll_fn(|context| started.first_answer(context));
        match clock.before(wake_at, heard).await {
            Some(Ok(reply)) => {
                if started.may_be_applied() {
                    earlier = PriorEffect::Unanswered;
                }
                return Ok(Answer { reply, earlier });
            }
            Some(Err(failure)) => {
                earlier = earlier.max(PriorEffect::of(&failure));
                if failure.outcome.advice != Advice::Retry || ends(&failure) {
                    let maybe_applied = started.may_be_applied();
                    return Err(
                        failure.or_maybe(earlier > PriorEffect::NotApplied || maybe_applied)
                    );
                }
                last = Some(failure);
                let delays = delays.get_or_insert_with(|| Box::new(clock.jittered(RETRY)));
                let delay = delays.next().unwrap_or(RETRY.longest);
                next_attempt_at = next_attempt_at.min(clock.now().after(delay));
            }
            None if clock.now() >= policy.deadline => {
                let is_sent = started.may_be_applied();
                let silence = match is_sent {
                    true => UNANSWERED,
                    false if started.are_not_driven() => NOT_DRIVEN,
                    false => NOT_SENT,
                };
                let maybe_applied = is_sent || earlier > PriorEffect::NotApplied;
                return Err(last.unwrap_or(silence).or_maybe(maybe_applied));
            }
            None => {}
        }
    }
}

/// The attempts of one command that have no answer yet, the newest one last.
///
/// A few at most, in a list: `FuturesUnordered` wakes its task after each poll, which makes the task poll again.
pub(crate) struct StartedAttempts<T> {
    all: Vec<Pending<T>>,
    /// Those in a former form, which were sent.
    former: Vec<Pending<T>>,
}

impl<T> StartedAttempts<T> {
    pub(crate) fn new() -> StartedAttempts<T> {
        StartedAttempts { all: Vec::new(), former: Vec::new() }
    }

    /// From now on the attempts have another form.
    fn go_on(&mut self) {
        self.former.extend(self.all.drain(..).filter(Pending::was_sent_or_withdraw));
    }

    /// When the time of the newest attempt is over. One that waits in this process has not begun. Where any of them is
    /// applied, and waits for a majority, no other one is started.
    fn newest_is_over(&self, now: Instant, timeout: Duration) -> Instant {
        let mut all = self.all.iter().chain(&self.former);
        if all.any(Pending::is_applied) && !is_made(Mistake::AppliedRepeated) {
            return Instant::FAR_FUTURE;
        }
        match self.all.last() {
            Some(attempt) => attempt.sent_at().unwrap_or(now).after(timeout),
            None => now,
        }
    }

    /// Whether any of them may be applied. Those that were not sent are withdrawn.
    fn may_be_applied(&self) -> bool {
        let of_this_form = self.all.iter().filter(|attempt| attempt.was_sent_or_withdraw());
        of_this_form.count() > 0 || !self.former.is_empty()
    }

    /// Whether no task of the manager has run since the first of them was started.
    fn are_not_driven(&self) -> bool {
        self.all.first().is_some_and(Pending::is_not_driven)
    }

    /// Polls the attempts. Takes out the first that is answered.
    fn first_answer(&mut self, context: &mut Context<'_>) -> Poll<AttemptResult<T>> {
        for place in 0..self.all.len() {
            if let Poll::Ready(answer) = Pin::new(&mut self.all[place]).poll(context) {
                self.all.remove(place);
                return Poll::Ready(answer);
            }
        }
        for place in (0..self.former.len()).rev() {
            if let Poll::Ready(answer) = Pin::new(&mut self.former[place]).poll(context)
                && self.former.remove(place).is_applied()
            {
                return Poll::Ready(answer);
            }
        }
        Poll::Pending
    }
}
