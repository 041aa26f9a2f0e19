//! A guard of the caller's transaction, and why a command that names a grant matched nothing.

use mongo_lease_core::commands::{FindHolders, FindLeases, GrantKey, Guard, RenewalTarget};
use mongo_lease_core::info::LeaseState;
use mongo_lease_core::rules::HoldEvent;
use wasm_bindgen::prelude::wasm_bindgen;

use crate::command::Command;
use crate::convert::{bytes, document, instant};
use crate::error::Error;
use crate::failed::{Failure, Fault};
use crate::failure::decode_failure;
use crate::holding::Holding;
use crate::loss::{loss_of, share_of};
use crate::reply::{Decoded, Reply};

#[wasm_bindgen]
impl Holding {
    /// The write to the document within the caller's transaction.
    pub fn guard(&self, collection: &str, sent: f64) -> Vec<u8> {
        bytes(&self.guard_command().build(collection, instant(sent)))
    }

    /// Whether the reply to a guard says that this holder still had the lease.
    #[wasm_bindgen(js_name = guarded)]
    pub fn guarded(&self, reply: &[u8], sent: f64) -> Result<bool, Failure> {
        let read = document(reply).unwrap_or_default();
        let guarded = self.guard_command().decode(&read, instant(sent));
        guarded.map(|it| it.matched > 0).map_err(|error| Failure(decode_failure(error)))
    }

    fn guard_command(&self) -> Guard {
        let RenewalTarget { key, lasts } = self.target();
        Guard { key, lasts }
    }

    /// Reads the lease, for `judge`.
    pub fn look(&self) -> Command {
        match self.is_shared() {
            true => Command::of(FindHolders { grants: vec![GrantKey::clone(&self.key)] }),
            false => Command::of(FindLeases { names: vec![self.name()], after: None }),
        }
    }

    /// Finds out why a command that names this grant matched nothing. A loss is noted. `undefined`: the grant exists
    /// and is intact.
    pub fn judge(&mut self, seen: &Reply, now: f64) -> Option<Fault> {
        let (loss, state) = match &seen.0 {
            Decoded::Holders(found) => {
                let found = found.first();
                let loss = share_of(&self.key, found).err();
                (loss, found.map(|found| found.lease.info.state.clone()))
            }
            Decoded::Leases(found) => {
                let found = found.first();
                (loss_of(&self.key, found), found.map(|found| found.info.state.clone()))
            }
            _ => return None,
        };
        match (loss, state) {
            (Some(reason), _) => {
                let _ = self.on(instant(now), HoldEvent::NotOurs, Some(reason));
                self.lost()
            }
            (None, Some(LeaseState::Damaged { found })) => {
                Some(Error::damaged(self.key.name(), found).into())
            }
            (None, _) => None,
        }
    }
}
