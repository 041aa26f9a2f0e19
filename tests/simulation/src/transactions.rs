//! Transactions under leases: their sessions, and what the server knows of them.
//!
//! A transaction sees the lease's document as it was at its first step. Its guard conflicts with each later write, and
//! blocks the document until the transaction ends. A primary that goes takes all open transactions with it.

use std::collections::BTreeMap;
use std::ops::Range;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use mongo_lease::simulated::{BoxedTask, SimulatedSession, TransactionFailure, TransactionStep};
use mongo_lease_checker::Nanos;
use mongo_lease_checker::history::What;
use mongo_lease_core::commands::Guard;
use mongo_lease_core::rules::{Instant, millis_up};
use mongo_lease_core::spec::{self, AsBuilt};
use mongo_lease_core::texts::{LeaseDocument, Texts};
use tokio::sync::Notify;

use crate::plan::BREAKS_MS;
use crate::process::Process;
use crate::server::Health;
use crate::world::{COLLECTION, World, locked, sleep_ms};

/// For how long a transaction may be open, in milliseconds.
const LIFETIME_MS: u64 = 3_000;

/// The end of a step.
type StepResult = Result<bool, TransactionFailure>;

/// The transactions that the server knows.
#[derive(Default)]
pub(crate) struct Transactions {
    all: Mutex<BTreeMap<u64, State>>,
    numbers: AtomicU64,
    /// Notified when a document is blocked no more.
    unblocked: Notify,
    blockages: Mutex<Vec<Blockage>>,
    left_open: Mutex<Vec<LeftOpen>>,
}

/// A time in which a lease's document was blocked.
#[derive(Clone, Debug)]
pub struct Blockage {
    /// The lease.
    pub name: String,
    /// From when until when.
    pub times: Range<Nanos>,
}

/// A transaction that nobody has ended: the server did in the end.
#[derive(Clone, Debug)]
pub struct LeftOpen {
    /// The process.
    pub by: String,
    /// The lease.
    pub name: String,
    /// From when until when.
    pub times: Range<Nanos>,
}

/// One transaction, as the server knows it.
enum State {
    /// The lease's document at its first step, and its guard.
    Open(Option<Box<LeaseDocument>>, Option<Guarded>),
    Aborted,
    Committed,
}

/// A guard that waits for its commit. Until then no other write changes the document.
struct Guarded {
    guard: Guard,
    sent: Instant,
    written: tokio::time::Instant,
    from: Nanos,
}

/// The line that a transaction writes beside its guard.
#[derive(Clone)]
pub(crate) struct Line {
    /// The lease.
    pub(crate) name: String,
    /// The call that holds it.
    pub(crate) call: String,
    /// The id of the transaction.
    pub(crate) transaction: String,
}

impl Transactions {
    /// The documents that are blocked now.
    pub(crate) fn blocked(&self) -> Vec<LeaseDocument> {
        let all = locked(&self.all);
        let blocked = all.values().filter_map(|state| match state {
            State::Open(found, Some(_)) => found.as_deref().cloned(),
            State::Open(_, None) | State::Aborted | State::Committed => None,
        });
        blocked.collect()
    }

