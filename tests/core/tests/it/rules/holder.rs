use std::time::Duration;

use mongo_lease_core::rules::holder::{HoldAction, HoldEvent, HoldOptions, Holder, Loss};
use mongo_lease_core::rules::time::Instant;
use mongo_lease_core::rules::timing::Timing;

const RENEWS: HoldOptions = HoldOptions { renews: true, max_hold: None };

fn timing() -> Timing {
    Timing::new(Duration::from_secs(30), Duration::from_secs(1), None).unwrap()
}

fn at(seconds: u64) -> Instant {
    Instant::START.after(Duration::from_secs(seconds))
}

fn retry() -> Duration {
    Duration::from_secs(1)
}

/// Sends each event, at its second, to a holder granted at 0. Returns the answers.
fn answers(options: HoldOptions, events: &[(u64, HoldEvent)]) -> Vec<HoldAction> {
    let mut holder = Holder::granted(&timing(), options, at(0));
    events.iter().map(|&(second, event)| holder.on(&timing(), at(second), event)).collect()
}

#[test]
fn a_renewal_is_sent_at_a_third_of_the_ttl_and_counts_from_then() {
    let mut holder = Holder::granted(&timing(), RENEWS, at(0));
    assert_eq!(holder.on(&timing(), at(9), HoldEvent::Timer), HoldAction::WakeAt(at(10)));
    assert_eq!(holder.on(&timing(), at(10), HoldEvent::Timer), HoldAction::Renew { alone: false });
    let next = holder.on(&timing(), at(14), HoldEvent::Renewed(at(10)));
    assert_eq!(next, HoldAction::WakeAt(at(20)));
    assert_eq!(holder.valid_until(), at(10).after(timing().validity()));
}

/// The reply names the moment of sending in whole microseconds.
#[test]
fn a_renewal_is_confirmed_though_it_was_due_within_a_microsecond() {
    let mut holder = Holder::granted(&timing(), RENEWS, at(0));
    let due = at(10).after(Duration::from_nanos(999));
    assert_eq!(holder.on(&timing(), due, HoldEvent::Timer), HoldAction::Renew { alone: false });
    let next = holder.on(&timing(), at(11), HoldEvent::Renewed(due.whole_micros()));
    assert_eq!(next, HoldAction::WakeAt(at(20)));
}

#[test]
fn a_late_renewal_reply_does_not_shorten_the_validity() {
    let mut holder = Holder::granted(&timing(), RENEWS, at(0));
    let renewed = |holder: &mut Holder, now, sent| {
        holder.on(&timing(), at(now), HoldEvent::Renewed(at(sent)))
    };
    assert_eq!(renewed(&mut holder, 16, 15), HoldAction::WakeAt(at(25)));
    assert_eq!(renewed(&mut holder, 17, 10), HoldAction::WakeAt(at(25)));
    assert_eq!(holder.valid_until(), at(15).after(timing().validity()));
}

#[test]
fn a_hanging_renewal_is_sent_again_and_does_not_delay_the_loss() {
    let next = answers(
        RENEWS,
        &[
            (10, HoldEvent::Timer),
            (15, HoldEvent::Timer),
            (20, HoldEvent::Timer),
            (25, HoldEvent::Timer),
            (30, HoldEvent::Timer),
            (31, HoldEvent::Timer),
        ],
    );
    let renew = HoldAction::Renew { alone: false };
    let lost = HoldAction::Lost(Loss::OutOfReach(at(10)));
    assert_eq!(next, [renew, renew, renew, renew, lost, HoldAction::Nothing]);
}

#[test]
fn a_confirmation_that_comes_after_the_end_is_too_late() {
    let mut holder = Holder::granted(&timing(), RENEWS, at(0));
    assert!(holder.is_valid(at(29)));
    assert!(!holder.is_valid(at(30)));
    let next = holder.on(&timing(), at(30), HoldEvent::Renewed(at(20)));
    assert_eq!(next, HoldAction::Lost(Loss::NotRenewed));
    assert!(!holder.is_valid(at(0)), "a loss is final");
}

#[test]
fn a_failed_renewal_is_tried_again_after_its_delay() {
    let failed = HoldEvent::RenewalFailed { sent: at(10), retry_after: retry() };
    let next = answers(RENEWS, &[(10, HoldEvent::Timer), (11, failed), (12, HoldEvent::Timer)]);
    let renew = HoldAction::Renew { alone: false };
    assert_eq!(next, [renew, HoldAction::WakeAt(at(12)), renew]);
}

#[test]
fn a_failed_older_renewal_does_not_disturb_the_pending_one() {
    let failed = HoldEvent::RenewalFailed { sent: at(10), retry_after: retry() };
    let next = answers(RENEWS, &[(10, HoldEvent::Timer), (15, HoldEvent::Timer), (16, failed)]);
    assert_eq!(next[2], HoldAction::WakeAt(at(20)));
}

#[test]
fn the_server_saying_that_it_is_not_ours_is_a_loss_at_once() {
    let next = answers(RENEWS, &[(1, HoldEvent::NotOurs), (2, HoldEvent::Renewed(at(1)))]);
    assert_eq!(next, [HoldAction::Lost(Loss::NotOurs), HoldAction::Nothing]);
}

