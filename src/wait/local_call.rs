//! One call in a local queue: whether it has its turn, and whether it is polled when it is woken.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use futures_util::task::AtomicWaker;
use pin_project_lite::pin_project;

use crate::lock::Lock;
use crate::release::call_state::CallState;

/// A call waits for an event that has not come.
const ASLEEP: u8 = 0;
/// It has been woken since its last poll.
const WOKEN: u8 = 1;
/// It was found woken before, and has not been polled since.
const FOUND_WOKEN: u8 = 2;

/// One call in a local queue, and whether it is polled when it is woken.
pub(super) struct LocalCall {
    pub(super) number: AtomicU64,
    pub(super) has_turn: AtomicBool,
    /// `ASLEEP`, `WOKEN` or `FOUND_WOKEN`.
    wake: AtomicU8,
    task: AtomicWaker,
    /// The cleanups of the active call's queue entries.
    pub(super) entries: Lock<Vec<Arc<CallState>>>,
}

impl LocalCall {
    pub(super) fn new() -> LocalCall {
        LocalCall {
            number: AtomicU64::new(u64::MAX),
            has_turn: AtomicBool::new(false),
            wake: AtomicU8::new(ASLEEP),
            task: AtomicWaker::new(),
            entries: Lock::default(),
        }
    }

    pub(super) fn number(&self) -> u64 {
        self.number.load(Ordering::Relaxed)
    }

    pub(super) fn has_turn(&self) -> bool {
        self.has_turn.load(Ordering::Acquire)
    }

    /// Notes that the call is polled by the task of this waker. Must come before the poll looks for any event: an event
    /// before this wakes nobody, one after it wakes this task.
    pub(super) fn polled(&self, task: &Waker) {
        self.task.register(task);
        self.wake.store(ASLEEP, Ordering::Release);
    }

    /// Whether the call was woken when this was asked the last time, and has not been polled since.
    pub(super) fn is_unpolled(&self) -> bool {
        let found = (Ordering::AcqRel, Ordering::Acquire);
        let before = self.wake.compare_exchange(WOKEN, FOUND_WOKEN, found.0, found.1);
        before == Err(FOUND_WOKEN)
    }
}

impl Wake for LocalCall {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.wake.fetch_max(WOKEN, Ordering::AcqRel);
        self.task.wake();
    }
}

pin_project! {
    /// Polls the future while its call is active. Resolves to `None` when the call has lost its turn.
    pub(crate) struct WhileActive<F> {
        #[pin]
        future: F,
        place: Arc<LocalCall>,
        waker: Waker,
    }
}

impl<F: Future> Future for WhileActive<F> {
    type Output = Option<F::Output>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<F::Output>> {
        let this = self.project();
        this.place.polled(context.waker());
        if !this.place.has_turn() {
            return Poll::Ready(None);
        }
        this.future.poll(&mut Context::from_waker(this.waker)).map(Some)
    }
}

pub(crate) struct Turn(pub(super) Arc<LocalCall>);

impl Turn {
    /// Runs the future until this turn is lost.
    pub(crate) fn run<F: Future>(self, future: F) -> WhileActive<F> {
        WhileActive { future, waker: Waker::from(Arc::clone(&self.0)), place: self.0 }
    }
}
