//! Commands that differ from others of their shape in some texts alone, and in when they are sent.
//!
//! An acquire or a release has 60 to 300 fields. A few texts are new each time, such as the name and the value.
//! JavaScript reads the document of a specimen once for each shape, and puts the texts of a command where those of the
//! specimen are: that is several times faster than to build the document here and to read it there.

use std::sync::Arc;

use mongo_lease_core::commands::{
    AcquireRequest, Delete, End, FastAcquire, GrantMatch, QueueOptions, ReleaseTarget, SlowAcquire,
};
use mongo_lease_core::rules::{CallId, GrantId, Timing, TombstoneValues};
use wasm_bindgen::prelude::wasm_bindgen;

use crate::command::{AnyCommand, Command};

/// A command that may have a shape.
pub(crate) trait Shaped: AnyCommand {
    /// Names everything in the document but the texts and the time of sending. `None` if it has to be built anew.
    fn shape(&self) -> Option<String>;
    /// The texts, each of which stands somewhere in the document as a whole.
    fn texts(&self) -> Vec<String>;
    /// A command of the same shape, of which each text contains this mark.
    fn specimen(&self, mark: &str) -> Command;
}

#[wasm_bindgen]
impl Command {
    /// The documents of two commands with the same shape differ only in `texts` and in the time of sending.
    /// `undefined` if the document has to be built anew.
    pub fn shape(&self) -> Option<String> {
        self.shaped()?.shape()
    }

    /// The texts of a command with a shape, in an order that is the same for all commands of this shape.
    pub fn texts(&self) -> Vec<String> {
        self.shaped().map(Shaped::texts).unwrap_or_default()
    }

    /// A command of the same shape, of which each text contains `mark`.
    pub fn specimen(&self, mark: &str) -> Option<Command> {
        Some(self.shaped()?.specimen(mark))
    }
}

impl Shaped for FastAcquire {
    fn shape(&self) -> Option<String> {
        let FastAcquire { request, attempt_no: _, form, resends, first_sent: _ } = self;
        of_request("fast", request)
            .filter(|_| *resends == 0)
            .map(|shape| format!("{form:?} {shape}"))
    }

    fn texts(&self) -> Vec<String> {
        texts_of(&self.request, &self.grant_id())
    }

    fn specimen(&self, mark: &str) -> Command {
        Command::shaped_of(FastAcquire { request: marked(&self.request, mark), ..self.clone() })
    }
}

impl Shaped for SlowAcquire {
    fn shape(&self) -> Option<String> {
        let SlowAcquire { request, attempt_no: _, predecessor } = self;
        of_request("slow", request).filter(|_| predecessor.is_none())
    }

    fn texts(&self) -> Vec<String> {
        texts_of(&self.request, &self.request.call_id.grant(self.attempt_no))
    }

    fn specimen(&self, mark: &str) -> Command {
        Command::shaped_of(SlowAcquire { request: marked(&self.request, mark), ..self.clone() })
    }
}

impl Shaped for Delete {
    fn shape(&self) -> Option<String> {
        let Delete { targets } = self;
        of_target("delete", targets)
    }

    fn texts(&self) -> Vec<String> {
        self.targets.iter().flat_map(texts_of_target).collect()
    }

    fn specimen(&self, mark: &str) -> Command {
        let targets = self.targets.iter().map(|target| marked_target(target, mark)).collect();
        Command::shaped_of(Delete { targets })
    }
}

impl Shaped for End {
    fn shape(&self) -> Option<String> {
        let End { targets, scope, values: _ } = self;
        Some(format!("{scope:?} {}", of_target("end", targets)?))
    }

    fn texts(&self) -> Vec<String> {
        let targets = self.targets.iter().flat_map(texts_of_target);
        targets.chain([self.values.of_statement(0)]).collect()
    }

    fn specimen(&self, mark: &str) -> Command {
        let targets = self.targets.iter().map(|target| marked_target(target, mark)).collect();
        let values = TombstoneValues::new(mark.to_owned());
        Command::shaped_of(End { targets, scope: self.scope, values })
    }
}

/// The shape of an attempt. One with metadata has none: they may differ from call to call.
fn of_request(kind: &str, request: &AcquireRequest) -> Option<String> {
    let AcquireRequest {
        name: _,
        value: _,
        call_id: _,
        owner: _,
        metadata,
        permits,
        timing,
        has_oplog,
        joins,
    } = request;
    let Timing {
        ttl,
        max_clock_skew,
        margin: _,
        renew_after: _,
        renew_slack: _,
        attempt_timeout: _,
    } = &**timing;
    if !metadata.is_empty() {
        return None;
    }
    // No text of the user's is in it, and each part is there in all: two commands cannot have one shape by chance.
    let joins = joins.map(|QueueOptions { waiter_ttl, max_waiting }| (waiter_ttl, max_waiting));
    let (count, limit) = (permits.count(), permits.limit());
    let (ttl, skew) = (ttl.as_nanos(), max_clock_skew.as_nanos());
    Some(format!("{kind} {count} {limit} {ttl} {skew} {has_oplog} {joins:?}"))
}

fn texts_of(request: &AcquireRequest, grant_id: &GrantId) -> Vec<String> {
    let owner = request.owner.to_string();
    vec![request.name.clone(), request.value.clone(), grant_id.as_str().to_owned(), owner]
}

fn marked(request: &AcquireRequest, mark: &str) -> Arc<AcquireRequest> {
    Arc::new(AcquireRequest {
        name: format!("name {mark}"),
        value: format!("value {mark}"),
        call_id: CallId::from(format!("call {mark}").as_str()),
        owner: format!("owner {mark}").into(),
        ..request.clone()
    })
}

/// The shape of the end of one grant that is known. Whatever the call may have been granted has none.
fn of_target(kind: &str, targets: &[ReleaseTarget]) -> Option<String> {
    let [ReleaseTarget { name: _, value: _, grant: GrantMatch::Grant(_), form }] = targets else {
        return None;
    };
    Some(format!("{kind} {form:?}"))
}

fn texts_of_target(target: &ReleaseTarget) -> Vec<String> {
    let GrantMatch::Grant(id) = &target.grant else { return Vec::new() };
    vec![target.name.clone(), target.value.clone(), id.as_str().to_owned()]
}

fn marked_target(target: &ReleaseTarget, mark: &str) -> ReleaseTarget {
    ReleaseTarget {
        name: format!("name {mark}"),
        value: format!("value {mark}"),
        grant: GrantMatch::Grant(GrantId::from(format!("grant {mark}").as_str())),
        form: target.form,
    }
}
