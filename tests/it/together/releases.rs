//! Releases in batches: each gets the result of its own lease, and waiters are promoted.

use mongo_lease::mongodb::bson::doc;
use mongo_lease::{Event, Lease, LeaseManager, Released};
use mongo_lease_testbed::TestDatabase;
use tokio::task::JoinHandle;

use super::{FILLERS, granted, names, start_calls};
use crate::common::builder;
use crate::lent::{LentServer, lent_database};
use crate::patience::{Listener, bounded, locks, until_nothing_is_left};

const LEASES: usize = 10;

struct Setup {
    server: LentServer,
    database: TestDatabase,
    leases: LeaseManager,
    /// Released first, so that the others travel in a batch.
    fillers: Vec<Lease>,
}

async fn setup() -> Setup {
    let (server, database) = lent_database().await;
    let own = database.through(&server.client().await);
    let leases = LeaseManager::builder(&own).build().await.unwrap();
    let fillers = granted(start_calls(&leases, names("filler", FILLERS))).await;
    Setup { server, database, leases, fillers }
}

impl Setup {
    async fn hold(&self, what: &str) -> Vec<Lease> {
        granted(start_calls(&self.leases, names(what, LEASES))).await
    }

    /// The result of each release without the fillers', and the number of commands.
    async fn release(&mut self, leases: Vec<Lease>) -> Vec<Released> {
        let before = self.server.command_counts().await;
        let all = std::mem::take(&mut self.fillers).into_iter().chain(leases);
        let releasing: Vec<_> = all.map(|lease| tokio::spawn(lease.release())).collect();
        let mut released = Vec::new();
        for releasing in releasing {
            released.push(bounded(releasing).await.unwrap().unwrap());
        }
        let counts = self.server.command_counts().await.since(&before);
        // At first one or two at a time, and then the rest, a statement each.
        assert!(counts.delete < counts.deleted / 2, "they went alone: {counts:?}");
        released.split_off(FILLERS)
    }

    /// A waiter for each of these, in another process.
    async fn waiters(&self, what: &str) -> Vec<JoinHandle<Lease>> {
        let own = self.database.through(&self.server.client().await);
        let others = LeaseManager::builder(&own).build().await.unwrap();
        let mut waiters = Vec::new();
        for name in names(what, LEASES) {
            let mut events = Listener::of(&others);
            let acquire = others.acquire(name);
            waiters.push(tokio::spawn(async move { acquire.await.unwrap() }));
            events.find(|event| matches!(event, Event::Queued { .. }).then_some(())).await;
        }
        waiters
    }

    /// An operator frees these.
    async fn free(&self, held: &[Lease]) {
        let operator = builder(&self.database).build().await.unwrap();
        for lease in held {
            let released = operator.release(lease.name(), lease.value()).await.unwrap();
            assert_eq!(released, Released::Released);
        }
    }
}

async fn all_are_promoted(waiters: Vec<JoinHandle<Lease>>) -> Vec<Lease> {
    let mut promoted = Vec::new();
    for waiter in waiters {
        promoted.push(bounded(waiter).await.unwrap());
    }
    promoted
}

#[tokio::test]
async fn leases_with_and_without_waiters_are_released_or_handed_on() {
    let mut setup = setup().await;
    let mut held = setup.hold("held").await;
    held.extend(setup.hold("waited").await);
    let waiters = setup.waiters("waited").await;
    assert_eq!(setup.release(held).await, [Released::Released; 2 * LEASES]);
    let promoted = all_are_promoted(waiters).await;
    assert!(promoted.iter().all(Lease::is_valid));
    let left = locks(&setup.database).count_documents(doc! {}).await.unwrap();
    assert_eq!(left, LEASES as u64);
    for lease in promoted {
        assert_eq!(lease.release().await.unwrap(), Released::Released);
    }
    until_nothing_is_left(&setup.database).await;
}

#[tokio::test]
async fn releases_of_leases_an_operator_freed_report_not_held() {
    let mut setup = setup().await;
    let freed = setup.hold("freed").await;
    setup.free(&freed).await;
    // No other lease in the batch: then the server's count is the result of each.
    let fillers = std::mem::take(&mut setup.fillers);
    setup.free(&fillers).await;
    setup.fillers = fillers;
    assert_eq!(setup.release(freed).await, [Released::NotHeld; LEASES]);
}

/// Where some had gone before and others were deleted, nobody knows which: only hand-offs are certain.
#[tokio::test]
async fn a_release_after_an_operator_freed_it_never_reports_released() {
    let mut setup = setup().await;
    let held = setup.hold("held").await;
    let freed = setup.hold("freed").await;
    let waited = setup.hold("waited").await;
    let waiters = setup.waiters("waited").await;
    setup.free(&freed).await;
    // The release does not end a lease that somebody else holds by now.
    let own = setup.database.through(&setup.server.client().await);
    let others = LeaseManager::builder(&own).build().await.unwrap();
    let successors = granted(start_calls(&others, names("freed", LEASES / 2))).await;

    let all = held.into_iter().chain(freed).chain(waited).collect();
    let released = setup.release(all).await;
    let (held, rest) = released.split_at(LEASES);
    let (freed, waited) = rest.split_at(LEASES);
    assert!(held.iter().all(|it| *it != Released::NotHeld), "{held:?}");
    assert!(freed.iter().all(|it| *it != Released::Released), "{freed:?}");
    assert_eq!(waited, [Released::Released; LEASES]);
    let mut left = all_are_promoted(waiters).await;
    left.extend(successors);
    for lease in left {
        lease.renew().await.unwrap();
        assert_eq!(lease.release().await.unwrap(), Released::Released);
    }
    until_nothing_is_left(&setup.database).await;
}
