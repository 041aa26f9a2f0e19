//! Releases of exclusive leases beside permits, and how many commands they take.

use std::cell::RefCell;
use std::collections::BTreeSet;

use futures_util::future::try_join_all;
use mongo_lease::mongodb::bson::{Document, doc};
use mongo_lease::{Lease, Released};
use mongo_lease_testbed::FailCommand;

use super::commands::{released_by, setup};
use super::{granted, queued_by, reader, writer};
use crate::common::assert_done;
use crate::lent::lent_database;
use crate::patience::{locks, until};
use crate::spy::spied_at;

const MANY: usize = 200;

#[tokio::test]
async fn a_release_of_nothing_costs_a_delete_an_update_and_a_look() {
    let (_database, leases, others, spy) = setup().await;
    // A command that a busy machine cuts off is sent again.
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
    calls.iter().for_each(tokio::task::JoinHandle::abort);
    spy.names();
    fault.disable().await;
    leases.shutdown().await;
    assert_few(&spy.names());
    assert_eq!(locks(&database).count_documents(doc! {}).await.unwrap(), 0);
}

/// Each alone, they would be two hundred of each kind. A busy machine drops them in several parts, or is slow to
/// answer, and then a look follows.
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
    granted(first).await.release().await.unwrap();
    let promoted = granted(later).await;
    let last = queued_by(&others, reader).await;
    assert_eq!(release(promoted).await, ["update"]);
    assert!(granted(last).await.is_shared());
}
