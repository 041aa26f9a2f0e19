//! One manager renews all of its leases in batches.

use std::collections::HashMap;
use std::time::Duration;

use futures_util::future::try_join_all;
use mongo_lease::mongodb::bson::{DateTime, Document, doc};
use mongo_lease::{Event, Lease, LeaseManager, LostReason, Tuning};
use mongo_lease_testbed::FailCommand;

use crate::blocked::transaction_on;
use crate::common::{builder, prompt};
use crate::lent::{lent_database, lent_setup};
use crate::patience::{Listener, MUCH_PATIENCE, locks, until};

/// Leases of these names, acquired all at once.
async fn acquire_all(
    leases: &LeaseManager,
    names: impl Iterator<Item = String>,
    ttl: Duration,
) -> HashMap<String, Lease> {
    let asked = names.map(|name| leases.acquire(name).ttl(ttl).wait(MUCH_PATIENCE).into_future());
    let granted = try_join_all(asked).await.unwrap();
    granted.into_iter().map(|lease| (lease.name().to_owned(), lease)).collect()
}

/// Returns when each of these leases was renewed that many times. Of other events only those that may be occur.
async fn until_all_renewed<'a>(
    events: &mut Listener,
    names: impl IntoIterator<Item = &'a String>,
    times: usize,
    may_be: impl Fn(&Event) -> bool,
) {
    let mut left: HashMap<&str, usize> = names.into_iter().map(|name| (&**name, times)).collect();
    events
        .find(|event| {
            match event {
                Event::Renewed { name, .. } => {
                    if let Some(left) = left.get_mut(&**name) {
                        *left = left.saturating_sub(1);
                    }
                }
                event => assert!(may_be(event), "{event:?}"),
            }
            left.values().all(|left| *left == 0).then_some(())
        })
        .await;
}

// With a test of the expiry's type that an index can answer, the server tries the TTL index as well. Where the renewed
// leases expire first, that index wins the trial, and is then read to its end.
#[tokio::test]
async fn a_renewal_reads_no_documents_but_its_own() {
    const LEASES: i64 = 200;
    const OTHERS: i64 = 5_000;
    let (_server, database) = lent_database().await;
    let later = DateTime::from_millis(DateTime::now().timestamp_millis() + 3_600_000);
    // Some of them stand between the leases in the index on `name`, so that index needs a seek for each lease.
    let other = |number: i64| {
        let name = format!("lease:{}:{number}", number % LEASES);
        doc! { "name": name, "value": "another program's", "expiresAt": later }
    };
    locks(&database).insert_many((0..OTHERS).map(other)).await.unwrap();
    let leases = builder(&database).build().await.unwrap();
    let names = (0..LEASES).map(|number| format!("lease:{number}"));
    let held = acquire_all(&leases, names, Duration::from_secs(9)).await;

    database.run_command(doc! { "profile": 2 }).await.unwrap();
    let profile = database.collection::<Document>("system.profile");
    // On a busy machine the leases are granted over a while, and are not all renewed together.
    let renewal = doc! { "op": "update", "nMatched": { "$gte": LEASES / 10 } };
    let look = async || profile.find_one(renewal.clone()).await.unwrap();
    let renewal = until("a batch of renewals", look).await;
    let number = |field| i64::from(renewal.get_i32(field).unwrap());
    let (matched, keys) = (number("nMatched"), number("keysExamined"));

    // One key for each name, and one where the next name begins.
    assert!(keys <= 2 * matched, "{keys} keys for {matched} leases: {}", renewal["planSummary"]);
    assert!(number("docsExamined") <= matched, "{renewal}");
    assert!(held.values().all(Lease::is_valid), "some were lost");
}

