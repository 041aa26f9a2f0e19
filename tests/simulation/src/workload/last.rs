//! The last call of each process, which waits after all faults: by its end a change stream is open again.

use std::sync::Arc;

use rand::SeedableRng;
use rand::rngs::StdRng;

use super::Worker;
use super::call::Style;
use super::hold::{Plan, hold};
use super::wish::Wish;

/// The lease that all of them ask for. One of them holds it.
pub(crate) const LAST: &str = "last";
/// How long they wait, in milliseconds: the longest delay between two tries to open a stream, and a moment until it is
/// relied on.
pub(crate) const LAST_MS: u64 = 12_000;
/// How much longer the holder holds it.
const LONGER_MS: u64 = 2_000;
const TTL_MS: u64 = 3_000;

impl Worker {
    pub(crate) async fn last(self: Arc<Self>) {
        let mut random = StdRng::seed_from_u64(!self.seed);
        let wish = Wish::of(LAST.to_owned());
        let permits = wish.permits;
        let wait = Style::DropsAfter { wait: 2 * LAST_MS, after: LAST_MS };
        let granted = self.acquire(&mut random, wish, TTL_MS, wait, true).await;
        if let Some((call, lease)) = granted {
            let plan = Plan::with_transactions(LAST_MS + LONGER_MS);
            hold(&self, &mut random, call, (lease, permits), plan).await;
        }
    }
}
