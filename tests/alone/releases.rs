//! The commands of releases, and of what takes their place.

use std::cell::RefCell;
use std::collections::BTreeSet;

use futures_util::future::try_join_all;
use mongo_lease::mongodb::bson::{Document, doc};
use mongo_lease::{Lease, LeaseManager, Released};
use mongo_lease_testbed::{FailCommand, Server, TestDatabase};
use tokio::task::JoinHandle;

use crate::batches::{granted, names, start_calls};
use crate::blocking::start_releases;
use crate::common::{assert_done, builder, patient, statistic};
use crate::lent::lent_database;
use crate::patience::{joined, locks, until};
use crate::permits::setup;
use crate::spy::{Spy, spied_at};
use crate::waiters::{self, queued_by, reader, writer};

const MANY: usize = 200;

#[tokio::test]
async fn a_release_of_nothing_costs_a_delete_an_update_and_a_look() {
    let (_database, leases, others, spy) = setup().await;
    // A command that is cut off is sent again.
    let heard = |released| (spy.failures().is_empty()).then(|| (released, spy.names()));
    let costs = (Released::NotHeld, ["delete", "update", "find"].map(str::to_owned).to_vec());
    let forget = || drop((spy.names(), spy.failures()));
    let of_nobody = async || {
        forget();
        heard(leases.release("a", "nobody's").await.unwrap())
    };
    assert_eq!(until("a release of nobody's", of_nobody).await, costs);
    let of_the_lost = async || {
        let lost = writer(&leases).renew(false).await.unwrap();
        assert_done(others.release("a", lost.value()).await.unwrap(), "by name and value");
        forget();
        heard(lost.release().await.unwrap())
    };
    assert_eq!(until("a release of a lost lease", of_the_lost).await, costs);
}

#[tokio::test]
async fn dropped_leases_that_are_gone_share_commands() {
    let (database, leases, _others, spy) = setup().await;
    let acquire = |number| leases.acquire(format!("a:{number}")).renew(false).into_future();
    let held = try_join_all((0..MANY).map(acquire)).await.unwrap();
    locks(&database).delete_many(doc! {}).await.unwrap();
    spy.names();
    drop(held);
    leases.shutdown().await;
    assert_few(&spy.names());
}

/// Each of these calls may have been granted its lease, or have joined the queue.
#[tokio::test]
async fn calls_given_up_without_an_answer_are_released_together() {
    let (server, database) = lent_database().await;
    let (leases, spy) = spied_at(&server, &database, |builder| builder).await;
    let fault = FailCommand::on(&["findAndModify"]).close_connection();
    let fault = fault.enable(server.uri()).await;
    // With a value of its own each goes by itself, and in the form that finds an earlier grant.
    let acquire = |number: usize| {
        let name = format!("a:{number}");
        tokio::spawn(leases.acquire(&name).value(format!("of {name}")).into_future())
    };
    let calls: Vec<_> = (0..MANY).map(acquire).collect();
    let asked_for = RefCell::new(BTreeSet::new());
    // The others wait for a slot meanwhile.
    until("some have sent attempts", async || {
        let mut asked_for = asked_for.borrow_mut();
        for (_, command) in spy.commands() {
            asked_for.extend(command.get_document("query").ok().map(Document::to_string));
        }
        (asked_for.len() >= 5).then_some(())
    })
    .await;
    calls.iter().for_each(JoinHandle::abort);
    spy.names();
    fault.disable().await;
    leases.shutdown().await;
    assert_few(&spy.names());
    assert_eq!(locks(&database).count_documents(doc! {}).await.unwrap(), 0);
}

/// Each alone, they would be two hundred of each kind.
fn assert_few(sent: &[String]) {
    assert!(sent.contains(&"delete".to_owned()), "nothing was given back: {sent:?}");
    assert!(sent.len() <= 60, "{} commands: {sent:?}", sent.len());
}

