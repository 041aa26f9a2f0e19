//! The commands that are really sent.

use std::collections::BTreeSet;

use mongo_lease::mongodb::bson::Document;
use mongo_lease::{Acquire, LeaseManager, Released};
use mongo_lease_testbed::{Server, TestDatabase};

use super::{granted, queued_by};
use crate::common::migrated;
use crate::patience::Listener;
use crate::spy::Spy;

pub(super) async fn setup() -> (TestDatabase, LeaseManager, LeaseManager, Spy) {
    let server = Server::shared();
    let database = migrated(server).await;
    let (client, spy) = Spy::client(server).await;
    let ours = LeaseManager::builder(&database.through(&client)).build().await.unwrap();
    let others = crate::common::builder(&database).build().await.unwrap();
    spy.names();
    (database, ours, others, spy)
}

/// The kinds of commands that an uncontended pair sends.
async fn pair(spy: &Spy, acquire: Acquire) -> Vec<String> {
    let lease = acquire.await.unwrap();
    assert_eq!(lease.release().await.unwrap(), Released::Released);
    spy.names()
}

#[tokio::test]
async fn a_lone_permit_costs_one_command_each_way() {
    let (_database, leases, _others, spy) = setup().await;
    let semaphore = leases.semaphore("a", 5);
    assert_eq!(pair(&spy, semaphore.acquire()).await, ["findAndModify", "delete"]);
    assert_eq!(pair(&spy, leases.acquire("a").shared()).await, ["findAndModify", "delete"]);
    // Beside others too, and then no document is deleted.
    let _other = semaphore.acquire().renew(false).await.unwrap();
    spy.names();
    assert_eq!(pair(&spy, semaphore.acquire()).await, ["findAndModify", "update"]);
}

#[tokio::test]
async fn a_busy_semaphore_answers_one_attempt() {
    let (_database, leases, others, spy) = setup().await;
    let _held = others.semaphore("a", 2).acquire().permits(2).await.unwrap();
    assert!(!leases.semaphore("a", 2).try_acquire().await.unwrap().is_granted());
    assert_eq!(spy.names(), ["findAndModify"]);
}

/// The event of the release that admits it brings the grant.
#[tokio::test]
async fn an_admitted_call_sends_nothing_for_its_grant() {
    let (_database, leases, others, spy) = setup().await;
    let held = others.semaphore("a", 2).acquire().permits(2).await.unwrap();
    let mut events = Listener::of(&leases);
    let one = |leases: &LeaseManager| leases.semaphore("a", 2).acquire();
    let first = queued_by(&leases, one).await;
    events.watching().await;
    let second = queued_by(&leases, one).await;
    spy.names();
    held.release().await.unwrap();
    let both = [granted(first).await, granted(second).await];
    let sent = spy.names();
    assert!(sent.iter().all(|name| name != "findAndModify"), "{sent:?}");
    assert_eq!(both[0].token().unwrap(), both[1].token().unwrap(), "one write");
}

/// A writer that was granted a free lease does not know of its waiters. One that was promoted expects more of them.
#[tokio::test]
async fn a_writer_hands_over_to_readers_in_one_command() {
    let (_database, leases, others, spy) = setup().await;
    let reader = |leases: &LeaseManager| leases.acquire("a").shared();
    let mut sent = Vec::new();
    for _ in 0..2 {
        let writer = leases.acquire("a").renew(false).await.unwrap();
        let first = queued_by(&others, reader).await;
        let later = queued_by(&leases, |leases| leases.acquire("a").renew(false)).await;
        spy.names();
        assert_eq!(writer.release().await.unwrap(), Released::Released);
        let first = granted(first).await;
        sent.push(released_by(&spy));
        first.release().await.unwrap();
        let later = granted(later).await;
        let last = queued_by(&others, reader).await;
        spy.names();
        assert_eq!(later.release().await.unwrap(), Released::Released);
        sent.push(released_by(&spy));
        granted(last).await.release().await.unwrap();
    }
    let steps: Vec<usize> = sent.iter().map(Vec::len).collect();
    // A delete that matches nothing, and the end of the grant; the end of the grant alone.
    assert_eq!(steps, [2, 1, 2, 1], "{sent:?}");
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
    let exclusive = sent_for(|leases| leases.acquire("a")).await;
    let limited = sent_for(|leases| leases.semaphore("a", 1).acquire().permits(1)).await;
    assert_eq!(exclusive, limited);
    // Two forms of an acquire, a renewal, a delete, and the end of a grant that may have waiters.
    assert_eq!(exclusive.len(), 5, "{exclusive:#?}");
}

/// The commands of a manager of its own: a renewed and released lease, and one that is waited for and released. Each
/// once: how often a busy machine repeats one is nothing to the forms.
async fn sent_for(acquire: impl Fn(&LeaseManager) -> Acquire) -> BTreeSet<String> {
    let (_database, leases, others, spy) = setup().await;
    let lease = acquire(&leases).renew(false).await.unwrap();
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
