//! A renewal of many leases in one command, and what becomes of each of them.

use std::collections::BTreeSet;
use std::sync::Arc;

use mongo_lease_core::commands::{
    FindHolders, FindLeases, GrantKey, RenewHolders, RenewMany, RenewalTarget,
};
use mongo_lease_core::rules::{HoldEvent, Instant, pieces};
use wasm_bindgen::prelude::wasm_bindgen;

use crate::command::Command;
use crate::convert::instant;
use crate::holding::{HoldStep, Holding};
use crate::loss::{loss_of, share_of};
use crate::reply::{Decoded, Reply};

/// Leases that one command renews: all exclusive, or none.
#[wasm_bindgen]
pub struct Renewal {
    is_shared: bool,
    grants: Vec<RenewalTarget>,
}

/// The state of a lease whose renewal may not have matched it, as a look has shown it.
#[wasm_bindgen]
#[derive(Clone, Copy)]
pub enum Looked {
    /// It was renewed.
    Renewed,
    /// It is lost: `hold` has been told.
    Gone,
    /// Its document is damaged, or another lease in it kept it from being renewed.
    NotRenewed,
}

impl Renewal {
    fn names(&self) -> BTreeSet<&str> {
        self.grants.iter().map(|grant| grant.key.name()).collect()
    }
}

#[wasm_bindgen]
impl Renewal {
    /// Without leases.
    #[wasm_bindgen(constructor)]
    pub fn new(is_shared: bool) -> Renewal {
        Renewal { is_shared, grants: Vec::new() }
    }

    /// Adds a lease.
    pub fn add(&mut self, holding: &Holding) {
        self.grants.push(holding.target());
    }

    /// How many documents it matches if all leases are still there.
    pub fn documents(&self) -> usize {
        if self.is_shared { self.names().len() } else { self.grants.len() }
    }

    /// The command.
    pub fn command(&self) -> Command {
        let grants = self.grants.clone();
        match self.is_shared {
            true => Command::of(RenewHolders { grants }),
            false => Command::of(RenewMany { grants }),
        }
    }

    /// The read that tells which leases did not match.
    pub fn look(&self) -> Command {
        if self.is_shared {
            let key = |grant: &RenewalTarget| GrantKey::clone(&grant.key);
            return Command::of(FindHolders { grants: self.grants.iter().map(key).collect() });
        }
        let names = self.names().into_iter().map(str::to_owned).collect();
        Command::of(FindLeases { names, after: None })
    }

    /// The pieces in which it is sent again when one of its documents is blocked: of each lease, the number of its
    /// piece. One piece: that document is blocked.
    pub fn pieces(&self) -> Vec<u32> {
        let keys: Vec<(usize, Arc<GrantKey>)> =
            self.grants.iter().map(|grant| Arc::clone(&grant.key)).enumerate().collect();
        let mut places = vec![0; keys.len()];
        if let Ok(pieces) = pieces(keys, |(_, key)| key.name()) {
            for (number, piece) in pieces.into_iter().enumerate() {
                for (place, _) in piece {
                    places[place] = u32::try_from(number).unwrap_or(u32::MAX);
                }
            }
        }
        places
    }
}

#[wasm_bindgen]
impl Holding {
    /// The state of this lease by the look, where its renewal was sent at `sent`. The echo tells which documents that very
    /// command has written.
    #[wasm_bindgen(js_name = afterLook)]
    pub fn after_look(&mut self, seen: &Reply, sent: f64, now: f64) -> Looked {
        let (now, sent) = (instant(now), instant(sent));
        let echo = match &seen.0 {
            Decoded::Leases(found) => {
                let found = found.iter().find(|seen| seen.info.name == self.key.name());
                match loss_of(&self.key, found) {
                    Some(reason) => Err(reason),
                    None => Ok(found.and_then(|seen| seen.sent)),
                }
            }
            Decoded::Holders(found) => {
                let found = found.iter().find(|seen| seen.lease.info.name == self.key.name());
                share_of(&self.key, found).map(|holder| holder.sent)
            }
            _ => return Looked::NotRenewed,
        };
        match echo {
            Err(reason) => {
                let _ = self.on(now, HoldEvent::NotOurs, Some(reason));
                Looked::Gone
            }
            Ok(echo) if is_echo(echo, sent) => {
                let _: HoldStep = self.on(now, HoldEvent::Renewed(sent), None);
                Looked::Renewed
            }
            Ok(_) => Looked::NotRenewed,
        }
    }
}

fn is_echo(echo: Option<i64>, sent: Instant) -> bool {
    echo.and_then(|echo| u64::try_from(echo).ok()) == Some(sent.as_micros())
}
