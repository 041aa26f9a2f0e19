//! Commands that differ from others of their shape in some texts alone, and in when they are sent.
//!
//! An acquire or a release has 60 to 300 fields. A few texts are new each time, such as the name and the value.
//! JavaScript reads the document of a specimen once for each shape, and puts the texts of a command where those of the
//! specimen are: that is several times faster than to build the document here and to read it there.

use std::cell::RefCell;
use std::sync::Arc;
use std::time::Duration;

use mongo_lease_core::commands::{
    AcquireRequest, Delete, End, FastAcquire, Form, GrantMatch, QueueOptions, ReleaseTarget,
    SlowAcquire,
};
use mongo_lease_core::rules::{CallId, FastForm, GrantId, Permits, Timing, TombstoneValues};
use mongo_lease_core::spec::EndScope;
use wasm_bindgen::prelude::wasm_bindgen;

use crate::command::{AnyCommand, Command};

/// Between the texts of a command.
const BETWEEN: char = '\0';

/// A command that may have a shape.
pub(crate) trait Shaped: AnyCommand {
    /// `None` if the document has to be built anew.
    fn shape(&self) -> Option<Shape>;
    /// The texts, each of which stands somewhere in the document as a whole.
    fn texts(&self) -> Vec<String>;
    /// A command of the same shape, of which each text contains this mark.
    fn specimen(&self, mark: &str) -> Command;
}

/// Everything in a document but the texts and the time of sending.
#[derive(Clone, PartialEq)]
pub(crate) enum Shape {
    Fast(FastForm, OfRequest),
    Slow(OfRequest),
    Delete(Form),
    End(EndScope, Form),
}

/// The options of a request on which the documents of its attempts depend.
#[derive(Clone, PartialEq)]
pub(crate) struct OfRequest {
    permits: Permits,
    ttl: Duration,
    max_clock_skew: Duration,
    has_oplog: bool,
    joins: Option<QueueOptions>,
}

/// The shapes that commands had.
struct Shapes {
    known: Vec<Shape>,
    /// The number of the first one.
    first: usize,
}

thread_local! {
    static SHAPES: RefCell<Shapes> = const { RefCell::new(Shapes { known: Vec::new(), first: 0 }) };
}

/// A program may give each call another ttl, which is part of the shape. Beyond so many all are forgotten, and no number
/// is used again.
const SHAPES_MAX: usize = 100;

impl Shapes {
    /// JavaScript knows a shape by its number.
    fn number(&mut self, shape: Shape) -> usize {
        if let Some((number, _)) = (self.first..).zip(&self.known).find(|(_, it)| **it == shape) {
            return number;
        }
        if self.known.len() == SHAPES_MAX {
            self.first += SHAPES_MAX;
            self.known.clear();
        }
        self.known.push(shape);
        self.first + self.known.len() - 1
    }
}

#[wasm_bindgen]
impl Command {
    /// The number of its shape, and the texts in an order that is the same for all commands of this shape, with NUL
    /// characters between them. The documents of two commands with the same number differ only in these texts and in the
    /// time of sending. `undefined` if the document has to be built anew.
    #[wasm_bindgen(js_name = shapeAndTexts)]
    pub fn shape_and_texts(&self) -> Option<String> {
        let command = self.shaped()?;
        let shape = command.shape()?;
        let mut told = SHAPES.with_borrow_mut(|shapes| shapes.number(shape)).to_string();
        for text in command.texts() {
            if text.contains(BETWEEN) {
                return None;
            }
            told.push(BETWEEN);
            told.push_str(&text);
        }
        Some(told)
    }

    /// A command of the same shape, of which each text contains `mark`.
    pub fn specimen(&self, mark: &str) -> Option<Command> {
        Some(self.shaped()?.specimen(mark))
    }
}

impl Shaped for FastAcquire {
    fn shape(&self) -> Option<Shape> {
        let FastAcquire { request, attempt_no: _, form, resends, first_sent: _ } = self;
        let shape = Shape::Fast(*form, of_request(request)?);
        (*resends == 0).then_some(shape)
    }

    fn texts(&self) -> Vec<String> {
        texts_of(&self.request, &self.grant_id())
    }

    fn specimen(&self, mark: &str) -> Command {
        Command::shaped_of(FastAcquire { request: marked(&self.request, mark), ..self.clone() })
    }
}

impl Shaped for SlowAcquire {
    fn shape(&self) -> Option<Shape> {
        let SlowAcquire { request, attempt_no: _, predecessor } = self;
        let shape = Shape::Slow(of_request(request)?);
        predecessor.is_none().then_some(shape)
    }

    fn texts(&self) -> Vec<String> {
        texts_of(&self.request, &self.request.call_id.grant(self.attempt_no))
    }

    fn specimen(&self, mark: &str) -> Command {
        Command::shaped_of(SlowAcquire { request: marked(&self.request, mark), ..self.clone() })
    }
}

impl Shaped for Delete {
    fn shape(&self) -> Option<Shape> {
        let Delete { targets } = self;
        of_target(targets).map(Shape::Delete)
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
    fn shape(&self) -> Option<Shape> {
        let End { targets, scope, values: _ } = self;
        of_target(targets).map(|form| Shape::End(*scope, form))
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

/// An attempt with metadata has no shape: they may differ from call to call.
fn of_request(request: &AcquireRequest) -> Option<OfRequest> {
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
    } = **timing;
    let (permits, has_oplog, joins) = (*permits, *has_oplog, *joins);
    let of_request = OfRequest { permits, ttl, max_clock_skew, has_oplog, joins };
    metadata.is_empty().then_some(of_request)
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

/// One grant that is known. Whatever a call may have been granted has no shape.
fn of_target(targets: &[ReleaseTarget]) -> Option<Form> {
    let [ReleaseTarget { name: _, value: _, grant: GrantMatch::Grant(_), form }] = targets else {
        return None;
    };
    Some(*form)
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
