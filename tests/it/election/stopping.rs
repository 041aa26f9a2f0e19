//! `Election::stop`: before, during and after the campaign, from any clone and thread.

use mongo_lease::{Election, Error, LeaseManager, Stop, Tuning};
use mongo_lease_testbed::Server;
use tokio::signal::unix::{SignalKind, signal};

use super::NAME;
use crate::both::check;
use crate::common::{builder, setup};
use crate::lent::lent_database;
use crate::patience::{PATIENCE, soon, until};
use crate::worker::{Worker, as_worker, say};

/// Returns when that many processes wait to be elected.
async fn until_followers(leases: &LeaseManager, count: u32) {
    let are_there = async || (leases.get(NAME).await.unwrap()?.waiting == count).then_some(());
    until("the queue has the expected length", are_there).await;
}

/// The process may have been told to end at the moment of its election, or before it.
#[tokio::test]
async fn a_stop_between_the_election_and_the_work_is_told() {
    check(async |backend| {
        let leases = backend.manager().await;
        let election = Election::new(&leases, NAME);
        let leadership = election.campaign().await.unwrap();
        election.clone().stop();
        assert!(leadership.is_stopping());
        assert_eq!(soon("the word to stop", leadership.until_stop()).await, Stop::Asked);
        assert!(leadership.lease().is_valid());
        leadership.release().await.unwrap();
        let campaign = soon("the campaign ends", election.campaign()).await;
        assert!(matches!(campaign, Err(Error::Stopped)), "{campaign:?}");
        let run = soon("the run ends", election.run(async |_| panic!("it was stopped"))).await;
        assert!(matches!(run, Err(Error::Stopped)), "{run:?}");
        backend.until_nothing_is_left().await;
        // Another election of the same name is not stopped.
        let other = soon("the other", Election::new(&leases, NAME).campaign()).await.unwrap();
        assert!(other.lease().is_valid());
    })
    .await;
}

#[tokio::test]
async fn a_stop_ends_a_campaign_while_the_database_hangs() {
    let (server, database) = lent_database().await;
    // A call that waited for the database would wait for an attempt's time.
    let patient = Tuning::default().attempt_timeout(2 * PATIENCE);
    let leases = builder(&database).ttl(8 * PATIENCE).tuning(patient).build().await.unwrap();
    let election = Election::new(&leases, NAME);
    server.mongod().pause();
    let stop = async {
        tokio::task::yield_now().await;
        // A thread without a runtime, like a signal handler's.
        let election = election.clone();
        std::thread::spawn(move || election.stop()).join().unwrap();
    };
    let (ended, ()) =
        soon("the campaign ends", async { tokio::join!(election.campaign(), stop) }).await;
    assert!(matches!(ended, Err(Error::Stopped)), "{ended:?}");
    server.mongod().resume();
}

/// The loop of `docs/elections-and-jobs.md` in a process of its own.
#[tokio::test]
async fn a_follower_that_gets_sigterm_leaves_the_queue_and_ends() {
    const TEST: &str = "election::stopping::a_follower_that_gets_sigterm_leaves_the_queue_and_ends";
    if let Some(database) = as_worker().await {
        // It leaves the queue itself: its entry would live longer than the test.
        let long = Tuning::default().waiter_ttl(10 * PATIENCE);
        let leases = LeaseManager::builder(&database).tuning(long).await.unwrap();
        let election = Election::new(&leases, NAME);
        let mut sigterm = signal(SignalKind::terminate()).unwrap();
        let to_stop = election.clone();
        tokio::spawn(async move {
            sigterm.recv().await;
            to_stop.stop();
        });
        let ended = loop {
            match election.run(async |leadership| leadership.until_stop().await).await {
                Ok(Stop::Asked) => break "it led",
                Err(Error::Stopped) => break "it followed",
                Ok(_) | Err(Error::Lost { .. }) => continue,
                Err(error) => panic!("{error}"),
            }
        };
        leases.shutdown().await;
        say(ended);
        return;
    }
    let (database, leases) = setup().await;
    let leader = Election::new(&leases, NAME).campaign().await.unwrap();
    let mut follower = Worker::start(TEST, Server::shared().uri(), &database);
    until_followers(&leases, 1).await;
    follower.terminate();
    until_followers(&leases, 0).await;
    assert_eq!(follower.says().await, "it followed");
    assert!(leader.lease().is_valid());
}
