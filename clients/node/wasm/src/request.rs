//! One acquire call: its options, and its attempts.

use std::sync::Arc;
use std::time::Duration;

use mongo_lease_core::bson::Document;
use mongo_lease_core::commands::{
    AcquireRequest, FastAcquire, FastAdmit, QueueOptions, SlowAcquire,
};
use mongo_lease_core::rules::{FastForm, HoldOptions, millis_up};
use wasm_bindgen::JsValue;
use wasm_bindgen::prelude::wasm_bindgen;

use crate::command::Command;
use crate::convert::{millis, option_document};
use crate::error::Error;
use crate::failed::Fault;
use crate::manager::{Manager, count, flag, text, time};
use crate::options::{
    check_hold, check_metadata, check_name, check_owner, check_permits, check_share, check_value,
};

/// The options of a call, unchecked.
#[wasm_bindgen]
pub struct CallSettings {
    ttl: Option<Duration>,
    hold: HoldOptions,
    hold_at_least: Option<Duration>,
    owner: Option<String>,
    value: Option<String>,
    metadata: Document,
    limit: Option<u32>,
    permits: Option<u32>,
    is_shared: bool,
}

#[wasm_bindgen]
impl CallSettings {
    /// The defaults.
    #[wasm_bindgen(constructor)]
    #[allow(clippy::new_without_default, reason = "JavaScript makes it")]
    pub fn new() -> CallSettings {
        let hold = HoldOptions { renews: true, max_hold: None };
        CallSettings {
            ttl: None,
            hold,
            hold_at_least: None,
            owner: None,
            value: None,
            metadata: Document::new(),
            limit: None,
            permits: None,
            is_shared: false,
        }
    }

    /// Sets an option, by the library's name of it.
    pub fn set(&mut self, option: &str, value: &JsValue) -> Result<(), Fault> {
        match option {
            "ttl" => self.ttl = Some(time(value)),
            "renew" => self.hold.renews = flag(value),
            "max_hold" => self.hold.max_hold = Some(time(value)),
            "hold_at_least" => self.hold_at_least = Some(time(value)),
            "owner" => self.owner = Some(text(value)),
            "value" => self.value = Some(text(value)),
            "limit" => self.limit = Some(count(value)),
            "permits" => self.permits = Some(count(value)),
            "shared" => self.is_shared = flag(value),
            // TypeScript refuses it first.
            _ => return Err(Error::unsupported(format!("the option {option}")).into()),
        }
        Ok(())
    }

    /// Sets the metadata.
    #[wasm_bindgen(js_name = setMetadata)]
    pub fn set_metadata(&mut self, metadata: &[u8]) -> Result<(), Fault> {
        self.metadata = option_document("metadata", metadata)?;
        Ok(())
    }
}

/// One acquire call, the same for all of its attempts.
#[wasm_bindgen]
#[derive(Clone)]
pub struct Request {
    pub(crate) request: Arc<AcquireRequest>,
    pub(crate) hold: HoldOptions,
    pub(crate) hold_at_least: Option<Duration>,
}

#[wasm_bindgen]
impl Request {
    /// Checks all options, which are the defaults without `settings`. `randomness` must be fresh.
    #[wasm_bindgen(constructor)]
    pub fn new(
        manager: &Manager,
        name: String,
        settings: Option<CallSettings>,
        randomness: &str,
        has_oplog: bool,
        waits: bool,
    ) -> Result<Request, Fault> {
        let CallSettings {
            ttl,
            hold,
            hold_at_least,
            owner,
            value,
            metadata,
            limit,
            permits,
            is_shared,
        } = settings.unwrap_or_else(CallSettings::new);
        check_name(&name)?;
        // The library's check is of what serde has made, or why it has not.
        let metadata = check_metadata(&Ok(metadata)).cloned()?;
        check_hold(hold.max_hold, hold_at_least)?;
        if let Some(label) = &owner {
            check_owner(label)?;
        }
        if let Some(value) = &value {
            check_value(value)?;
        }
        let permits = check_permits(limit, permits, is_shared)?;
        if !permits.is_exclusive() {
            check_share(&metadata, hold_at_least)?;
            if !has_oplog {
                // As `engine/mod.rs` says it.
                let missing = "permits and shared leases need a replica set: the tokens of their \
                               holders are times of its oplog";
                return Err(Error::unsupported(missing).into());
            }
        }
        let timing = match ttl {
            Some(ttl) => manager.timing_for(ttl)?,
            None => Arc::clone(&manager.timing),
        };
        let call_id = manager.id().call(randomness);
        let value = value.unwrap_or_else(|| call_id.to_string());
        let owner = match owner {
            Some(label) => format!("{label}{}", manager.process()).into(),
            None => Arc::clone(&manager.owner),
        };
        let (waiter_ttl, max_waiting) =
            (manager.options.tuning.waiter_ttl, manager.options.tuning.max_waiting);
        let joins = QueueOptions { waiter_ttl: millis_up(waiter_ttl), max_waiting };
        let joins = waits.then_some(joins);
        let request = AcquireRequest {
            name,
            value,
            call_id,
            owner,
            metadata,
            permits,
            timing,
            has_oplog,
            joins,
        };
        Ok(Request { request: Arc::new(request), hold, hold_at_least })
    }

    /// The lease's name.
    pub fn name(&self) -> String {
        self.request.name.clone()
    }

    /// The holder's value.
    pub fn value(&self) -> String {
        self.request.value.clone()
    }

    /// The call's id.
    #[wasm_bindgen(js_name = callId)]
    pub fn call_id(&self) -> String {
        self.request.call_id.to_string()
    }

    /// Whether nobody fits beside it.
    #[wasm_bindgen(js_name = isExclusive)]
    pub fn is_exclusive(&self) -> bool {
        self.request.permits.is_exclusive()
    }

    /// How many calls of one process that ask for this wait in the queue at the same time.
    #[wasm_bindgen(js_name = activeCalls)]
    pub fn active_calls(&self) -> u32 {
        self.request.permits.active_calls()
    }

    /// Whether its value is new, and its own.
    #[wasm_bindgen(js_name = hasNewValue)]
    pub fn has_new_value(&self) -> bool {
        self.request.value == self.request.call_id.as_str()
    }

    /// How long an attempt may take.
    #[wasm_bindgen(js_name = attemptTimeout)]
    pub fn attempt_timeout(&self) -> f64 {
        millis(self.request.timing.attempt_timeout)
    }

    /// For how long the server may count a grant that is not renewed, and an entry.
    pub fn lasts(&self) -> f64 {
        millis(self.request.timing.ttl + self.request.timing.max_clock_skew)
    }

    /// A fast attempt: it grants a free lease, or admits the caller beside others; otherwise it changes nothing.
    pub fn fast(&self, attempt_no: u32) -> Command {
        let request = Arc::clone(&self.request);
        if request.permits.is_exclusive() {
            let (form, resends, first_sent) = (FastForm::LookUp, 0, None);
            Command::shaped_of(FastAcquire { request, attempt_no, form, resends, first_sent })
        } else {
            Command::of(FastAdmit { request, attempt_no })
        }
    }

    /// An attempt that can join the queue.
    pub fn slow(&self, attempt_no: u32, predecessor: Option<String>) -> Command {
        let request = Arc::clone(&self.request);
        Command::shaped_of(SlowAcquire { request, attempt_no, predecessor })
    }
}
