//! `Election::stop`: before, during and after the campaign, from any clone and thread.

use mongo_lease::mongodb::bson::Document;
use mongo_lease::{Election, Error, LeaseManager, Stop, Tuning};
use mongo_lease_testbed::{Server, TestDatabase};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

use super::NAME;
use crate::both::check;
use crate::common::{builder, document, setup};
use crate::lent::lent_database;
use crate::patience::{PATIENCE, soon, until};
use crate::worker::{Worker, as_worker, say};

fn followers(document: &Document) -> usize {
    document.get_array("queue").map_or(0, Vec::len)
}

/// Returns when that many processes wait to be elected.
async fn until_followers(database: &TestDatabase, count: usize) {
    let are_there =
        async || document(database, NAME).await.filter(|it| followers(it) == count).map(drop);
    until("the queue has the expected length", are_there).await;
}

#[tokio::test]
async fn a_stop_before_the_campaign_is_kept() {
    let (database, leases) = setup().await;
    let election = Election::new(&leases, NAME);
    election.clone().stop();
    let campaign = soon("the campaign ends", election.campaign()).await;
    assert!(matches!(campaign, Err(Error::Stopped)), "{campaign:?}");
    let run = soon("the run ends", election.run(async |_| panic!("it was stopped"))).await;
    assert!(matches!(run, Err(Error::Stopped)), "{run:?}");
    assert!(document(&database, NAME).await.is_none());
    // Another election of the same name is not stopped.
    let other = soon("the other", Election::new(&leases, NAME).campaign()).await.unwrap();
    assert!(other.lease().is_valid());
}

#[tokio::test]
async fn a_stop_ends_a_campaign_and_the_follower_leaves_the_queue() {
    let (database, leases) = setup().await;
    let others = builder(&database).build().await.unwrap();
    let leader = Election::new(&leases, NAME).campaign().await.unwrap();
    let election = Election::new(&others, NAME);
    let campaign = tokio::spawn({
        let election = election.clone();
        async move { election.campaign().await }
    });
    until_followers(&database, 1).await;
    // A thread without a runtime, like a signal handler's.
    std::thread::spawn(move || election.stop()).join().unwrap();
    let ended = soon("the campaign ends", campaign).await.unwrap();
    assert!(matches!(ended, Err(Error::Stopped)), "{ended:?}");
    until_followers(&database, 0).await;
    leader.release().await.unwrap();
    assert!(document(&database, NAME).await.is_none(), "the stopped follower was elected");
}

#[tokio::test]
async fn a_stop_tells_the_leader_and_ends_later_terms() {
    check(async |backend| {
        let leases = backend.manager().await;
        let election = Election::new(&leases, NAME);
        let (started, mut starts) = mpsc::unbounded_channel();
        let term = tokio::spawn({
            let election = election.clone();
            async move {
                election
                    .run(async |leadership| {
                        started.send(()).unwrap();
                        leadership.until_stop().await
                    })
                    .await
            }
        });
        soon("the term", starts.recv()).await.unwrap();
        election.stop();
        assert_eq!(soon("the end", term).await.unwrap().unwrap(), Stop::Asked);
        backend.until_nothing_is_left().await;
        let again = soon("the next term", election.run(async |_| ())).await;
        assert!(matches!(again, Err(Error::Stopped)), "{again:?}");
    })
    .await;
}

/// The process may have been told to end at the moment of its election.
#[tokio::test]
async fn a_stop_between_the_election_and_the_work_is_told() {
    check(async |backend| {
        let leases = backend.manager().await;
        let election = Election::new(&leases, NAME);
        let leadership = election.campaign().await.unwrap();
        election.stop();
        assert!(leadership.is_stopping());
        assert_eq!(soon("the word to stop", leadership.until_stop()).await, Stop::Asked);
        assert!(leadership.lease().is_valid());
    })
    .await;
}

#[tokio::test]
async fn stepping_down_ends_one_term_and_stopping_all() {
    check(async |backend| {
        let leases = backend.manager().await;
        let election = Election::new(&leases, NAME);
        for _ in 0..2 {
            let term = election.run(async |leadership| {
                election.step_down();
                leadership.until_stop().await
            });
            assert_eq!(soon("the term", term).await.unwrap(), Stop::Asked);
        }
    })
    .await;
}

#[tokio::test]
async fn a_stop_ends_a_campaign_while_the_database_hangs() {
    let (server, database) = lent_database().await;
    // A call that waited for the database would wait for an attempt's time.
    let leases = builder(&database)
        .ttl(8 * PATIENCE)
        .tuning(Tuning::default().attempt_timeout(2 * PATIENCE));
    let leases = leases.build().await.unwrap();
    let election = Election::new(&leases, NAME);
    server.mongod().pause();
    let stop = async {
        tokio::task::yield_now().await;
        election.stop();
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
        let leases = LeaseManager::builder(&database)
            .tuning(Tuning::default().waiter_ttl(10 * PATIENCE))
            .await
            .unwrap();
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
    until_followers(&database, 1).await;
    follower.terminate();
    until_followers(&database, 0).await;
    assert_eq!(follower.says().await, "it followed");
    assert!(leader.lease().is_valid());
}