    /// Waits until a document is blocked no more.
    pub(crate) fn unblocked(&self) -> impl Future<Output = ()> + '_ {
        self.unblocked.notified()
    }

    /// The times in which documents were blocked.
    pub(crate) fn take_blockages(&self) -> Vec<Blockage> {
        std::mem::take(&mut *locked(&self.blockages))
    }

    /// The transactions that nobody has ended.
    pub(crate) fn take_left_open(&self) -> Vec<LeftOpen> {
        std::mem::take(&mut *locked(&self.left_open))
    }

    /// The server ends a transaction that has been open for too long.
    fn end_of_life(&self, place: &Place, from: Nanos) {
        let Place { world, process, line, number, .. } = place;
        if matches!(locked(&self.all).get(number), Some(State::Open(..))) {
            let (by, name) = (process.name.clone(), line.name.clone());
            locked(&self.left_open).push(LeftOpen { by, name, times: from..world.now() });
        }
        self.abort(world, *number);
    }

    /// The primary has gone, and with it all that was open.
    pub(crate) fn abort_all(&self, world: &World) {
        let numbers: Vec<u64> = locked(&self.all).keys().copied().collect();
        numbers.into_iter().for_each(|number| self.abort(world, number));
    }

    /// The transaction is in this state now. Returns the one before.
    fn become_(&self, world: &World, number: u64, state: State) -> Option<State> {
        let before = locked(&self.all).insert(number, state);
        if let Some(State::Open(_, Some(guarded))) = &before {
            let name = guarded.guard.key.name().to_owned();
            locked(&self.blockages).push(Blockage { name, times: guarded.from..world.now() });
            self.unblocked.notify_waiters();
        }
        before
    }

    fn new_number(&self) -> u64 {
        self.numbers.fetch_add(1, Ordering::Relaxed)
    }

    fn knows(&self, number: u64) -> bool {
        locked(&self.all).contains_key(&number)
    }

    fn abort(&self, world: &World, number: u64) {
        let is_open = matches!(locked(&self.all).get(&number), Some(State::Open(..)));
        if is_open {
            self.become_(world, number, State::Aborted);
        }
    }

    /// The server carries a step out, now. One that begins the transaction is refused if that has begun.
    fn carry_out(&self, world: &World, place: &Place, step: TransactionStep) -> StepResult {
        let Place { line, number, begins, .. } = place;
        let number = *number;
        let document = world.store.on_server(COLLECTION, |leases| leases.get(&line.name).cloned());
        match step {
            TransactionStep::Abort => {
                self.abort(world, number);
                return Ok(true);
            }
            TransactionStep::Commit => {
                return match self.become_(world, number, State::Aborted) {
                    Some(State::Committed) => {
                        self.become_(world, number, State::Committed);
                        Ok(true)
                    }
                    Some(State::Open(found, guarded)) => {
                        // The operator and the TTL monitor wait for no transaction.
                        if guarded.is_some() && found.as_deref() != document.as_ref() {
                            return Err(TransactionFailure::Gone);
                        }
                        self.become_(world, number, State::Committed);
                        commit(world, line, guarded);
                        Ok(true)
                    }
                    Some(State::Aborted) | None => Err(TransactionFailure::Gone),
                };
            }
            TransactionStep::Read | TransactionStep::Operation | TransactionStep::Guard { .. } => {}
        }
        let is_blocked = document.as_ref().is_some_and(|it| self.blocked().contains(it));
        let mut all = locked(&self.all);
        if *begins == all.contains_key(&number) {
            return Err(TransactionFailure::Gone);
        }
        let state =
            all.entry(number).or_insert_with(|| State::Open(document.clone().map(Box::new), None));
        let State::Open(found, guarded) = state else { return Err(TransactionFailure::Gone) };
        let TransactionStep::Guard { guard, sent } = step else { return Ok(true) };
        // In the control a guard that writes nothing is answered as one that does.
        if world.is("unguarded") {
            return Ok(true);
        }
        if is_blocked || found.as_deref() != document.as_ref() {
            *state = State::Aborted;
            return Err(TransactionFailure::Conflict);
        }
        let is_there = guarded_document(document, &guard, sent, 0).is_some();
        if is_there {
            let (written, from) = (tokio::time::Instant::now(), world.now());
            *guarded = Some(Guarded { guard, sent, written, from });
        }
        Ok(is_there)
    }
}

/// The document after the write of a guard; `None` if the grant is not there.
fn guarded_document(
    found: Option<LeaseDocument>,
    guard: &Guard,
    sent: Instant,
    now_ms: i64,
) -> Option<LeaseDocument> {
    let key = spec::OwnGrant::<Texts> {
        value: guard.key.value().to_owned(),
        id: guard.key.grant_id().into(),
    };
    let echo = i64::try_from(sent.as_micros()).unwrap_or(i64::MAX);
    spec::guard(found, &key, millis_up(guard.lasts), now_ms, echo, &AsBuilt)
}

