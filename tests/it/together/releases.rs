//! Releases in batches: each gets the result of its own lease, and waiters are promoted.

use mongo_lease::mongodb::bson::doc;
use mongo_lease::{Lease, LeaseManager, Released, Result};
use mongo_lease_testbed::TestDatabase;
use tokio::task::JoinHandle;

use super::{FILLERS, granted, names, start_calls};
use crate::blocked::start_releases;
use crate::common::{builder, patient};
use crate::lent::{LentServer, lent_database};
use crate::patience::{joined, locks, until_nothing_is_left};
use crate::permits::queued_by;

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
    let leases = another_manager(&server, &database).await;
    let fillers = granted(start_calls(&leases, names("filler", FILLERS))).await;
    Setup { server, database, leases, fillers }
}

/// A manager with a client of its own, as in another process.
async fn another_manager(server: &LentServer, database: &TestDatabase) -> LeaseManager {
    let own = database.through(&server.client().await);
    patient(LeaseManager::builder(&own)).build().await.unwrap()
}

type Waiter = JoinHandle<Result<Lease>>;

impl Setup {
    async fn hold(&self, what: &str) -> Vec<Lease> {
        granted(start_calls(&self.leases, names(what, LEASES))).await
    }

    /// The same, with a waiter for each in another process.
    async fn hold_waited(&self) -> (Vec<Lease>, Vec<Waiter>) {
        let held = self.hold("waited").await;
        let others = another_manager(&self.server, &self.database).await;
        let mut waiters = Vec::new();
        for lease in &held {
            waiters.push(queued_by(&others, |leases| leases.acquire(lease.name())).await);
        }
        (held, waiters)
    }

    /// The result of each release without the fillers'.
    async fn release(&mut self, leases: impl IntoIterator<Item = Lease>) -> Vec<Released> {
        let before = self.server.command_counts().await;
        let all = std::mem::take(&mut self.fillers).into_iter().chain(leases);
        let results = joined(start_releases(all)).await;
        let counts = self.server.command_counts().await.since(&before);
        // At first one or two at a time, and then the rest, a statement each.
        assert!(counts.delete < counts.deleted / 2, "they went alone: {counts:?}");
        results.into_iter().skip(FILLERS).map(Result::unwrap).collect()
    }

    /// An operator frees these.
    async fn free(&self, held: &[Lease]) {
        let operator = builder(&self.database).build().await.unwrap();
        for lease in held {
            let released = operator.release(lease.name(), lease.value()).await.unwrap();
            assert_eq!(released, Released::Released);
        }
    }

    /// Releases what others hold by now: the waiters were promoted, and nobody's lease was ended.
    async fn others_hold(&self, waiters: Vec<Waiter>, successors: Vec<Lease>) {
        let promoted = joined(waiters).await.into_iter().map(Result::unwrap);
        for lease in promoted.chain(successors) {
            lease.renew().await.unwrap();
            assert_eq!(lease.release().await.unwrap(), Released::Released);
        }
        until_nothing_is_left(&self.database).await;
    }
}

#[tokio::test]
async fn leases_with_and_without_waiters_are_released_or_handed_on() {
    let mut setup = setup().await;
    let held = setup.hold("held").await;
    let (waited, waiters) = setup.hold_waited().await;
    let released = setup.release(held.into_iter().chain(waited)).await;
    assert_eq!(released, [Released::Released; 2 * LEASES]);
    let left = locks(&setup.database).count_documents(doc! {}).await.unwrap();
    assert_eq!(left, LEASES as u64);
    setup.others_hold(waiters, Vec::new()).await;
}

/// No other lease is in the batch: then the server's count is the result of each.
#[tokio::test]
async fn releases_of_leases_an_operator_freed_report_not_held() {
    let mut setup = setup().await;
    let freed = setup.hold("freed").await;
    setup.free(&freed).await;
    setup.free(&setup.fillers).await;
    assert_eq!(setup.release(freed).await, [Released::NotHeld; LEASES]);
}

/// Where some had gone before and others were deleted, nobody knows which: only hand-offs are certain.
#[tokio::test]
async fn a_release_after_an_operator_freed_it_never_reports_released() {
    let mut setup = setup().await;
    let (held, freed) = (setup.hold("held").await, setup.hold("freed").await);
    let (waited, waiters) = setup.hold_waited().await;
    setup.free(&freed).await;
    // The release does not end a lease that somebody else holds by now.
    let others = another_manager(&setup.server, &setup.database).await;
    let successors = granted(start_calls(&others, names("freed", LEASES / 2))).await;

    let released = setup.release(held.into_iter().chain(freed).chain(waited)).await;
    let (held, rest) = released.split_at(LEASES);
    let (freed, waited) = rest.split_at(LEASES);
    assert!(held.iter().all(|it| *it != Released::NotHeld), "{held:?}");
    assert!(freed.iter().all(|it| *it != Released::Released), "{freed:?}");
    assert_eq!(waited, [Released::Released; LEASES]);
    setup.others_hold(waiters, successors).await;
}
