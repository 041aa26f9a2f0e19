//! A server without majority reads: MongoDB 4.4 can be started so. It answers such reads with code 148
//! (`ReadConcernMajorityNotEnabled`); here a fail point does.

use mongo_lease::{Lease, Released};
use mongo_lease_testbed::FailCommand;

use super::{CALLS, granted, names, start_calls};
use crate::common::{builder, patient};
use crate::lent::lent_database;
use crate::patience::until_nothing_is_left;
use crate::spy::spied_at;

#[tokio::test]
async fn batched_calls_are_granted_without_majority_reads() {
    let (server, database) = lent_database().await;
    let leases = patient(builder(&database)).build().await.unwrap();
    let refused = FailCommand::on(&["find"]).error_code(148).enable(server.uri()).await;
    let first = granted(start_calls(&leases, names("first", CALLS))).await;
    assert!(first.iter().all(Lease::is_valid));

    let second = granted(start_calls(&leases, names("second", CALLS))).await;
    let newest = first.iter().map(|lease| lease.token().unwrap()).max().unwrap();
    assert!(second.iter().all(|lease| lease.token().unwrap() > newest));
    assert!(refused.disable().await > 0, "a batch was read behind");
    for lease in first.into_iter().chain(second) {
        assert_eq!(lease.release().await.unwrap(), Released::Released);
    }
    until_nothing_is_left(&database).await;
}

/// The fail point refuses one read alone, so that the same read with another level is answered.
#[tokio::test]
async fn a_lookup_without_majority_reads_reads_locally() {
    let (server, database) = lent_database().await;
    let (leases, spy) = spied_at(&server, &database, |builder| builder).await;
    let lease = leases.acquire("nightly").await.unwrap();
    let refused = FailCommand::on(&["find"]).error_code(148).times(1).enable(server.uri()).await;
    spy.commands();
    for _ in 0..2 {
        let info = leases.get("nightly").await.unwrap().expect("it is held");
        assert_eq!(info.value.as_deref(), Some(lease.value()));
    }
    refused.disable().await;
    let sent = spy.commands();
    let finds = sent.iter().filter(|(name, _)| name == "find");
    let read_concerns = finds.map(|(_, find)| find.get_document("readConcern").unwrap());
    let mut levels: Vec<_> = read_concerns.map(|it| it.get_str("level").unwrap()).collect();
    // The manager remembers, and a read may be repeated.
    levels.dedup();
    assert_eq!(levels, ["majority", "local"]);
}
