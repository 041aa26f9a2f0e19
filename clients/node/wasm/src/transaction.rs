//! A transaction under a lease: its first operation, how it stands to the renewals, and its commit.

use std::time::Duration;

use mongo_lease_core::commands::{EmptyRead, KillSession};
use mongo_lease_core::rules::{
    COMMIT_TIMEOUT, Commit as Rules, CommitAction, CommitAnswer, HoldEvent,
};
use wasm_bindgen::prelude::wasm_bindgen;

use crate::convert::{bytes, document, duration, instant, micros, millis};
use crate::error::Error;
use crate::failed::{Failure, Fault};
use crate::failure::{Cause, driver_outcome};
use crate::holding::{HoldStep, Holding};

#[wasm_bindgen]
impl Holding {
    /// The first operation of a transaction: it reads nothing.
    #[wasm_bindgen(js_name = beginTransaction)]
    pub fn begin_transaction(collection: &str) -> Vec<u8> {
        bytes(&EmptyRead.build(collection))
    }

    /// The command that aborts the transaction of the session with this id.
    #[wasm_bindgen(js_name = killSession)]
    pub fn kill_session(id: &[u8]) -> Vec<u8> {
        bytes(&KillSession { id: document(id).unwrap_or_default() }.build())
    }

    /// A transaction under the lease begins: renewals are held back.
    #[wasm_bindgen(js_name = onTransactionBegun)]
    pub fn on_transaction_begun(&mut self, now: f64) -> HoldStep {
        self.on(instant(now), HoldEvent::TransactionBegun, None)
    }

    /// It has ended, or will in a moment.
    #[wasm_bindgen(js_name = onTransactionEnded)]
    pub fn on_transaction_ended(&mut self, now: f64) -> HoldStep {
        self.on(instant(now), HoldEvent::TransactionEnded, None)
    }

    /// Until when a renewal may still be answered that was sent and has no answer.
    #[wasm_bindgen(js_name = renewalUnderWay)]
    pub fn renewal_under_way(&self) -> Option<f64> {
        self.holder.renewal_under_way(&self.timing).map(micros)
    }

    /// How long the lease is valid without a renewal, in milliseconds.
    pub fn validity(&self) -> f64 {
        millis(self.timing.validity())
    }

    /// The error of a transaction that was open for longer than that.
    #[wasm_bindgen(js_name = tooLong)]
    pub fn too_long(&self) -> Fault {
        Error::TransactionTooLong { name: self.name(), ttl: self.timing.ttl }.into()
    }

    /// The error of a transaction whose commit was sent, where nobody has told whether it was carried out.
    #[wasm_bindgen(js_name = commitUnknown)]
    pub fn commit_unknown(&self, last: Option<Failure>) -> Fault {
        let source = last.and_then(|Failure(failed)| match failed.cause {
            Cause::Driver(error) => Some(error),
            _ => None,
        });
        Error::CommitUnknown { name: self.name(), source }.into()
    }
}

/// What to do after an answer to a commit.
#[wasm_bindgen]
#[derive(Clone, Copy)]
pub enum CommitStep {
    /// Send it again after the pause.
    Repeat,
    /// It is not committed.
    NotCommitted,
    /// The outcome is unknown, and nothing more is sent.
    GiveUp,
}

/// A commit that was sent.
#[wasm_bindgen]
pub struct Commit(Rules);

#[wasm_bindgen]
impl Commit {
    /// It is sent `now`.
    #[wasm_bindgen(constructor)]
    pub fn new(now: f64) -> Commit {
        Commit(Rules::sent(instant(now)))
    }

    /// How long the server may take for it, and its caller waits for it, in milliseconds.
    pub fn timeout() -> f64 {
        millis(COMMIT_TIMEOUT)
    }

    /// When its caller is told at the latest.
    pub fn deadline(&self) -> f64 {
        micros(self.0.deadline())
    }

    /// It has failed. `pause` is how long to wait before a repetition, in milliseconds.
    #[wasm_bindgen(js_name = onFailed)]
    pub fn on_failed(&mut self, now: f64, failure: &Failure, pause: f64) -> CommitStep {
        let answer = match &failure.0.cause {
            Cause::Driver(error) => {
                let has_label = |label: &str| error.contains_label(label);
                CommitAnswer::of_error(has_label, failure.server_code(), driver_outcome(error))
            }
            _ => CommitAnswer::Unknown { may_repeat: false },
        };
        let pause: Duration = duration(pause);
        match self.0.on(instant(now), answer, pause) {
            CommitAction::Repeat(_) => CommitStep::Repeat,
            CommitAction::NotCommitted => CommitStep::NotCommitted,
            CommitAction::GiveUp | CommitAction::Committed => CommitStep::GiveUp,
        }
    }
}