#[tokio::test]
async fn leases_lost_among_many_are_found_and_the_others_stay_held() {
    let (_server, database, leases) = lent_setup().await;
    let names = (0..200).map(|number| format!("lease:{number}"));
    let mut events = Listener::of(&leases);
    let held = acquire_all(&leases, names, Duration::from_secs(9)).await;

    // Another manager's grant, another program's, a second grant under the same value, and an operator's deletion.
    let theirs = doc! { "value": "theirs", "grant.value": "theirs", "grant.owner": "thief@host:1" };
    for (name, change) in [
        ("lease:50", theirs),
        ("lease:70", doc! { "value": "another program's" }),
        ("lease:110", doc! { "grant.id": "another grant" }),
    ] {
        let change = doc! { "$set": change };
        locks(&database).update_one(doc! { "name": name }, change).await.unwrap();
    }
    locks(&database).delete_one(doc! { "name": "lease:90" }).await.unwrap();

    let mut lost = HashMap::new();
    events
        .find(|event| {
            if let Event::Lost { name, reason, .. } = event {
                lost.insert(name.clone(), reason.clone());
            }
            (lost.len() == 4).then_some(())
        })
        .await;
    let taker = |reason: &LostReason| match reason {
        LostReason::TakenOver { by, .. } => by.clone(),
        other => panic!("{other:?}"),
    };
    assert_eq!(taker(&lost["lease:50"]).as_deref(), Some("thief@host:1"));
    assert_eq!(taker(&lost["lease:70"]), None);
    assert_eq!(lost["lease:90"], LostReason::Removed);
    assert_eq!(lost["lease:110"], LostReason::Removed);

    let others = held.keys().filter(|name| !lost.contains_key(*name));
    until_all_renewed(&mut events, others, 1, |it| matches!(it, Event::RenewalFailed { .. })).await;
    assert!(held.iter().all(|(name, lease)| lease.is_valid() != lost.contains_key(name)));
}

/// A command that the server does not answer for 30 s is one batch of many: the others go on, and its own leases are
/// renewed by the next attempt.
#[tokio::test]
async fn a_command_that_hangs_delays_no_other() {
    let (server, database) = lent_database().await;
    let leases = builder(&database).build().await.unwrap();
    let ttls = [6, 7, 8].map(Duration::from_secs);
    let mut held = Vec::new();
    for (group, ttl) in ttls.into_iter().enumerate() {
        let names = (0..20).map(|number| format!("{group}:{number}"));
        held.push(acquire_all(&leases, names, ttl).await);
    }
    let mut events = Listener::of(&leases);
    let hanging = FailCommand::on(&["update"]).times(1).block_for(Duration::from_secs(30));
    let hanging = hanging.enable(server.uri()).await;
    hanging.wait_times_entered(1).await;

    let names = held.iter().flat_map(HashMap::keys);
    until_all_renewed(&mut events, names, 2, |it| matches!(it, Event::RenewalFailed { .. })).await;
    assert!(held.iter().flat_map(HashMap::values).all(Lease::is_valid));
    // It ends when the server is lent again. Switching it off would wait for the command that hangs.
    std::mem::forget(hanging);
}

/// A transaction unknown to this manager holds one of a hundred documents up. The bulk renewal meets it, is split, and
/// goes on without that one.
#[tokio::test]
async fn a_document_in_a_transaction_does_not_delay_other_renewals() {
    const BLOCKED: &str = "lease:50";
    const TTL: Duration = Duration::from_secs(9);
    let (_server, database) = lent_database().await;
    // Attempts end soon, and there is time for several rounds before the end.
    let soon = Tuning::default().attempt_timeout(TTL / 5);
    let leases = prompt(&database).tuning(soon).build().await.unwrap();
    let names: Vec<_> = (0..100).map(|number| format!("lease:{number}")).collect();
    let held = acquire_all(&leases, names.iter().cloned(), TTL).await;
    let mut session = transaction_on(&database, doc! { "name": BLOCKED }).await;

    let mut events = Listener::of(&leases);
    let others = names.iter().filter(|name| *name != BLOCKED);
    until_all_renewed(&mut events, others, 2, |event| match event {
        Event::Lost { name, .. } => name == BLOCKED,
        event => matches!(event, Event::RenewalFailed { .. }),
    })
    .await;
    assert!(held.iter().all(|(name, lease)| name == BLOCKED || lease.is_valid()));
    session.abort_transaction().await.unwrap();
}
