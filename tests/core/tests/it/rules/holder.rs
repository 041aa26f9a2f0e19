use std::time::Duration;

use mongo_lease_core::rules::holder::{HoldAction, HoldEvent, HoldOptions, Holder, Loss};

use super::{SECOND, at, timing};

pub(super) use HoldAction::Lost;
pub(super) use HoldEvent::{DocumentWritten, Guarded, NotOurs, Timer};

pub(super) const RENEWS: HoldOptions = HoldOptions { renews: true, max_hold: None };
pub(super) const ONCE: HoldOptions = HoldOptions { renews: false, max_hold: None };
pub(super) const RENEW: HoldAction = HoldAction::Renew { alone: false };

/// The same options, and the lease ends after so many seconds.
pub(super) fn capped(options: HoldOptions, seconds: u32) -> HoldOptions {
    HoldOptions { max_hold: Some(seconds * SECOND), ..options }
}

pub(super) fn wake(second: u64) -> HoldAction {
    HoldAction::WakeAt(at(second))
}

/// A wake-up at the end of a lease that was renewed at this second.
pub(super) fn end_of(sent: u64) -> HoldAction {
    HoldAction::WakeAt(at(sent).after(timing().validity()))
}

/// The renewal that was sent at this second is confirmed, or fails.
pub(super) fn renewed(sent: u64) -> HoldEvent {
    HoldEvent::Renewed(at(sent))
}

pub(super) fn failed(sent: u64, retry_after: Duration) -> HoldEvent {
    HoldEvent::RenewalFailed { sent: at(sent), retry_after }
}

fn granted(options: HoldOptions) -> Holder {
    Holder::granted(&timing(), options, at(0))
}

/// Sends each event at its second, and fails unless the answer is this one. Returns the holder after that.
#[track_caller]
pub(super) fn assert_answers(
    mut holder: Holder,
    events: &[(u64, HoldEvent, HoldAction)],
) -> Holder {
    for &(second, event, wanted) in events {
        let answer = holder.on(&timing(), at(second), event);
        assert_eq!(answer, wanted, "{event:?} at {second} s, of {events:?}");
    }
    holder
}

/// The reply names the moment of sending in whole microseconds.
#[test]
fn a_renewal_is_confirmed_though_it_was_due_within_a_microsecond() {
    let mut holder = granted(RENEWS);
    let due = at(10).after(Duration::from_nanos(999));
    assert_eq!(holder.on(&timing(), due, Timer), RENEW);
    let confirmed = HoldEvent::Renewed(due.whole_micros());
    assert_answers(holder, &[(11, confirmed, wake(20))]);
}

#[test]
fn a_hanging_renewal_is_sent_again_and_does_not_delay_the_loss() {
    let again = [10, 15, 20, 25].map(|second| (second, Timer, RENEW));
    let lost = Lost(Loss::OutOfReach(at(10)));
    let end = [(30, renewed(25), lost), (31, renewed(30), HoldAction::Nothing)];
    let holder = assert_answers(granted(RENEWS), &[again.as_slice(), &end].concat());
    assert!(!holder.is_valid(at(0)), "a loss is final");
}

#[test]
fn a_failed_renewal_is_tried_again_after_its_delay() {
    let failed = failed(10, SECOND);
    let events = [(10, Timer, RENEW), (11, failed, wake(12)), (12, Timer, RENEW)];
    assert_answers(granted(RENEWS), &events);
    // An older one does not disturb the one in progress.
    let events = [(10, Timer, RENEW), (15, Timer, RENEW), (16, failed, wake(20))];
    assert_answers(granted(RENEWS), &events);
}

#[test]
fn an_older_answer_after_a_newer_renewal_changes_nothing() {
    let events = [
        // The caller's own renewal puts the next one off.
        (2, renewed(1), wake(11)),
        (10, Timer, wake(11)),
        (11, Timer, RENEW),
        (16, Timer, RENEW),
        (17, renewed(16), wake(26)),
        (18, failed(11, SECOND), wake(26)),
        (19, renewed(11), wake(26)),
        (26, Timer, RENEW),
        (45, Timer, RENEW),
        (46, Timer, Lost(Loss::OutOfReach(at(26)))),
    ];
    assert_answers(granted(RENEWS), &events);
}

