//! The commands that end a grant.

use std::time::Duration;

use mongo_lease_core::commands::{Delete, End, EndLater, Form, GrantMatch, ReleaseTarget};
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
pub struct Target {
    pub(crate) target: ReleaseTarget,
    /// How long its name stays taken, counted from the grant.
    pub(crate) hold_at_least: Option<Duration>,
}

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

impl Target {
    pub(crate) fn of(target: ReleaseTarget) -> Target {
        Target { target, hold_at_least: None }
    }
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
        let grant = GrantMatch::Any;
        Ok(Target::of(ReleaseTarget { name, value, grant, form: Form::Either }))
    }

    /// The lease's name.
    pub fn name(&self) -> String {
        self.target.name.clone()
    }

    /// Deletes the document where the target is the only holder and the queue is empty.
    pub fn delete(&self) -> Command {
        Command::shaped_of(Delete { targets: vec![self.target.clone()] })
    }

    /// Ends the grant, and admits as many waiters as fit. `randomness` must be fresh.
    pub fn end(&self, scope: Scope, randomness: String) -> Command {
        let scope = match scope {
            Scope::Anywhere => EndScope::Anywhere,
            Scope::BesideOthers => EndScope::BesideOthers,
            Scope::HeldOrQueued => EndScope::HeldOrQueued,
        };
        let values = TombstoneValues::new(randomness);
        Command::shaped_of(End { targets: vec![self.target.clone()], scope, values })
    }

    /// Whether its name stays taken after the release.
    #[wasm_bindgen(js_name = keepsName)]
    pub fn keeps_name(&self) -> bool {
        self.hold_at_least.is_some()
    }

    /// Ends the grant, and reserves its name until its least time is over. `randomness` must be fresh.
    #[wasm_bindgen(js_name = endLater)]
    pub fn end_later(&self, randomness: String) -> Command {
        let hold_at_least = self.hold_at_least.unwrap_or_default();
        let values = TombstoneValues::new(randomness);
        Command::of(EndLater { target: self.target.clone(), hold_at_least, values })
    }

    /// Reads the lease, for `damaged`.
    pub fn find(&self) -> Command {
        Command::of(FindLeases { names: vec![self.target.name.clone()], after: None })
    }

    /// The error where the lease's document is damaged, so that nothing was written.
    pub fn damaged(&self, seen: &Reply) -> Option<Fault> {
        let Decoded::Leases(found) = &seen.0 else { return None };
        let mut seen = found.first()?.clone();
        // Another program's name may match without being a string.
        seen.info.name.clone_from(&self.target.name);
        let is_target = self.target.is(&seen) || seen.info.shared;
        let LeaseState::Damaged { found } = seen.info.state else { return None };
        is_target.then(|| Error::damaged(&self.target.name, found).into())
    }
}
