//! Other programs' transactions, and their cost for unrelated leases.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use mongo_lease::mongodb::bson::doc;
use mongo_lease::{Event, Lease};

use crate::common::builder;
use crate::lent::lent_database;
use crate::patience::{Listener, locks};

/// A transaction unknown to this manager holds one of a hundred documents up. The bulk renewal meets it, is split, and
/// goes on without that one.
#[tokio::test]
async fn a_document_in_a_transaction_does_not_delay_other_renewals() {
    let (_server, database) = lent_database().await;
    let leases = builder(&database).ttl(Duration::from_secs(3)).build().await.unwrap();
    let mut held = HashMap::new();
    for number in 0..100 {
        let name = format!("lease:{number:02}");
        held.insert(name.clone(), leases.acquire(name).await.unwrap());
    }
    let mut session = database.client().start_session().await.unwrap();
    session.start_transaction().await.unwrap();
    let change = doc! { "$set": { "touched": true } };
    locks(&database)
        .update_one(doc! { "name": "lease:50" }, change)
        .session(&mut session)
        .await
        .unwrap();

    let mut events = Listener::of(&leases);
    let started = Instant::now();
    let mut renewed: HashMap<String, usize> = HashMap::new();
    events
        .find(|event| {
            match event {
                Event::Renewed { name, .. } => *renewed.entry(name.clone()).or_default() += 1,
                Event::Lost { name, .. } => assert_eq!(name, "lease:50"),
                Event::RenewalFailed { .. } => {}
                other => panic!("{other:?}"),
            }
            let others = renewed.iter().filter(|(name, times)| *name != "lease:50" && **times >= 4);
            (others.count() == 99).then_some(())
        })
        .await;
    assert!(started.elapsed() >= Duration::from_secs(3), "the transaction was too short");
    let valid = |name: &str| held[name].is_valid();
    assert!(held.iter().all(|(name, lease)| name == "lease:50" || Lease::is_valid(lease)));
    assert!(!valid("lease:50"), "nobody could renew it, and it says that it is held");
    session.abort_transaction().await.unwrap();
}
