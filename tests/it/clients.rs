//! Clients with every kind of options: the library's behaviour must not depend on them.

use std::time::Duration;

use futures_util::{StreamExt, TryStreamExt};
use mongo_lease::mongodb::Database;
use mongo_lease::mongodb::bson::{Document, doc};
use mongo_lease::mongodb::options::{
    Acknowledgment, ClientOptions, ReadPreference, SelectionCriteria, ServerApi, ServerApiVersion,
    WriteConcern,
};
use mongo_lease::{Attempt, Event, LeaseManager, Released, Tuning};
use mongo_lease_testbed::{ReplicaSet, Server, TestDatabase};
use tokio::task::JoinSet;

use crate::common::migrated;
use crate::spy::Spy;

#[tokio::test]
async fn options_out_of_range_are_named_as_their_methods() {
    let database = migrated(Server::shared()).await;
    let builder = || LeaseManager::builder(&database);
    for commands in [0, 10_001, usize::MAX] {
        let error =
            builder().tuning(Tuning::default().max_in_flight(commands)).build().await.unwrap_err();
        assert_eq!(error.to_string(), "max_in_flight: must be between 1 and 10000");
    }
    builder().tuning(Tuning::default().max_in_flight(10_000)).build().await.unwrap();
    let error = builder().ttl(Duration::from_secs(400 * 86_400)).build().await.unwrap_err();
    assert_eq!(error.to_string(), "ttl: a ttl of 400days is not between 100ms and 366days");
}

#[tokio::test]
async fn reads_use_the_primary_even_if_the_client_prefers_secondaries() {
    let set = ReplicaSet::start();
    let secondary = |options: &mut ClientOptions| {
        let preference = ReadPreference::Secondary { options: None };
        options.selection_criteria = Some(SelectionCriteria::ReadPreference(preference));
    };
    let database = TestDatabase::of(&set.client_with(secondary).await);
    let leases = LeaseManager::builder(&database).ensure_indexes(true);
    let leases = leases.build().await.unwrap();
    everything_works(&leases).await;
    // A secondary has a grant a moment later, and this reads at once.
    for round in 0..50 {
        let name = format!("round:{round}");
        let lease = leases.acquire(&name).await.unwrap();
        let info = leases.get(&name).await.unwrap().expect("seen at once");
        assert_eq!(info.value.as_deref(), Some(lease.value()));
        let listed: Vec<_> =
            leases.list().prefix(&name).stream().unwrap().try_collect().await.unwrap();
        assert_eq!(listed.len(), 1);
        lease.release().await.unwrap();
        assert_eq!(leases.get(&name).await.unwrap(), None, "gone at once");
    }
}

#[tokio::test]
async fn writes_use_majority_even_if_the_client_is_set_to_w_1() {
    let spy = Spy::default();
    let leases = with(|options| {
        options.write_concern =
            Some(WriteConcern::builder().w(Acknowledgment::Nodes(1)).journal(false).build());
        spy.listen(options);
    })
    .await;
    everything_works(&leases).await;
    let mut writes = 0;
    for (name, command) in spy.commands() {
        if ["findAndModify", "update", "delete"].contains(&name.as_str()) {
            let wanted = doc! { "w": "majority", "j": true };
            assert_eq!(command.get_document("writeConcern").ok(), Some(&wanted), "{name}");
            writes += 1;
        }
    }
    assert!(writes >= 6, "{writes}");
}

#[tokio::test]
async fn a_client_without_retries_will_do() {
    let leases = with(|options| {
        options.retry_writes = Some(false);
        options.retry_reads = Some(false);
    })
    .await;
    everything_works(&leases).await;
}

#[tokio::test]
async fn the_strict_stable_api_will_do() {
    let api = ServerApi::builder().version(ServerApiVersion::V1).strict(true);
    let api = api.deprecation_errors(true).build();
    let leases = with(|options| options.server_api = Some(api)).await;
    everything_works(&leases).await;
}

#[tokio::test]
async fn pools_of_1_2_and_10_connections_will_do() {
    for size in [1, 2, 10] {
        let leases = with(|options| options.max_pool_size = Some(size)).await;
        everything_works(&leases).await;
        many_at_once(&leases).await;
    }
}