#[test]
fn a_lease_without_renewal_or_with_a_cap_ends_as_asked() {
    let ended = Lost(Loss::EndedAsAsked);
    assert_answers(granted(ONCE), &[(20, Timer, end_of(0)), (30, Timer, ended)]);
    let events = [
        (10, Timer, RENEW),
        (11, renewed(10), wake(35)),
        (20, Timer, wake(35)),
        (35, Timer, ended),
    ];
    assert_answers(granted(capped(RENEWS, 35)), &events);
}

/// A process that is stopped for longer than the ttl, by what it was to do next.
#[test]
fn only_a_pause_past_an_asked_end_is_an_end_as_asked() {
    let sent = [(10, Timer)];
    let renewed = [sent[0], (11, renewed(10))];
    let failed = [sent[0], (11, failed(10, SECOND))];
    let stood_still_since = |second| Loss::NotRenewed(at(second));
    let table: [(_, &[_], _); 7] = [
        (RENEWS, &[], stood_still_since(10)),
        // It would have sent another one, or tried again.
        (RENEWS, &sent, stood_still_since(15)),
        (RENEWS, &failed, stood_still_since(12)),
        (ONCE, &[], Loss::EndedAsAsked),
        // It would have lasted for longer.
        (capped(RENEWS, 60), &[], stood_still_since(10)),
        // The newest confirmed renewal is enough for all of its time.
        (capped(RENEWS, 25), &[], Loss::EndedAsAsked),
        (capped(RENEWS, 35), &renewed, Loss::EndedAsAsked),
    ];
    for (options, before, loss) in table {
        let mut holder = granted(options);
        for &(second, event) in before {
            let _ = holder.on(&timing(), at(second), event);
        }
        let next = holder.on(&timing(), at(1_000), Timer);
        assert_eq!(next, Lost(loss), "{options:?} {before:?}");
    }
}

/// The longer time decides: that in which the database did not answer, or that in which the process stood still.
#[test]
fn a_pause_after_a_long_outage_is_not_the_cause_of_the_loss() {
    let tries = [10, 15, 20].map(|second| (second, Timer, RENEW));
    let end = |second, loss| {
        assert_answers(granted(RENEWS), &[&tries[..], &[(second, Timer, Lost(loss))]].concat());
    };
    end(30, Loss::OutOfReach(at(10)));
    end(39, Loss::OutOfReach(at(10)));
    end(40, Loss::NotRenewed(at(25)));
}

/// A refusal does not pass, and the end of validity is near: the tries come to an end.
#[test]
fn the_tries_before_the_end_of_validity_are_few() {
    let mut holder = granted(RENEWS);
    let (mut now, mut tries) = (at(10), 0);
    while !matches!(holder.on(&timing(), now, Timer), Lost(_)) {
        tries += 1;
        let refused =
            HoldEvent::RenewalFailed { sent: now.whole_micros(), retry_after: 4 * SECOND };
        let HoldAction::WakeAt(next) = holder.on(&timing(), now, refused) else { panic!("lost") };
        now = next;
    }
    assert!(tries < 22, "{tries}");
}

#[test]
fn a_guarded_lease_renews_alone_until_a_later_renewal_succeeds() {
    let events = [
        (10, Timer, RENEW),
        (11, Guarded, wake(15)),
        (12, renewed(10), wake(20)),
        (20, Timer, HoldAction::Renew { alone: true }),
        (21, renewed(20), wake(30)),
        (30, Timer, RENEW),
    ];
    assert_answers(granted(RENEWS), &events);
}

/// Others may have grants in the same document.
#[test]
fn a_later_write_to_its_document_ends_renewing_alone() {
    let events = [
        (1, Guarded, wake(10)),
        // Sent before the guard, it says nothing of the transaction.
        (2, DocumentWritten(at(0)), wake(10)),
        (10, Timer, HoldAction::Renew { alone: true }),
        // The lease itself is not renewed by it: that is still due.
        (11, DocumentWritten(at(9)), wake(15)),
        (15, Timer, RENEW),
    ];
    assert_answers(granted(RENEWS), &events);
}
