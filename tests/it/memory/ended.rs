//! The commands that releases and shutdowns send, when the database answers at once or not as wished.

use std::fmt::Write;
use std::time::Duration;

use futures_util::future::{join_all, try_join_all};
use mongo_lease::simulated::SimulatedAnswer;
use mongo_lease::{Lease, Released};

use super::manager;
use super::sent::{apart, counted};
use crate::common::assert_done;
use crate::patience::pass;
use crate::permits::queued_by;

const SECOND: Duration = Duration::from_secs(1);

/// Each way in which a command fails, with whether the server has carried it out.
const FAILURES: [(&str, SimulatedAnswer, bool); 7] = [
    ("no primary", SimulatedAnswer::NoPrimary, false),
    ("undone", SimulatedAnswer::NoMajority, false),
    ("late majority", SimulatedAnswer::NoMajority, true),
    ("cut off before", SimulatedAnswer::CutOff, false),
    ("cut off after", SimulatedAnswer::CutOff, true),
    ("request lost", SimulatedAnswer::ConnectionBroke, false),
    ("reply lost", SimulatedAnswer::ConnectionBroke, true),
];

/// The state of the lease, the command that fails and how, the outcome of the release, and all that it sent.
const RELEASES: &str = "\
free: Delete, no primary: Released: 2 Delete
free: Delete, undone: Released: 2 Delete
free: Delete, late majority: Released: Delete, FindWritten
free: Delete, cut off before: Released: 2 Delete
free: Delete, cut off after: Released: 2 Delete, End, FindLeases
free: Delete, request lost: Released: 2 Delete
free: Delete, reply lost: Unknown: 2 Delete, End, FindLeases
shared: End, no primary: Released: Delete, 2 End
shared: End, undone: Released: Delete, 2 End
shared: End, late majority: Released: Delete, End, FindWritten
shared: End, cut off before: Released: Delete, 2 End
shared: End, cut off after: Released: Delete, 2 End, FindLeases
shared: End, request lost: Released: Delete, 2 End
shared: End, reply lost: Unknown: Delete, 2 End, FindLeases
awaited: Delete, no primary: Released: 2 Delete, End
awaited: Delete, undone: Released: 2 Delete, End
awaited: Delete, late majority: Released: Delete, End
awaited: Delete, cut off before: Released: 2 Delete, End
awaited: Delete, cut off after: Released: 2 Delete, End
awaited: Delete, request lost: Released: 2 Delete, End
awaited: Delete, reply lost: Released: 2 Delete, End
awaited: End, no primary: Released: Delete, 2 End
awaited: End, undone: Released: Delete, 2 End
awaited: End, late majority: Released: Delete, End, FindWritten
awaited: End, cut off before: Released: Delete, 2 End
awaited: End, cut off after: Released: Delete, 2 End, FindLeases
awaited: End, request lost: Released: Delete, 2 End
awaited: End, reply lost: Unknown: Delete, 2 End, FindLeases
";

#[tokio::test(start_paused = true)]
async fn a_release_of_which_a_command_fails_sends_what_it_needs_to_know_its_outcome() {
    let mut table = String::new();
    for (state, failing) in
        [("free", "Delete"), ("shared", "End"), ("awaited", "Delete"), ("awaited", "End")]
    {
        for (failure, answer, is_carried_out) in FAILURES {
            let (store, wire, leases) = apart().await;
            let other = manager(&store).await;
            let is_shared = state == "shared";
            let acquire = leases.acquire("a");
            let lease = if is_shared { acquire.shared() } else { acquire }.await.unwrap();
            let _beside = match is_shared {
                true => Some(other.acquire("a").shared().await.unwrap()),
                false => None,
            };
            let _awaited = match state {
                "awaited" => Some(queued_by(&other, |it| it.acquire("a").wait_forever()).await),
                _ => None,
            };
            wire.sent();
            wire.plan(failing, is_carried_out, answer);
            let released = lease.release().await.unwrap();
            let sent = counted(&wire.sent());
            writeln!(table, "{state}: {failing}, {failure}: {released:?}: {sent}").unwrap();
        }
    }
    assert_eq!(table, RELEASES);
}

