//! Counts the polls of one manager's tasks, so that a call can tell a runtime that stands still.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use pin_project_lite::pin_project;

/// How often the tasks of one manager were polled. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct Polls(Arc<AtomicU64>);

/// The same, since a moment.
#[derive(Clone, Debug)]
pub(crate) struct PollsSince(Polls, u64);

impl Polls {
    fn count(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// From now on.
    pub(crate) fn since_now(&self) -> PollsSince {
        PollsSince(self.clone(), self.0.load(Ordering::Relaxed))
    }
}

impl PollsSince {
    /// Whether no task was polled: nothing drives the runtime, or it stands still.
    pub(crate) fn are_none(&self) -> bool {
        let PollsSince(polls, before) = self;
        polls.0.load(Ordering::Relaxed) == *before
    }
}

pin_project! {
    /// A task whose polls are counted.
    pub(super) struct Counted<F> {
        #[pin]
        pub(super) task: F,
        pub(super) polls: Polls,
    }
}

impl<F: Future> Future for Counted<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let this = self.project();
        this.polls.count();
        this.task.poll(context)
    }
}
