//! The registry without its tasks: what a change stream may have missed, the signals of calls, and due heartbeats.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use mongo_lease_core::commands::{AcquireRequest, Promotion};
use mongo_lease_core::rules::{GrantId, Instant, ManagerId, Permits, Timing};
use mongodb::bson::{Document, Timestamp};
use tokio_util::sync::CancellationToken;

use super::{Signal, Stream, WaiterGuard, Waiters};
use crate::hints::Hints;
use crate::memory::MemoryStore;
use crate::release::Releaser;
use crate::release::background::BackgroundReleaser;
use crate::release::call_state::CallState;
use crate::runner::{Backend, Runner};
use crate::token::Token;

/// A time of the oplog.
fn token(number: u64) -> Option<Token> {
    Some(Token::from_u64(number))
}

fn at(micros: u64) -> Instant {
    Instant::from_micros(micros)
}

#[test]
fn a_stream_may_have_missed_whoever_joined_before_its_start() {
    let open = |since| Stream::Open { since, opened: at(10) };
    let wanted = |since| Stream::Wanted { since };
    // The stream, when the attempt was sent, when it joined, and whether its promotion may have been missed.
    let table = [
        (wanted(token(5)), 9, token(4), true),
        (wanted(token(5)), 9, token(5), false),
        (wanted(token(5)), 9, token(6), false),
        (wanted(token(5)), 9, None, true),
        (open(token(5)), 9, token(4), true),
        (open(token(5)), 9, token(5), false),
        (open(token(5)), 9, token(6), false),
        (open(token(5)), 9, None, true),
        // It was sent after the stream had opened.
        (open(token(5)), 10, token(4), false),
        (open(token(5)), 11, token(4), false),
        // A stream with an unknown start shows for certain only what comes after it has opened.
        (open(None), 9, token(6), true),
        (open(None), 9, None, true),
        (open(None), 10, token(6), false),
        (open(None), 11, None, false),
    ];
    for (stream, sent, joined, wanted) in table {
        let case = format!("{stream:?}, sent at {sent}, joined at {joined:?}");
        assert_eq!(stream.may_have_missed(at(sent), joined), wanted, "{case}");
    }
}

/// No waiter relies on these.
#[test]
fn a_stream_that_reports_nothing_has_missed_nothing() {
    for stream in [Stream::Closed, Stream::Absent, Stream::Wanted { since: None }] {
        for joined in [None, token(1), token(9)] {
            assert!(!stream.may_have_missed(at(9), joined), "{stream:?} {joined:?}");
        }
    }
}

/// Registers calls that wait for leases.
struct Calls {
    background: BackgroundReleaser,
    waiters: Waiters,
}

/// How long an entry lasts: a heartbeat is due after 2 s, and may go along with one that is due a second earlier.
const LIFE: Duration = Duration::from_secs(6);

impl Calls {
    fn new() -> Calls {
        let runner = Runner::new(Backend::Memory(MemoryStore::new()), "locks", 9).unwrap();
        let hints = Hints::new(false, runner.clock());
        let releaser = Releaser::new(&runner, false, &hints.blocked);
        let background = BackgroundReleaser::start(&runner, releaser);
        Calls { background, waiters: Waiters::new(LIFE) }
    }

    /// A call that has not joined a queue yet.
    fn register(&self, name: &str) -> WaiterGuard {
        let call_id = ManagerId::new("manager".to_owned()).call(name);
        let request = AcquireRequest {
            name: name.to_owned(),
            value: call_id.to_string(),
            call_id,
            owner: "owner".into(),
            metadata: Document::new(),
            permits: Permits::EXCLUSIVE,
            timing: Arc::new(Timing::new(5 * LIFE, LIFE / 6, None).unwrap()),
            has_oplog: true,
            joins: None,
        };
        let (background, closing) = (self.background.clone(), CancellationToken::new());
        let call = CallState::new(Arc::new(request), background, closing);
        self.waiters.register(call, Instant::FAR_FUTURE)
    }

    /// A call whose attempt was sent after so many milliseconds, and has joined a queue.
    fn queued(&self, name: &str, sent_ms: u64) -> WaiterGuard {
        let guard = self.register(name);
        guard.joined_queue(at(sent_ms * 1_000), token(sent_ms));
        guard
    }