/// It was released by the command that was cut off, or by an operator after its end.
#[tokio::test(start_paused = true)]
async fn a_release_that_was_cut_off_of_a_lease_that_was_lost_is_of_unknown_outcome() {
    let (store, wire, leases) = apart().await;
    let lease = leases.acquire("a").renew(false).await.unwrap();
    // Lost by the holder's clock, and not yet expired by the server's.
    while lease.is_valid() {
        pass(SECOND / 10).await;
    }
    assert_eq!(store.leases_in_use(), 1);
    wire.plan("Delete", true, SimulatedAnswer::CutOff);
    assert_eq!(lease.release().await.unwrap(), Released::Unknown);
}

/// Of one holder of several no query could tell the outcome of a command for many, nor of a hand-off.
#[tokio::test(start_paused = true)]
async fn releases_at_once_share_commands_unless_others_hold_or_wait() {
    const COUNT: usize = 100;
    let mut table = Vec::new();
    for kind in ["exclusive", "permit", "awaited"] {
        let (store, wire, leases) = apart().await;
        let other = manager(&store).await;
        let (mut held, mut waiting) = (Vec::new(), Vec::new());
        for number in 0..COUNT {
            let name = number.to_string();
            held.push(match kind {
                "permit" => leases.semaphore(&name, 2).acquire().await.unwrap(),
                _ => leases.acquire(&name).await.unwrap(),
            });
            if kind == "awaited" {
                let call = queued_by(&other, |it| it.acquire(&name).wait_forever());
                waiting.push(call.await);
            }
        }
        wire.sent();
        for released in join_all(held.into_iter().map(Lease::release)).await {
            assert_done(released.unwrap(), kind);
        }
        table.push((kind, counted(&wire.sent())));
    }
    let wanted =
        [("exclusive", "5 Delete"), ("permit", "100 Delete"), ("awaited", "5 Delete, 100 End")];
    assert_eq!(table, wanted.map(|(kind, sent)| (kind, sent.to_owned())));
}

/// The command that fails and how, and all that the shutdown sent. Another process waits for one of three leases.
const SHUTDOWNS: &str = "\
Delete, no primary: 4 Delete, End
Delete, undone: 4 Delete, End
Delete, late majority: Delete, FindWritten, End
Delete, cut off before: 4 Delete, FindLeases, End
Delete, cut off after: 2 Delete, FindLeases, End
Delete, request lost: 4 Delete, End
Delete, reply lost: 4 Delete, 3 End
End, no primary: Delete, FindLeases, 2 End
End, undone: Delete, FindLeases, 2 End
End, late majority: Delete, FindLeases, End, FindWritten
End, cut off before: Delete, FindLeases, 2 End
End, cut off after: Delete, 2 FindLeases, 2 End
End, request lost: Delete, FindLeases, 2 End
End, reply lost: Delete, FindLeases, 2 End
";

#[tokio::test(start_paused = true)]
async fn a_shutdown_of_which_a_command_fails_releases_all_in_as_few_as_can_be() {
    let mut table = String::new();
    for failing in ["Delete", "End"] {
        for (failure, answer, is_carried_out) in FAILURES {
            let (store, wire, leases) = apart().await;
            let other = manager(&store).await;
            let held = ["a", "b", "c"].map(|name| leases.acquire(name).into_future());
            let _held = try_join_all(held).await.unwrap();
            let _awaited = queued_by(&other, |it| it.acquire("b").wait_forever()).await;
            wire.sent();
            wire.plan(failing, is_carried_out, answer);
            let report = leases.shutdown().await;
            assert_eq!((report.released, report.left_to_expire), (3, Vec::new()), "{failure}");
            let sent = counted(&wire.sent());
            writeln!(table, "{failing}, {failure}: {sent}").unwrap();
        }
    }
    assert_eq!(table, SHUTDOWNS);
}
