//! Releases in batches: each gets the result of its own lease, and waiters are promoted.

use mongo_lease::mongodb::bson::doc;
use mongo_lease::{LeaseManager, Released};

use super::{FILLERS, granted, names, start_calls};
use crate::blocked::start_releases;
use crate::common::{assert_done, builder, patient};
use crate::lent::lent_database;
use crate::patience::{joined, locks, until_nothing_is_left};
use crate::permits::queued_by;

const LEASES: usize = 10;

/// Leases that are held, that were freed by an operator, and for which others wait. Where some had gone before and
/// others were deleted, nobody knows which: only hand-offs are certain.
#[tokio::test]
async fn releases_in_a_batch_have_the_result_of_their_own_lease() {
    for are_some_freed in [false, true] {
        let (server, database) = lent_database().await;
        // With a client of its own, as in another process.
        let another_manager = async || {
            let own = database.through(&server.client().await);
            patient(LeaseManager::builder(&own)).build().await.unwrap()
        };
        let (leases, others) = (another_manager().await, another_manager().await);
        let hold =
            async |what, how_many| granted(start_calls(&leases, names(what, how_many))).await;
        // Released first, so that the others travel in a batch.
        let fillers = hold("filler", FILLERS).await;
        let (held, waited) = (hold("held", LEASES).await, hold("waited", LEASES).await);
        let freed = hold("freed", if are_some_freed { LEASES } else { 0 }).await;
        let mut waiters = Vec::new();
        for lease in &waited {
            waiters.push(queued_by(&others, |leases| leases.acquire(lease.name())).await);
        }
        let operator = builder(&database).build().await.unwrap();
        for lease in &freed {
            assert_done(operator.release(lease.name(), lease.value()).await.unwrap(), "freed");
        }
        // The release does not end a lease that somebody else holds by now.
        let successors = granted(start_calls(&others, names("freed", freed.len() / 2))).await;

        let before = server.command_counts().await;
        let all = fillers.into_iter().chain(held).chain(freed).chain(waited);
        let results = joined(start_releases(all)).await;
        let counts = server.command_counts().await.since(&before);
        // A statement each, and some of them in one command.
        assert!(counts.delete < counts.deleted, "they went alone: {counts:?}");
        let results: Vec<_> = results.into_iter().skip(FILLERS).map(Result::unwrap).collect();
        let (held, rest) = results.split_at(LEASES);
        let (freed, waited) = rest.split_at(rest.len() - LEASES);
        match are_some_freed {
            true => assert!(!held.contains(&Released::NotHeld), "{held:?}"),
            false => assert_eq!(held, [Released::Released; LEASES]),
        }
        assert!(!freed.contains(&Released::Released), "{freed:?}");
        assert_eq!(waited, [Released::Released; LEASES]);

        let left = locks(&database).count_documents(doc! {}).await.unwrap();
        assert_eq!(left, (waiters.len() + successors.len()) as u64);
        let promoted = joined(waiters).await.into_iter().map(Result::unwrap);
        for lease in promoted.chain(successors) {
            lease.renew().await.unwrap();
            assert_eq!(lease.release().await.unwrap(), Released::Released);
        }
        until_nothing_is_left(&database).await;
    }
}