    /// Whether the heartbeat task is woken.
    fn is_woken(&self) -> bool {
        self.waiters.sooner().now_or_never().is_some()
    }
}

fn heard(guard: &WaiterGuard) -> Option<Signal> {
    guard.signal().now_or_never()
}

#[tokio::test]
async fn a_promotion_counts_more_than_a_recheck() {
    let calls = Calls::new();
    let promotion = Promotion {
        grant_id: GrantId::from("call.1"),
        sent: at(1),
        token: Timestamp { time: 1, increment: 1 },
        expires_at: None,
    };
    let (recheck, promoted) = (Signal::Recheck, Signal::Promoted(promotion.clone()));
    // The signals that come, and the one that is heard.
    let table = [
        (vec![], None),
        (vec![&recheck], Some(&recheck)),
        (vec![&promoted], Some(&promoted)),
        (vec![&recheck, &promoted], Some(&promoted)),
        (vec![&promoted, &recheck], Some(&promoted)),
    ];
    for (signals, wanted) in table {
        let signalled = || {
            let guard = calls.register("a");
            signals.iter().for_each(|&signal| guard.slot.signal(signal.clone()));
            guard
        };
        assert_eq!(heard(&signalled()).as_ref(), wanted, "{signals:?}");
        // While an attempt is under way, only a promotion counts.
        let guard = signalled();
        let is_promoted = wanted == Some(&promoted);
        assert_eq!(guard.promotion().now_or_never().is_some(), is_promoted, "{signals:?}");
        assert_eq!(heard(&guard).as_ref(), wanted.filter(|_| !is_promoted), "{signals:?}");
        // The attempt that begins is what the recheck asked for.
        let guard = signalled();
        guard.clear_recheck();
        assert_eq!(heard(&guard).as_ref(), wanted.filter(|_| is_promoted), "{signals:?}");
    }
}

#[tokio::test]
async fn calls_in_a_queue_look_again_when_the_stream_ends_and_when_it_is_there_again() {
    let calls = Calls::new();
    let waiters = &calls.waiters;
    assert!(!waiters.has_stream() && !waiters.has_queued());
    let (outside, queued) = (calls.register("outside"), calls.queued("queued", 5));
    assert!(waiters.has_stream() && waiters.has_queued(), "from now on one is wanted");
    waiters.stream_is_open(token(5), at(9_000));
    assert_eq!(heard(&queued), None, "it has shown everything since the call joined");
    waiters.stream_is_gone();
    assert!(!waiters.has_stream());
    assert_eq!(heard(&queued), Some(Signal::Recheck));
    waiters.stream_is_open(None, at(10_000));
    assert!(waiters.has_stream());
    assert_eq!(heard(&queued), Some(Signal::Recheck));
    assert_eq!(heard(&outside), None, "it looks at the stream when it joins");
    outside.joined_queue(at(9_999), None);
    assert_eq!(heard(&outside), Some(Signal::Recheck));
    waiters.disable_stream();
    assert!(!waiters.has_stream());
    drop((outside, queued));
    assert!(!waiters.has_queued());
}

#[tokio::test]
async fn heartbeats_that_are_nearly_due_go_along_with_a_due_one() {
    let calls = Calls::new();
    let due = |now_ms: u64| {
        let (due, wake_at) = calls.waiters.due(at(now_ms * 1_000));
        let names: String = due.iter().map(|slot| slot.name()).collect();
        (names, wake_at.as_micros() / 1_000)
    };
    let _outside = calls.register("o");
    let (a, _b, c) = (calls.queued("a", 0), calls.queued("b", 1_000), calls.queued("c", 1_500));
    assert!(calls.is_woken(), "the first one is due sooner than never");
    assert_eq!(due(1_999), (String::new(), 2_000));
    assert_eq!(due(2_000), ("ab".to_owned(), 3_500));
    // Nothing is due sooner than the task wakes.
    let _d = calls.queued("d", 1_500);
    c.set_deadline(Instant::FAR_FUTURE);
    assert!(!calls.is_woken());
    // One that has failed is sent again sooner, and never later.
    a.slot.heartbeat_by(at(2_100_000));
    a.slot.heartbeat_by(at(9_000_000));
    calls.waiters.look_again();
    assert!(calls.is_woken());
    assert_eq!(due(2_099), (String::new(), 2_100));
    assert_eq!(due(2_100), ("a".to_owned(), 3_500));
}
