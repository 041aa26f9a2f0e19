//! Sessions of the caller's, and what a caller may do with a session.

use mongo_lease::mongodb::Client;
use mongo_lease::mongodb::bson::doc;
use mongo_lease::mongodb::error::ErrorKind;
use mongo_lease::mongodb::options::{
    Acknowledgment, ClientOptions, ReadConcern, ReadPreference, SelectionCriteria, WriteConcern,
};
use mongo_lease::{Error, LeaseManager};
use mongo_lease_testbed::Server;

use super::{count, held, written};
use crate::blocked::transaction;

#[tokio::test]
async fn a_session_of_the_callers_comes_back_with_the_answer() {
    let (database, leases, work, lease) = held().await;
    let mut session = database.client().start_session().await.unwrap();
    let id = session.id().clone();
    let mut tx = lease.transaction_in(&mut session).await.unwrap();
    work.insert_one(doc! { "_id": 1 }).session(&mut tx).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(session.id(), &id);
    assert!(session.operation_time().is_some());
    assert!(work.find_one(doc! {}).session(&mut session).await.unwrap().is_some());

    // Also with an error. Of a loss the caller is told before the abort is answered.
    let mut tx = lease.transaction_in(&mut session).await.unwrap();
    work.insert_one(doc! { "_id": 2 }).session(&mut tx).await.unwrap();
    leases.release("a", lease.value()).await.unwrap();
    let error = tx.commit().await.unwrap_err();
    assert!(matches!(error, Error::Lost { .. }), "{error}");
    let id = session.id().clone();
    assert!(lease.transaction_in(&mut session).await.is_err());
    assert_eq!(session.id(), &id);
    assert_eq!(count(&work).await, 1);
}

#[tokio::test]
async fn a_dropped_transaction_leaves_a_new_session_of_the_same_time() {
    let (database, _leases, work, lease) = held().await;
    let mut session = database.client().start_session().await.unwrap();
    work.insert_one(doc! { "_id": 1 }).session(&mut session).await.unwrap();
    let (id, time) = (session.id().clone(), session.operation_time());
    let mut tx = lease.transaction_in(&mut session).await.unwrap();
    work.insert_one(doc! { "_id": 2 }).session(&mut tx).await.unwrap();
    drop(tx);
    assert_ne!(session.id(), &id);
    assert_eq!(session.operation_time(), time);
    // It can be used at once.
    lease.transaction_in(&mut session).await.unwrap().commit().await.unwrap();
    assert_eq!(count(&work).await, 1);
}

#[tokio::test]
async fn a_session_in_a_transaction_is_refused_and_left_alone() {
    let (database, _leases, work, lease) = held().await;
    let mut session = transaction(&database).await;
    work.insert_one(doc! { "_id": 1 }).session(&mut session).await.unwrap();
    let error = lease.transaction_in(&mut session).await.unwrap_err();
    assert!(matches!(error, Error::InvalidOption { option: "session", .. }), "{error}");
    session.commit_transaction().await.unwrap();
    assert_eq!(count(&work).await, 1);
    lease.renew().await.unwrap();
}

#[tokio::test]
async fn a_session_of_another_client_is_the_drivers_error() {
    let (database, _leases, _work, lease) = held().await;
    let other = Server::shared().client().await;
    let mut session = other.start_session().await.unwrap();
    let id = session.id().clone();
    let error = lease.transaction_in(&mut session).await.unwrap_err();
    let Error::MongoDb(source) = &error else { panic!("{error}") };
    assert!(matches!(*source.kind, ErrorKind::InvalidArgument { .. }), "{error}");
    assert!(!error.is_transient());
    // It can be used.
    assert_eq!(session.id(), &id);
    session.start_transaction().await.unwrap();
    session.abort_transaction().await.unwrap();

    // And the collection of another client.
    let mut tx = lease.transaction().await.unwrap();
    let foreign = database.through(&other).collection("work");
    let error = foreign.insert_one(doc! {}).session(&mut tx).await.unwrap_err();
    assert!(matches!(*error.kind, ErrorKind::InvalidArgument { .. }), "{error}");
    tx.commit().await.unwrap();
}

/// Of `guard`, which was called by hand, it said `Ok`, and wrote beside the next holder.
#[tokio::test]
async fn a_commit_after_one_by_the_session_says_that_nothing_was_guarded() {
    let (database, _leases, work, lease) = held().await;
    let before = crate::common::document(&database, "a").await;
    for commits in [true, false] {
        let mut tx = written(&lease, &work).await.unwrap();
        match commits {
            true => tx.session().commit_transaction().await.unwrap(),
            false => tx.session().abort_transaction().await.unwrap(),
        }
        let error = tx.commit().await.unwrap_err();
        assert!(matches!(error, Error::InvalidOption { option: "session", .. }), "{error}");
        assert!(!error.is_transient());
    }
    assert_eq!(count(&work).await, 1);
    assert_eq!(crate::common::document(&database, "a").await, before, "no guard was written");
}

/// Whatever its client has: the guard failed for all but the first, as if it could be repeated.
#[tokio::test]
async fn every_client_can_use_it() {
    let (database, ..) = held().await;
    let secondary = ReadPreference::SecondaryPreferred { options: Default::default() };
    let nearest = ReadPreference::Nearest { options: Default::default() };
    let primary = ReadPreference::PrimaryPreferred { options: Default::default() };
    for (number, preference) in [(0, secondary), (1, nearest), (2, primary)] {
        let mut options = ClientOptions::parse(Server::shared().uri()).await.unwrap();
        options.selection_criteria = Some(SelectionCriteria::ReadPreference(preference));
        options.read_concern = Some(ReadConcern::linearizable());
        let concern = WriteConcern::builder().w(Acknowledgment::Nodes(1)).journal(false).build();
        options.write_concern = Some(concern);
        let client = Client::with_options(options).unwrap();
        let through = database.through(&client);
        let leases = LeaseManager::builder(&through).build().await.unwrap();
        let lease = leases.acquire("b").await.unwrap();
        let work = super::work(&through);
        let mut tx = written(&lease, &work).await.unwrap();
        assert!(work.find_one(doc! {}).session(&mut tx).await.unwrap().is_some());
        tx.commit().await.unwrap();
        assert_eq!(count(&super::work(&database)).await, number + 1);
        lease.release().await.unwrap();
    }
}
