//! A shutdown while transactions are open, and an error of ours in the driver's own helper.

use mongo_lease::mongodb::bson::doc;
use mongo_lease::{Error, LostReason};

use super::{count, held, make_it_guard_first, work_of, written};
use crate::blocked::transaction;
use crate::common::builder;
use crate::lent::lent_setup;
use crate::patience::soon;

#[tokio::test]
async fn a_shutdown_aborts_open_transactions() {
    let (_server, database, others) = lent_setup().await;
    let work = work_of(&database).await;
    let leases = builder(&database).build().await.unwrap();
    let (first, last) = (leases.acquire("a").await.unwrap(), leases.acquire("b").await.unwrap());
    make_it_guard_first(&first, &database).await;
    let open = [written(&first, &work).await.unwrap(), written(&last, &work).await.unwrap()];
    let report = leases.shutdown().await;
    assert_eq!((report.released, report.left_to_expire), (2, vec![]));
    for name in ["a", "b"] {
        assert!(soon("a grant", others.acquire(name).into_future()).await.unwrap().is_valid());
    }
    for tx in open {
        let error = tx.commit().await.unwrap_err();
        let Error::Lost { reason: LostReason::Released, .. } = error else { panic!("{error}") };
    }
    assert_eq!(count(&work).await, 0);
    // Its writes block nothing any more.
    work.insert_one(doc! {}).await.unwrap();
}

/// An error of this crate that goes through the driver's helper comes out as it was. It was `MongoDb("Custom user
/// error")`, and transient.
#[tokio::test]
async fn an_error_of_ours_comes_out_of_the_drivers_helper() {
    let (database, leases, work, lease) = held().await;
    leases.release("a", lease.value()).await.unwrap();
    lease.renew().await.unwrap_err();
    let mut session = transaction(&database).await;
    session.abort_transaction().await.unwrap();
    let run = session.start_transaction().and_run2(async |session| {
        lease.check()?;
        work.insert_one(doc! {}).session(session).await?;
        Ok(())
    });
    let error = Error::from(run.await.unwrap_err());
    assert!(matches!(error, Error::Lost { .. }) && !error.is_transient(), "{error}");
}
