//! Leases that are gone, and calls that are given up.

use std::cell::RefCell;
use std::collections::BTreeSet;

use mongo_lease::mongodb::bson::{Document, doc};
use mongo_lease_testbed::FailCommand;
use tokio::task::JoinHandle;

use crate::lent::lent_database;
use crate::patience::{locks, until};
use crate::spy::spied_at;

const MANY: usize = 200;

/// Each of these calls may have been granted its lease, or have joined the queue.
#[tokio::test]
async fn calls_given_up_without_an_answer_leave_nothing() {
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
    fault.disable().await;
    assert_eq!(leases.shutdown().await.tasks_left, 0);
    assert_eq!(locks(&database).count_documents(doc! {}).await.unwrap(), 0);
}
