//! The commands that are really sent.

use std::collections::BTreeSet;

use mongo_lease::mongodb::bson::Document;
use mongo_lease::{Acquire, LeaseManager, Released};
use mongo_lease_testbed::TestDatabase;

use super::{granted, permits, queued_by, reader, writer};
use crate::common::{TryOnce, builder, patient};
use crate::spy::{Spy, spied};

/// A manager whose commands are heard, and another one.
pub(super) async fn setup() -> (TestDatabase, LeaseManager, LeaseManager, Spy) {
    let (database, ours, spy) = spied(patient).await;
    let others = patient(builder(&database)).build().await.unwrap();
    (database, ours, others, spy)
}

#[tokio::test]
async fn a_lone_permit_costs_one_command_each_way() {
    let (_database, leases, others, spy) = setup().await;
    let pair = async |acquire: &dyn Fn(&LeaseManager) -> Acquire| {
        let pair = async || {
            let held = acquire(&leases).await.unwrap();
            assert_eq!(held.release().await.unwrap(), Released::Released);
        };
        spy.undisturbed(pair).await
    };
    assert_eq!(pair(&permits(1, 2)).await, ["findAndModify", "delete"]);
    assert_eq!(pair(&reader).await, ["findAndModify", "delete"]);
    // Beside others too, and then no document is deleted.
    let _other = permits(1, 2)(&others).await.unwrap();
    assert_eq!(pair(&permits(1, 2)).await, ["findAndModify", "update"]);
    // A refused attempt is one command as well.
    let refused = async || assert!(!permits(2, 2)(&leases).try_once().await.unwrap().is_granted());
    assert_eq!(spy.undisturbed(refused).await, ["findAndModify"]);
}

/// The releases since the last look. Renewals and heartbeats name their leases in a list.
pub(super) fn released_by(spy: &Spy) -> Vec<String> {
    let is_release = |(name, command): &(String, Document)| {
        let statements = command.get_array("deletes").or(command.get_array("updates"));
        let first =
            statements.ok().and_then(|all| all.first()?.as_document()?.get_document("q").ok());
        first.is_some_and(|filter| filter.get_str("name").is_ok()) && name != "find"
    };
    let sent = spy.commands().into_iter().filter(is_release);
    let mut sent: Vec<_> = sent.map(|(name, command)| (name, without_ids(command))).collect();
    // A busy machine repeats an attempt.
    sent.dedup();
    sent.into_iter().map(|(name, _)| name).collect()
}

/// An exclusive lease is one permit under the limit 1.
#[tokio::test]
async fn a_limit_of_one_sends_the_commands_of_exclusive_leases() {
    let exclusive = sent_for(writer).await;
    let limited = sent_for(permits(1, 1)).await;
    assert_eq!(exclusive, limited);
    // Two forms of an acquire, a renewal, a delete, and the end of a grant that may have waiters.
    assert_eq!(exclusive.len(), 5, "{exclusive:#?}");
}

/// The commands of a manager of its own: a renewed and released lease, and one that is waited for and released. Each
/// once: how often a busy machine repeats one is nothing to the forms.
async fn sent_for(acquire: impl Fn(&LeaseManager) -> Acquire) -> BTreeSet<String> {
    let (_database, leases, others, spy) = setup().await;
    let lease = acquire(&leases).renew(false).await.unwrap();
    assert!(!lease.is_shared());
    lease.renew().await.unwrap();
    assert_eq!(lease.release().await.unwrap(), Released::Released);
    let held = others.acquire("a").renew(false).await.unwrap();
    let call = queued_by(&leases, |leases| acquire(leases).renew(false)).await;
    held.release().await.unwrap();
    assert_eq!(granted(call).await.release().await.unwrap(), Released::Released);
    let is_about_a_lease = |name: &str| !["ping", "aggregate", "getMore"].contains(&name);
    let sent = spy.commands().into_iter().filter(|(name, _)| is_about_a_lease(name));
    sent.map(|(_, command)| without_ids(command)).collect()
}

/// The command without what the driver adds, and with a sign in place of each id and each time.
fn without_ids(mut command: Document) -> String {
    for driver in ["lsid", "$clusterTime", "$db", "maxTimeMS", "txnNumber"] {
        command.remove(driver);
    }
    let text = command.to_string();
    let is_part_of_id = |letter: char| letter.is_ascii_hexdigit() || "-.".contains(letter);
    let mut shape = String::new();
    for part in text.split_inclusive(|letter| !is_part_of_id(letter)) {
        let (run, end) = part.split_at(part.trim_end_matches(|it| !is_part_of_id(it)).len());
        let is_id = run.len() >= 8 && run.contains(|letter: char| letter.is_ascii_digit());
        shape.push_str(if is_id { "#" } else { run });
        shape.push_str(end);
    }
    shape
}
