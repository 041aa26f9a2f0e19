//! One held lease by a clock that the test puts forward, and why a look at a document calls it lost.

use std::sync::Arc;
use std::time::Duration;

use futures_util::{FutureExt, StreamExt};
use mongo_lease_core::commands::{Command, FindHolders, GrantKey, SharedSnapshot};
use mongo_lease_core::rules::{
    GrantId, HoldAction, HoldEvent, HoldOptions, Instant, Loss, Permits, Timing,
};
use mongodb::bson::{DateTime, Document, doc};

use super::loss::loss_of;
use super::renewals::renewed;
use super::{AgendaKey, Grant, Holding};
use crate::clock::MemoryClock;
use crate::error::LostReason;
use crate::release::ReleaseHint;
use crate::telemetry::{Event, Events};
use crate::token::Token;

const SECOND: Duration = Duration::from_secs(1);
pub(super) const TTL: Duration = Duration::from_secs(30);

/// A lease that is granted now. The value and the grant's id are that of a call of this number.
pub(super) fn granted(
    (name, call): (&str, u32),
    permits: Permits,
    ttl: Duration,
    clock: &MemoryClock,
    events: &Events,
) -> Arc<Holding> {
    let value = call.to_string();
    let grant = Grant {
        key: GrantKey::new(name, &value, &GrantId::from(&*format!("{value}.1"))),
        token: Token::from_u64(1),
        timing: Arc::new(Timing::new(ttl, SECOND, None).unwrap()),
        hold_options: HoldOptions { renews: true, max_hold: None },
        hold_at_least: None,
        sent: clock.now(),
        term: None,
        permits,
        hint: ReleaseHint::Alone,
        expires_at: chrono::DateTime::default(),
        call: None,
    };
    Arc::new(Holding::new(grant, events.clone(), clock.clone().into()))
}

/// The leases as a read of these documents shows them.
pub(super) fn seen(documents: Vec<Document>) -> Vec<SharedSnapshot> {
    let reply = doc! { "cursor": { "firstBatch": documents } };
    FindHolders { grants: Vec::new() }.decode(&reply, Instant::START).unwrap()
}

fn exclusive(clock: &MemoryClock) -> Arc<Holding> {
    granted(("a", 1), Permits::EXCLUSIVE, TTL, clock, &Events::new())
}

/// A lease whose first renewal is under way, and when that was sent.
fn under_renewal(clock: &MemoryClock) -> (Arc<Holding>, Instant) {
    let lease = exclusive(clock);
    clock.advance(lease.timing.renew_after);
    assert_eq!(lease.on(HoldEvent::Timer, None), HoldAction::Renew { alone: false });
    (lease, clock.now())
}

#[tokio::test(start_paused = true)]
async fn a_released_lease_has_no_time_left_and_is_not_called_renewed() {
    let (clock, events) = (MemoryClock::new(), Events::new());
    let mut heard = Box::pin(events.listen());
    let lease = granted(("a", 1), Permits::EXCLUSIVE, TTL, &clock, &events);
    let member = (AgendaKey(1), Arc::clone(&lease));
    let _ = renewed(&member, clock.now());
    let event = heard.next().now_or_never().flatten();
    assert!(matches!(event, Some(Event::Renewed { .. })), "{event:?}");
    assert_eq!(lease.remaining(), lease.timing.validity());
    assert!(lease.end());
    // The answer has come behind the release.
    let _ = renewed(&member, clock.now());
    assert_eq!(heard.next().now_or_never(), None);
    assert_eq!(lease.remaining(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn a_renewal_is_awaited_until_it_is_answered_or_its_time_is_over() {
    let failed = |sent| HoldEvent::RenewalFailed { sent, retry_after: SECOND };
    let answers = [HoldEvent::Renewed, HoldEvent::Applied, failed, |_| HoldEvent::NotOurs];
    for answer in answers {
        let clock = MemoryClock::new();
        let (lease, sent) = under_renewal(&clock);
        let mut wait = Box::pin(lease.no_renewal_under_way());
        assert_eq!(wait.as_mut().now_or_never(), None);
        let _ = lease.on(HoldEvent::Timer, None);
        assert_eq!(wait.as_mut().now_or_never(), None, "a timer answers nothing");
        let answer = answer(sent);
        let _ = lease.on(answer, None);
        assert_eq!(wait.now_or_never(), Some(()), "{answer:?}");
    }
    let clock = MemoryClock::new();
    let (lease, _) = under_renewal(&clock);
    let mut wait = Box::pin(lease.no_renewal_under_way());
    assert_eq!(wait.as_mut().now_or_never(), None);
    clock.advance(lease.timing.attempt_timeout);
    assert_eq!(wait.now_or_never(), Some(()));
}

/// A process that stood still would have lost the lease without its transaction too.
#[tokio::test(start_paused = true)]
async fn a_transaction_has_outlived_a_lease_whose_renewals_failed() {
    for stood_still in [false, true] {
        let clock = MemoryClock::new();
        let (lease, _) = under_renewal(&clock);
        let step = if stood_still { TTL } else { SECOND };
        let loss = loop {
            clock.advance(step);
            if let HoldAction::Lost(loss) = lease.on(HoldEvent::Timer, None) {
                break loss;
            }
        };
        assert_eq!(matches!(loss, Loss::NotRenewed(_)), stood_still, "{loss:?}");
        assert!(!lease.was_outlived(), "no transaction was open");
        lease.outlived();
        assert_eq!(lease.was_outlived(), !stood_still);
    }
}

#[tokio::test(start_paused = true)]
async fn a_lease_knows_what_its_next_transaction_does_first() {
    let lease = exclusive(&MemoryClock::new());
    for first in [true, false] {
        lease.guard_first(first);
        assert_eq!(lease.guards_first(), first);
    }
}

#[test]
fn a_document_shows_why_a_grant_is_not_there() {
    let (own, other) = (format!("{0}-{0}", "0123456789abcdef"), "another");
    let (first, second) = (format!("{own}.1"), format!("{own}.2"));
    let by = |owner: Option<&str>| Some(LostReason::TakenOver { by: owner.map(str::to_owned) });
    let (removed, resumed) = (Some(LostReason::Removed), Some(LostReason::Resumed));
    // The grant that is looked for, the value and the grant in the document, and the reason.
    let table = [
        (&*first, &*own, Some(&*first), None),
        (&first, "released:1", None, removed.clone()),
        (&first, other, None, by(None)),
        (&first, other, Some("another.1"), by(Some("x"))),
        // A lease that was granted to the same value once more is not the one that is looked for.
        (&first, &own, Some(&second), removed.clone()),
        (&first, &own, Some("another.0"), resumed),
        // Nobody has resumed the lease of a key that was made up.
        ("made up", &own, Some("another.0"), removed.clone()),
        (&first, &own, None, removed.clone()),
    ];
    for (id, value, found, reason) in table {
        let key = GrantKey::new("a", &own, &GrantId::from(id));
        let grant = found.map(|id| doc! { "value": value, "id": id, "owner": "x" });
        let document = doc! {
            "name": "a",
            "value": value,
            "expiresAt": DateTime::from_millis(1),
            "grant": grant,
            "now": DateTime::from_millis(0),
        };
        let seen = seen(vec![document]).remove(0);
        assert_eq!(loss_of(&key, Some(&seen.lease)), reason, "{id} {value} {found:?}");
        assert_eq!(loss_of(&key, None), removed);
    }
}
