//! The commands that end a grant.

use mongo_lease_core::commands::{Delete, End, Form, GrantMatch, ReleaseTarget};
use mongo_lease_core::info::{LeaseInfo, LeaseState};
use mongo_lease_core::rules::{TombstoneValues, check_label};
use mongo_lease_core::spec::EndScope;
use wasm_bindgen::prelude::wasm_bindgen;

use crate::command::Command;
use crate::error::Error;
use crate::failed::Fault;
use crate::options::check_name;
use crate::reply::{Decoded, Reply};
use mongo_lease_core::commands::FindLeases;

/// Which grant to end.
#[wasm_bindgen]
#[derive(Clone)]
pub struct Target(pub(crate) ReleaseTarget);

/// In which documents a command ends the grant.
#[wasm_bindgen]
#[derive(Clone, Copy)]
pub enum Scope {
    /// Where it holds.
    Anywhere,
    /// Where somebody holds or waits beside it.
    BesideOthers,
    /// Where it holds, or waits.
    HeldOrQueued,
}

#[wasm_bindgen]
impl Target {
    /// The lease with this name and this value, whoever holds it. The checks are those of the library's `release`.
    #[wasm_bindgen(js_name = byValue)]
    pub fn by_value(name: String, value: String) -> Result<Target, Fault> {
        check_name(&name)?;
        check_label(&value).map_err(|reason| Error::invalid_option("value", reason))?;
        if LeaseInfo::is_shared_value(&value) {
            let reason = "is that of a lease that several hold: name one of its holders";
            return Err(Error::invalid_option("value", reason).into());
        }
        Ok(Target(ReleaseTarget { name, value, grant: GrantMatch::Any, form: Form::Either }))
    }

    /// The lease's name.
    pub fn name(&self) -> String {
        self.0.name.clone()
    }

    /// Deletes the document where the target is the only holder and the queue is empty.
    pub fn delete(&self) -> Command {
        Command::of(Delete { targets: vec![self.0.clone()] })
    }

    /// Ends the grant, and admits as many waiters as fit. `randomness` must be fresh.
    pub fn end(&self, scope: Scope, randomness: String) -> Command {
        let scope = match scope {
            Scope::Anywhere => EndScope::Anywhere,
            Scope::BesideOthers => EndScope::BesideOthers,
            Scope::HeldOrQueued => EndScope::HeldOrQueued,
        };
        let values = TombstoneValues::new(randomness);
        Command::of(End { targets: vec![self.0.clone()], scope, values })
    }

    /// Reads the lease, for `damaged`.
    pub fn find(&self) -> Command {
        Command::of(FindLeases { names: vec![self.0.name.clone()], after: None })
    }

    /// The error where the lease's document is damaged, so that nothing was written.
    pub fn damaged(&self, seen: &Reply) -> Option<Fault> {
        let Decoded::Leases(found) = &seen.0 else { return None };
        let mut seen = found.first()?.clone();
        // Another program's name may match without being a string.
        seen.info.name.clone_from(&self.0.name);
        let is_target = self.0.is(&seen) || seen.info.shared;
        let LeaseState::Damaged { found } = seen.info.state else { return None };
        is_target.then(|| Error::damaged(&self.0.name, found).into())
    }
}
