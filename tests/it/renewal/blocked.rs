//! Other programs' transactions, and their cost for unrelated leases.

use std::time::{Duration, Instant};

use mongo_lease::Event;
use mongo_lease::mongodb::bson::doc;

use super::many::{acquire_all, until_all_renewed};
use crate::blocked::transaction_on;
use crate::common::builder;
use crate::lent::lent_database;
use crate::patience::Listener;

/// A transaction unknown to this manager holds one of a hundred documents up. The bulk renewal meets it, is split, and
/// goes on without that one.
#[tokio::test]
async fn a_document_in_a_transaction_does_not_delay_other_renewals() {
    const BLOCKED: &str = "lease:50";
    let (_server, database) = lent_database().await;
    let leases = builder(&database).build().await.unwrap();
    let names: Vec<_> = (0..100).map(|number| format!("lease:{number}")).collect();
    let held = acquire_all(&leases, names.iter().cloned(), Duration::from_secs(3)).await;
    let mut session = transaction_on(&database, doc! { "name": BLOCKED }).await;

    let mut events = Listener::of(&leases);
    let started = Instant::now();
    let others = names.iter().filter(|name| *name != BLOCKED);
    until_all_renewed(&mut events, others, 4, |event| match event {
        Event::Lost { name, .. } => name == BLOCKED,
        event => matches!(event, Event::RenewalFailed { .. }),
    })
    .await;
    assert!(started.elapsed() >= Duration::from_secs(3), "the transaction was too short");
    // Nobody could renew the one.
    assert!(held.iter().all(|(name, lease)| lease.is_valid() == (name != BLOCKED)));
    session.abort_transaction().await.unwrap();
}