/// Carries out what the transaction has written, by the server's date of then.
fn commit(world: &World, line: &Line, guarded: Option<Guarded>) {
    if let Some(Guarded { guard, sent, written, .. }) = guarded {
        let ago_ms = i64::try_from(written.elapsed().as_millis()).unwrap_or(0);
        world.store.in_the_past(ago_ms, || {
            world.store.on_server(COLLECTION, |leases| {
                leases.apply(&line.name, |found, now_ms| {
                    (guarded_document(found.clone(), &guard, sent, now_ms).or(found), ())
                });
            });
        });
    }
    let Line { name, call, transaction } = line.clone();
    let token = world.newest_token();
    world.note("server", What::Committed { call, name, transaction, token });
}

/// The way of a session to the server.
#[derive(Clone)]
struct Place {
    world: Arc<World>,
    process: Arc<Process>,
    line: Line,
    /// The number of its newest transaction.
    number: u64,
    /// Whether no operation of it has returned: the next one begins it.
    begins: bool,
}

/// A session of a process. As the driver does, it aborts no transaction of which no operation has returned.
pub(crate) struct Session {
    place: Place,
    is_over: bool,
}

impl Session {
    pub(crate) fn new(world: &Arc<World>, process: &Arc<Process>, line: Line) -> Session {
        let (world, process) = (Arc::clone(world), Arc::clone(process));
        let number = world.transactions.new_number();
        let place = Place { world, process, line, number, begins: true };
        Session { place, is_over: false }
    }
}

impl Place {
    /// Carries the step to the server, and its end back. It goes on if nobody waits for it.
    fn carry(&self, step: TransactionStep) -> impl Future<Output = StepResult> + Send + use<> {
        let place = self.clone();
        let carried = tokio::spawn(async move {
            let Place { world, process, .. } = &place;
            let mut result = Err(TransactionFailure::Unknown);
            let is_unanswered =
                matches!(step, TransactionStep::Commit) && world.is("unanswered-commits");
            let arrives = process.a_request_arrives().await;
            if arrives {
                result = place.at_the_server(step).await;
            }
            if !arrives || !process.a_reply_arrives().await || is_unanswered {
                sleep_ms(world.random(1..BREAKS_MS)).await;
                return Err(TransactionFailure::Unknown);
            }
            result
        });
        async move { carried.await.unwrap_or(Err(TransactionFailure::Unknown)) }
    }

    /// Waits until the server can carry the step out: a commit waits for a majority, too.
    async fn at_the_server(&self, step: TransactionStep) -> StepResult {
        let Place { world, number, .. } = self;
        let is_commit = matches!(step, TransactionStep::Commit);
        let has_majority = |it: Health| !it.is_held_back && it.without_majority.is_none();
        world.server.until(|it| !it.hangs && (!is_commit || has_majority(it))).await;
        if world.server.health().has_no_primary {
            return Err(TransactionFailure::Unknown);
        }
        if !world.transactions.knows(*number) {
            let (place, from) = (self.clone(), world.now());
            tokio::spawn(async move {
                sleep_ms(LIFETIME_MS).await;
                place.world.transactions.end_of_life(&place, from);
            });
        }
        world.transactions.carry_out(world, self, step)
    }
}

impl SimulatedSession for Session {
    fn start(&mut self) {
        self.place.number = self.place.world.transactions.new_number();
        self.place.begins = true;
        self.is_over = false;
    }

    fn send(
        &mut self,
        step: TransactionStep,
    ) -> Pin<Box<dyn Future<Output = StepResult> + Send + '_>> {
        Box::pin(async move {
            let is_abort = matches!(step, TransactionStep::Abort);
            if is_abort && (self.is_over || self.place.begins) {
                return Ok(true);
            }
            if matches!(step, TransactionStep::Read) && self.place.world.is("unread") {
                return Ok(true);
            }
            self.is_over |= is_abort || matches!(step, TransactionStep::Commit);
            let result = self.place.carry(step).await;
            self.place.begins = false;
            result
        })
    }

    fn kill(&self) -> BoxedTask {
        let place = self.place.clone();
        Box::pin(async move {
            let _ = place.carry(TransactionStep::Abort).await;
        })
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if !self.is_over && !self.place.begins {
            drop(self.place.carry(TransactionStep::Abort));
        }
    }
}