/// A writer that was granted a free lease does not know of its waiters. One that was promoted expects more of them.
#[tokio::test]
async fn a_promoted_writer_hands_over_to_readers_in_one_command() {
    let (_database, leases, others, spy) = setup().await;
    let release = async |writer: Lease| {
        spy.names();
        assert_eq!(writer.release().await.unwrap(), Released::Released);
        released_by(&spy)
    };
    let held = writer(&leases).renew(false).await.unwrap();
    let first = queued_by(&others, reader).await;
    let later = queued_by(&leases, |leases| writer(leases).renew(false)).await;
    // A delete that matches nothing, and the end of the grant.
    assert_eq!(release(held).await, ["delete", "update"]);
    waiters::granted(first).await.release().await.unwrap();
    let promoted = waiters::granted(later).await;
    let last = queued_by(&others, reader).await;
    assert_eq!(release(promoted).await, ["update"]);
    assert!(waiters::granted(last).await.is_shared());
}

/// The releases since the last look. Renewals and heartbeats name their leases in a list.
fn released_by(spy: &Spy) -> Vec<String> {
    let is_release = |(name, command): &(String, Document)| {
        let statements = command.get_array("deletes").or(command.get_array("updates"));
        let first =
            statements.ok().and_then(|all| all.first()?.as_document()?.get_document("q").ok());
        first.is_some_and(|filter| filter.get_str("name").is_ok()) && name != "find"
    };
    spy.commands().into_iter().filter(is_release).map(|(name, _)| name).collect()
}

/// A batch that no majority confirmed in time is not sent again. Reads confirm the releases together: no release reads
/// by itself.
#[tokio::test]
async fn releases_without_a_majority_look_together() {
    let (server, database) = lent_database().await;
    let (leases, spy) = spied_at(&server, &database, patient).await;
    let held = granted(start_calls(&leases, names("lease", MANY))).await;
    // Four go alone, and the others in batches.
    let unconfirmed = FailCommand::on(&["delete"]).times(6).write_concern_error(50);
    let guard = unconfirmed.enable(server.uri()).await;
    spy.names();
    for released in joined(start_releases(held)).await {
        assert_eq!(released.unwrap(), Released::Released);
    }
    assert!(guard.disable().await > 0, "each was confirmed in time");
    let sent = spy.names();
    assert!(sent.len() <= 60, "{} commands: {sent:?}", sent.len());
}

/// A manager whose releases make tombstones.
async fn with_tombstones(database: &TestDatabase) -> LeaseManager {
    patient(builder(database).tombstones(true)).build().await.unwrap()
}

async fn come_and_go(leases: &LeaseManager, names: impl Iterator<Item = String>) {
    for name in names {
        let lease = leases.acquire(name).await.unwrap();
        assert_eq!(lease.release().await.unwrap(), Released::Released);
    }
}

#[tokio::test]
async fn with_tombstones_every_release_is_one_command() {
    const ROUNDS: u64 = 20;
    let (server, database) = lent_database().await;
    let leases = with_tombstones(&database).await;
    let before = server.command_counts().await;
    come_and_go(&leases, (0..ROUNDS).map(|number| number.to_string())).await;
    let counts = server.command_counts().await.since(&before);
    assert!(counts.find_and_modify < 2 * ROUNDS && counts.update < 2 * ROUNDS, "{counts:?}");
    assert_eq!(counts.delete, 0, "{counts:?}");
}

/// The server keeps deleted entries for a time, and a query for a name walks over those that sort behind it.
#[tokio::test]
async fn a_new_name_walks_over_no_deleted_entries() {
    const DELETED: usize = 1_000;
    const NEW: usize = 50;
    let (server, database) = lent_database().await;
    let leases = with_tombstones(&database).await;
    // These sort behind all new names, and nothing else does.
    let dead = |number: usize| doc! { "name": format!("z:{number:04}"), "value": "", "n": 1 };
    locks(&database).insert_many((0..DELETED).map(dead)).await.unwrap();
    locks(&database).delete_many(doc! { "n": 1 }).await.unwrap();
    let before = entries_skipped(&server).await;
    come_and_go(&leases, (0..NEW).map(|number| format!("a:{number:04}"))).await;
    let skipped = entries_skipped(&server).await - before;
    // A single query walks over all of them. One may be needed for a few of the names.
    let most = i64::try_from(DELETED * NEW).unwrap() / 2;
    assert!(skipped < most, "{skipped} entries for {NEW} names");
}

async fn entries_skipped(server: &Server) -> i64 {
    let mut skipped = 0;
    for direction in ["next", "prev"] {
        let name = format!("Total number of entries skipped by cursor {direction} calls");
        skipped += statistic(server, &["wiredTiger", "cursor"], &name).await;
    }
    skipped
}
