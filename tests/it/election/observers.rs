//! Observers: processes that watch an election and take no part in it.

use std::pin::Pin;
use std::time::Duration;

use futures_util::{Stream, StreamExt};
use mongo_lease::{Election, Error, LeaseInfo, Result, Tuning};

use super::{NAME, TTL};
use crate::both::check;
use crate::common::builder;
use crate::lent::lent_database;
use crate::patience::{Listener, soon};

type Observed = Result<Option<LeaseInfo>>;
type Leaders = Pin<Box<dyn Stream<Item = Observed> + Send>>;

async fn next(leaders: &mut Leaders) -> Option<Observed> {
    soon("the next leader", leaders.next()).await
}

fn label(seen: Option<Observed>) -> Option<String> {
    let leader = seen.expect("the stream goes on").expect("the database answers")?;
    leader.owner.map(|owner| owner.split('@').next().unwrap().to_owned())
}

#[tokio::test]
async fn an_observer_sees_who_leads_and_each_change() {
    check(async |backend| {
        let leases = backend.manager().await;
        let others = backend.manager().await;
        let watching = Election::new(&others, NAME).look_every(Duration::from_millis(20));
        let mut leaders: Leaders = Box::pin(watching.observe());
        assert_eq!(label(next(&mut leaders).await), None);
        let first = Election::new(&leases, NAME).owner("first").ttl(TTL).campaign().await.unwrap();
        assert_eq!(label(next(&mut leaders).await), Some("first".to_owned()));
        // A renewal is no change: the next item is the end.
        let mut renewals = Listener::of(&leases);
        tokio::select! {
            seen = leaders.next() => panic!("{seen:?}"),
            () = renewals.renewals(NAME, 1) => {}
        }
        assert_eq!(watching.leader().await.unwrap().unwrap().name, NAME);
        first.release().await.unwrap();
        assert_eq!(label(next(&mut leaders).await), None);
        let again = Election::new(&leases, NAME).owner("second").campaign().await.unwrap();
        assert_eq!(label(next(&mut leaders).await), Some("second".to_owned()));
        others.shutdown().await;
        assert!(matches!(next(&mut leaders).await, Some(Err(Error::ShutDown))));
        assert!(next(&mut leaders).await.is_none());
        again.release().await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn an_observer_goes_on_behind_an_outage() {
    let (server, database) = lent_database().await;
    let quick = Tuning::default().attempt_timeout(Duration::from_secs(1));
    let leases = builder(&database).tuning(quick).build().await.unwrap();
    let election = Election::new(&leases, NAME).look_every(Duration::ZERO);
    let mut leaders: Leaders = Box::pin(election.observe());
    // On a busy machine a look may take longer than an attempt may.
    while next(&mut leaders).await.expect("it goes on").is_err() {}
    server.mongod().pause();
    assert!(matches!(next(&mut leaders).await, Some(Err(_))));
    server.mongod().resume();
    let leadership = soon("the election", election.campaign()).await.unwrap();
    let seen = loop {
        if let Ok(leader) = next(&mut leaders).await.expect("it goes on") {
            break leader;
        }
    };
    assert_eq!(seen.unwrap().value.as_deref(), Some(leadership.lease().value()));
}
