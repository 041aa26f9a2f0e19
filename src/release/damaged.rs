//! Tells a release that changed nothing apart from one whose document is damaged.

use std::collections::HashMap;

use mongo_lease_core::commands::{FindLeases, ReleaseTarget};
use mongo_lease_core::info::LeaseState;
use mongo_lease_core::rules::Lane;

use super::Releaser;
use crate::error::{Error, Result};
use crate::retry::{self, RetryPolicy};

/// The most leases of one query.
const NAMES_MAX: usize = 1_000;

impl Releaser {
    /// Fails if the document of this lease, which a release has not ended, is damaged.
    pub(crate) async fn check_sound(
        &self,
        target: ReleaseTarget,
        policy: RetryPolicy,
    ) -> Result<()> {
        match self.damaged(&[target], policy).await.into_iter().next() {
            Some((name, found)) => Err(Error::damaged(&name, found)),
            None => Ok(()),
        }
    }

    /// Those of the leases whose documents are damaged, by name, with the types of their expiries.
    ///
    /// A lease in shared use counts whoever its holders are: the query does not read them. Where no query is answered
    /// in time, no lease counts: then the answer to the release is all that is known.
    pub(crate) async fn damaged(
        &self,
        targets: &[ReleaseTarget],
        policy: RetryPolicy,
    ) -> HashMap<String, String> {
        let mut all = HashMap::new();
        for targets in targets.chunks(NAMES_MAX) {
            let by_name: HashMap<&str, &ReleaseTarget> =
                targets.iter().map(|target| (target.name.as_str(), target)).collect();
            let names = by_name.keys().map(|&name| name.to_owned()).collect();
            let look = FindLeases { names, lane: Lane::Critical, after: None };
            let Ok(answer) = retry::run(&self.shared.runner, look, policy).await else {
                continue;
            };
            for mut seen in answer.reply {
                if let [only] = targets {
                    // Another program's name may match without being a string.
                    seen.info.name.clone_from(&only.name);
                }
                let target = by_name.get(seen.info.name.as_str());
                let is_target = target.is_some_and(|it| it.is(&seen) || seen.info.shared);
                if let LeaseState::Damaged { found } = seen.info.state
                    && is_target
                {
                    all.insert(seen.info.name, found);
                }
            }
        }
        all
    }
}