#[test]
fn a_lease_without_renewal_ends_as_asked() {
    let options = HoldOptions { renews: false, max_hold: None };
    let next = answers(options, &[(20, HoldEvent::Timer), (30, HoldEvent::Timer)]);
    assert_eq!(
        next,
        [
            HoldAction::WakeAt(at(0).after(timing().validity())),
            HoldAction::Lost(Loss::EndedAsAsked)
        ]
    );
}

#[test]
fn a_cap_ends_the_lease_and_its_renewals() {
    let options = HoldOptions { renews: true, max_hold: Some(Duration::from_secs(35)) };
    let next = answers(
        options,
        &[
            (10, HoldEvent::Timer),
            (11, HoldEvent::Renewed(at(10))),
            (20, HoldEvent::Timer),
            (35, HoldEvent::Timer),
        ],
    );
    assert_eq!(
        next,
        [
            HoldAction::Renew { alone: false },
            HoldAction::WakeAt(at(35)),
            HoldAction::WakeAt(at(35)),
            HoldAction::Lost(Loss::EndedAsAsked),
        ]
    );
}

/// A process that is stopped for longer than the ttl, by what it was to do next.
#[test]
fn only_a_pause_past_an_asked_end_is_an_end_as_asked() {
    let capped = |seconds| HoldOptions { max_hold: Some(Duration::from_secs(seconds)), ..RENEWS };
    let once = HoldOptions { renews: false, max_hold: None };
    let sent = [(10, HoldEvent::Timer)];
    let renewed = [sent[0], (11, HoldEvent::Renewed(at(10)))];
    let retry_after = retry();
    let failed = [sent[0], (11, HoldEvent::RenewalFailed { sent: at(10), retry_after })];
    let out_of_reach = Loss::OutOfReach(at(10));
    let table: [(_, &[_], _); 9] = [
        (RENEWS, &[], Loss::NotRenewed),
        (RENEWS, &renewed, Loss::NotRenewed),
        (RENEWS, &sent, out_of_reach),
        (RENEWS, &failed, out_of_reach),
        (once, &[], Loss::EndedAsAsked),
        // It would have lasted for longer.
        (capped(60), &[], Loss::NotRenewed),
        (capped(60), &renewed, Loss::NotRenewed),
        // The newest confirmed renewal is enough for all of its time.
        (capped(25), &[], Loss::EndedAsAsked),
        (capped(35), &renewed, Loss::EndedAsAsked),
    ];
    for (options, before, loss) in table {
        let events = [before, &[(1_000, HoldEvent::Timer)]].concat();
        let next = answers(options, &events);
        assert_eq!(next.last(), Some(&HoldAction::Lost(loss)), "{options:?} {before:?}");
    }
}

#[test]
fn a_guarded_lease_renews_alone_until_a_later_renewal_succeeds() {
    let mut holder = Holder::granted(&timing(), RENEWS, at(0));
    let mut on = |second, event| holder.on(&timing(), at(second), event);
    assert_eq!(on(10, HoldEvent::Timer), HoldAction::Renew { alone: false });
    assert_eq!(on(11, HoldEvent::Guarded), HoldAction::WakeAt(at(15)));
    assert_eq!(on(12, HoldEvent::Renewed(at(10))), HoldAction::WakeAt(at(20)));
    assert_eq!(on(20, HoldEvent::Timer), HoldAction::Renew { alone: true });
    assert_eq!(on(21, HoldEvent::Renewed(at(20))), HoldAction::WakeAt(at(30)));
    assert_eq!(on(30, HoldEvent::Timer), HoldAction::Renew { alone: false });
}

/// Others may have grants in the same document.
#[test]
fn a_later_write_to_its_document_ends_renewing_alone() {
    let mut holder = Holder::granted(&timing(), RENEWS, at(0));
    let mut on = |second, event| holder.on(&timing(), at(second), event);
    assert_eq!(on(1, HoldEvent::Guarded), HoldAction::WakeAt(at(10)));
    // Sent before the guard, it says nothing of the transaction.
    let earlier = HoldEvent::DocumentWritten(at(0));
    assert_eq!(on(2, earlier), HoldAction::WakeAt(at(10)));
    assert_eq!(on(10, HoldEvent::Timer), HoldAction::Renew { alone: true });
    // The lease itself is not renewed by it: that is still due.
    let later = HoldEvent::DocumentWritten(at(9));
    assert_eq!(on(11, later), HoldAction::WakeAt(at(15)));
    assert_eq!(on(15, HoldEvent::Timer), HoldAction::Renew { alone: false });
}

#[test]
fn a_late_failure_after_a_newer_renewal_does_not_delay_the_loss() {
    let failed = HoldEvent::RenewalFailed { sent: at(10), retry_after: retry() };
    let next = answers(
        RENEWS,
        &[
            (10, HoldEvent::Timer),
            (15, HoldEvent::Timer),
            (16, HoldEvent::Renewed(at(15))),
            (17, failed),
            (25, HoldEvent::Timer),
            (45, HoldEvent::Timer),
        ],
    );
    assert_eq!(next[5], HoldAction::Lost(Loss::OutOfReach(at(25))));
}