#[tokio::test]
async fn one_command_at_a_time_will_do() {
    let database = migrated(Server::shared()).await;
    let leases = LeaseManager::builder(&database)
        .tuning(Tuning::default().max_in_flight(1))
        .build()
        .await
        .unwrap();
    everything_works(&leases).await;
    many_at_once(&leases).await;
}

/// A manager behind a client with these options; its indexes are made through it as well.
async fn with(change: impl FnOnce(&mut ClientOptions)) -> LeaseManager {
    let client = Server::shared().client_with(change).await;
    let database: &Database = &TestDatabase::of(&client);
    let leases = LeaseManager::builder(database).ensure_indexes(true);
    leases.build().await.unwrap()
}

/// Uses every method once.
async fn everything_works(leases: &LeaseManager) {
    let lease = leases.acquire("a").metadata(doc! { "x": 1 }).await.unwrap();
    let token = lease.token().unwrap();
    let Attempt::Busy(held) = leases.try_acquire("a").await.unwrap() else {
        panic!("granted twice");
    };
    assert_eq!(held.value.as_deref(), Some(lease.value()));
    lease.renew().await.unwrap();
    assert!(leases.get("a").await.unwrap().is_some());
    let listed: Vec<_> = leases.list().stream().unwrap().try_collect().await.unwrap();
    assert_eq!(listed.len(), 1);

    let waiting = tokio::spawn(leases.acquire("a").into_future());
    let key = lease.detach().await.unwrap();
    let lease = leases.resume(key).await.unwrap();
    assert_eq!(lease.release().await.unwrap(), Released::Released);
    let next = waiting.await.unwrap().unwrap();
    assert!(next.token().unwrap() > token);
    assert_eq!(leases.release("a", next.value()).await.unwrap(), Released::Released);
    // Its drop would share a command with releases of other leases, and make their results unknown.
    assert_eq!(next.release().await.unwrap(), Released::NotHeld);

    // It is renewed automatically, twice.
    let renewals = leases.events().filter(|event| {
        std::future::ready(matches!(event, Event::Renewed { name, .. } if name == "b"))
    });
    let work = async |_lease: &_| renewals.take(2).count().await;
    let ttl = Duration::from_millis(600);
    assert_eq!(leases.acquire("b").ttl(ttl).run(work).await.unwrap(), 2);
    assert!(leases.ping().await.unwrap() < Duration::from_secs(5));
}

/// More calls at once than there are connections, on names of their own and on one in common.
async fn many_at_once(leases: &LeaseManager) {
    let mut tasks = JoinSet::new();
    for task in 0..20 {
        let leases = leases.clone();
        tasks.spawn(async move {
            let own = leases.acquire(format!("own:{task}")).await.unwrap();
            let shared = leases.acquire("shared").await.unwrap();
            assert_eq!(shared.release().await.unwrap(), Released::Released);
            assert_eq!(own.release().await.unwrap(), Released::Released);
        });
    }
    tasks.join_all().await;
    let left: Vec<_> = leases.list().stream().unwrap().try_collect::<Vec<_>>().await.unwrap();
    assert_eq!(left, Vec::new());
}

/// The database's own options ask for `w: 1` as well.
#[tokio::test]
async fn the_options_of_the_database_do_not_matter_either() {
    use mongo_lease::mongodb::options::{DatabaseOptions, ReadConcern};
    let database = migrated(Server::shared()).await;
    let one = WriteConcern::builder().w(Acknowledgment::Nodes(1)).build();
    let preference = ReadPreference::SecondaryPreferred { options: None };
    let options = DatabaseOptions::builder()
        .write_concern(one)
        .read_concern(ReadConcern::available())
        .selection_criteria(SelectionCriteria::ReadPreference(preference))
        .build();
    let other = database.client().database_with_options(database.name(), options);
    let leases = LeaseManager::builder(&other).build().await.unwrap();
    everything_works(&leases).await;
    assert_eq!(database.collection::<Document>("locks").count_documents(doc! {}).await.unwrap(), 0);
}
