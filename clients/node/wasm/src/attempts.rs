//! The attempts of one acquire call, and what has to be cleaned up.

use mongo_lease_core::commands::{Form, GrantMatch, ReleaseTarget};
use mongo_lease_core::rules::{Accepted, Attempts as Rules, CleanupAction, Effect, GrantId};
use wasm_bindgen::prelude::wasm_bindgen;

use crate::convert::instant;
use crate::failed::Failure;
use crate::holding::Holding;
use crate::release::Target;
use crate::reply::{Decoded, Reply};
use crate::request::Request;
use mongo_lease_core::commands::AcquireReply;

/// The attempts of one call.
#[wasm_bindgen]
pub struct Attempts {
    rules: Rules,
    request: Request,
    /// The grant that the caller accepted.
    taken: Option<GrantId>,
}

/// The cleanup to be done now.
#[wasm_bindgen]
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Cleanup {
    /// None.
    Nothing,
    /// Release the name with this call's value, and leave the queue.
    GiveBack,
    /// Leave the queue.
    LeaveQueue,
}

impl From<CleanupAction> for Cleanup {
    fn from(action: CleanupAction) -> Cleanup {
        match action {
            CleanupAction::Nothing => Cleanup::Nothing,
            CleanupAction::GiveBack => Cleanup::GiveBack,
            CleanupAction::LeaveQueue => Cleanup::LeaveQueue,
        }
    }
}

#[wasm_bindgen]
impl Attempts {
    /// No attempt yet.
    #[wasm_bindgen(constructor)]
    pub fn new(request: &Request) -> Attempts {
        Attempts { rules: Rules::default(), request: request.clone(), taken: None }
    }

    /// Registers a new attempt, and returns its number.
    pub fn start(&mut self) -> u32 {
        self.rules.start()
    }

    /// Whether any attempt was started.
    #[wasm_bindgen(js_name = hasStarted)]
    pub fn has_started(&self) -> bool {
        self.rules.has_started()
    }

    /// An attempt was answered.
    pub fn answered(&mut self, reply: &Reply) -> Cleanup {
        let Decoded::Acquire(reply) = &reply.0 else { return Cleanup::Nothing };
        self.rules
            .answered(match reply.as_ref() {
                AcquireReply::Granted(_) | AcquireReply::UseSlowForm { maybe_granted: true } => {
                    Effect::MaybeGranted
                }
                AcquireReply::Refused(refused) if refused.ahead.is_some() => {
                    Effect::Joined(refused.sent)
                }
                AcquireReply::Refused(_) | AcquireReply::UseSlowForm { maybe_granted: false } => {
                    Effect::Nothing
                }
            })
            .into()
    }

    /// An attempt has failed.
    pub fn failed(&mut self, failure: &Failure) -> Cleanup {
        let effect = match failure.0.outcome.maybe_applied {
            true => Effect::MaybeGranted,
            false => Effect::Nothing,
        };
        self.rules.answered(effect).into()
    }

    /// The caller accepts this grant. Returns false if the caller has gone.
    pub fn accept(&mut self, granted: &Holding, is_promotion: bool, sent: f64) -> bool {
        self.taken = Some(GrantId::from(granted.key.grant_id()));
        self.rules.accept(accepted(is_promotion, sent))
    }

    /// Whether the call can produce no grant except the one about to be accepted.
    #[wasm_bindgen(js_name = hasOneGrantOnly)]
    pub fn has_one_grant_only(&self, is_promotion: bool, sent: f64) -> bool {
        self.rules.has_one_grant_only(accepted(is_promotion, sent))
    }

    /// Whether only a queue entry is left, which another call may take over.
    #[wasm_bindgen(js_name = hasOnlyAnEntry)]
    pub fn has_only_an_entry(&self) -> bool {
        self.request.has_new_value() && self.rules.is_queued_only()
    }

    /// Another call has taken over the queue entry.
    pub fn succeeded(&mut self) -> Cleanup {
        self.rules.succeeded().into()
    }

    /// The caller has gone.
    pub fn abandon(&mut self) -> Cleanup {
        self.rules.abandon().into()
    }

    /// The lease has ended, and so has every grant up to now.
    pub fn settle(&mut self) -> Cleanup {
        self.rules.settle().into()
    }

    /// The target of a cleanup: every grant of the call but the accepted one.
    #[wasm_bindgen(js_name = toGiveBack)]
    pub fn to_give_back(&self) -> Target {
        let request = &self.request.request;
        let (call_id, except) = (request.call_id.clone(), self.taken.clone());
        Target::of(ReleaseTarget {
            name: request.name.clone(),
            value: request.value.clone(),
            grant: GrantMatch::Call { call_id, except },
            form: Form::of(request.permits),
        })
    }
}

fn accepted(is_promotion: bool, sent: f64) -> Accepted {
    match is_promotion {
        true => Accepted::Promotion(instant(sent)),
        false => Accepted::Answer(instant(sent)),
    }
}
