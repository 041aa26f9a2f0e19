//! A lease that is handed to another process: its key, and how it is taken up there.

use std::sync::Arc;

use mongo_lease_core::commands::{FindLeases, GrantKey, Resume};
use mongo_lease_core::info::LeaseState;
use mongo_lease_core::rules::{GrantId, HoldOptions, Holder, from_millis};
use wasm_bindgen::prelude::wasm_bindgen;

use crate::command::Command;
use crate::error::{Error, LostReason};
use crate::failed::Fault;
use crate::holding::Holding;
use crate::loss::loss_of;
use crate::manager::Manager;
use crate::options::{check_name, check_value};
use crate::reply::{Decoded, Reply};
use crate::token::Token;

/// A key that is used up: it takes a detached lease into this process.
#[wasm_bindgen]
pub struct Resuming {
    resume: Resume,
    token: Token,
}

impl Resuming {
    /// The grant from now on.
    fn grant(&self) -> GrantKey {
        let key = &self.resume.key;
        GrantKey::new(key.name(), key.value(), &self.resume.fresh_id)
    }

    fn lost(&self, reason: LostReason) -> Fault {
        Error::Lost { name: self.resume.key.name().to_owned(), reason }.into()
    }
}

#[wasm_bindgen]
impl Resuming {
    /// Checks the parts of a key. A forged one might name documents that are nobody's, or several holders'.
    /// `randomness` must be fresh.
    #[wasm_bindgen(constructor)]
    pub fn new(
        manager: &Manager,
        name: &str,
        value: &str,
        grant: &str,
        token: &str,
        randomness: &str,
    ) -> Result<Resuming, Fault> {
        check_name(name)?;
        check_value(value)?;
        let no_token = |_| Error::invalid_option("key", "its token is not a decimal number");
        let token = token.parse().map_err(no_token)?;
        let key = GrantKey::new(name, value, &GrantId::from(grant));
        let fresh_id = manager.id().call(randomness).resumed_grant();
        let timing = Arc::clone(&manager.timing);
        Ok(Resuming { resume: Resume { key, fresh_id, ttl: None, timing }, token })
    }

    /// The command.
    pub fn command(&self) -> Command {
        Command::of(self.resume.clone())
    }

    /// The token of the grant.
    pub fn token(&self) -> u64 {
        self.token.as_u64()
    }

    /// The lease that is held from now on, where the reply shows that; `undefined` where nothing matched the key.
    pub fn holding(&self, reply: &Reply, manager: &Manager) -> Result<Option<Holding>, Fault> {
        let Decoded::Resumed(Some(resumed)) = &reply.0 else { return Ok(None) };
        let (sent, seen) = resumed.as_ref();
        // The command has written it, in place of a damaged one.
        let ttl = seen.ttl_ms.map_or(manager.timing.ttl, from_millis);
        let timing = manager.timing_for(ttl)?;
        let hold = HoldOptions { renews: true, max_hold: None };
        let holder = Holder::granted(&timing, hold, *sent);
        Ok(Some(Holding::new(self.grant(), &timing, holder)))
    }

    /// Whether the reply shows that nobody waits for the lease.
    #[wasm_bindgen(js_name = isAlone)]
    pub fn is_alone(&self, reply: &Reply) -> bool {
        matches!(&reply.0, Decoded::Resumed(Some(resumed)) if resumed.1.info.waiting == 0)
    }

    /// Reads the lease, for `refusal`.
    pub fn look(&self) -> Command {
        Command::of(FindLeases { names: vec![self.resume.key.name().to_owned()], after: None })
    }

    /// Why nothing matched the key, by that look.
    pub fn refusal(&self, seen: &Reply) -> Fault {
        let Decoded::Leases(found) = &seen.0 else { return self.expired() };
        let found = found.first();
        match loss_of(&self.resume.key, found) {
            // An earlier attempt of ours, whose answer was lost, may have resumed it, and it has expired since.
            Some(LostReason::Resumed) if loss_of(&self.grant(), found).is_none() => self.expired(),
            Some(reason) => self.lost(reason),
            None => match found.map(|seen| &seen.info.state) {
                Some(LeaseState::Damaged { found }) => {
                    Error::damaged(self.resume.key.name(), found.clone()).into()
                }
                _ => self.expired(),
            },
        }
    }

    /// The lease has expired before it was resumed.
    pub fn expired(&self) -> Fault {
        self.lost(LostReason::NotRenewed { stood_still: None })
    }
}
