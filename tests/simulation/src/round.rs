//! One round: from the first process to the complete evidence.

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::sync::Arc;

use mongo_lease_checker::history::Record;
use mongo_lease_checker::{
    Allowances, CheckOptions, Evidence, Facts, Invariant, LeftOver, MILLI, Nanos, SECOND,
    Violation, check_facts,
};
use mongo_lease_core::rules::slots::LANES_MIN;
use tokio::runtime::Builder;

use crate::changes::changes_of;
use crate::control::Control;
use crate::faults;
use crate::fleet::Fleet;
use crate::neighbours::{self, SPOILT, is_operated};
use crate::plan::{Fault, Kind, Plan, ROUND_MS};
use crate::promises::{Broken, broken};
use crate::transactions::{Blockage, LeftOpen};
use crate::workload::LAST_MS;
use crate::world::{COLLECTION, StreamNews, World, sleep_ms};
use crate::writes::{self, BrokenWrite, broken_by};

/// How long the last documents have to expire, in milliseconds: the longest ttl with the greatest clock skew, a
/// duplicate that arrives late, and the TTL monitor.
const EXPIRY_MS: u64 = 12_000;

/// How much later than promised things may happen. There is no busy machine here.
const ALLOWANCES: Allowances = Allowances {
    late: 100 * MILLI,
    noticing: 500 * MILLI,
    freeing: 4 * SECOND,
    aftermath: 2 * SECOND,
};

/// How much longer the aftermath of a fault is where a manager has too few slots for lanes. A command that is not
/// answered keeps its slot until its time is over, and releases have the longest time, that of an attempt by default.
const FEW_SLOTS: Nanos = 5 * SECOND;

/// The history of a round.
#[derive(Clone, Debug)]
pub struct History {
    /// The evidence for the checker.
    pub evidence: Evidence,
    /// The calls whose leases renew themselves for as long as they are held.
    pub renewing: BTreeSet<String>,
    /// The calls that ask for several leases, which wait for one at a time and hold none meanwhile, and those that are
    /// not polled for a while.
    pub excused: BTreeSet<String>,
    /// The news of change streams.
    pub streams: StreamNews,
    /// The times in which transactions blocked a lease's document.
    pub blockages: Vec<Blockage>,
    /// The transactions that nobody has ended.
    pub left_open: Vec<LeftOpen>,
    /// The slow attempts, with their calls: when each left its process, and when the process heard of its end.
    pub attempts: Vec<(String, Nanos, Nanos)>,
    /// The writes that break a promise by themselves.
    pub broken_writes: Vec<BrokenWrite>,
    /// The attempts that were repeated although they were applied.
    pub repeated: Vec<Broken>,
}

impl History {
    /// Whether a transaction blocked the lease's document in this time, for longer than that: then all other commands
    /// on it take long.
    pub(crate) fn is_blocked(&self, name: &str, (from, to): (Nanos, Nanos), long: Nanos) -> bool {
        let mut of_name = self.blockages.iter().filter(|it| it.name == name);
        of_name.any(|Blockage { times, .. }| {
            times.start < to && from < times.end && times.end - times.start > long
        })
    }

    /// Writes every record and every change, a line of JSON for each.
    pub fn write(&self, to: &mut impl Write) -> io::Result<()> {
        for record in &self.evidence.records {
            writeln!(to, "{}", record.line())?;
        }
        for change in &self.evidence.changes {
            let line = serde_json::to_string(change).map_err(io::Error::other)?;
            writeln!(to, "{line}")?;
        }
        Ok(())
    }

    /// How many acquire calls were made, and how many were granted.
    pub fn calls(&self) -> (usize, usize) {
        use mongo_lease_checker::history::What;
        let count =
            |is: fn(&Record) -> bool| self.evidence.records.iter().filter(|it| is(it)).count();
        let calls = count(|it| matches!(it.what, What::Invoked { .. }));
        (calls, count(|it| matches!(it.what, What::Granted { .. })))
    }
}

/// Lets the round happen.
///
/// # Panics
/// If the runtime cannot be built.
pub fn run(plan: &Plan, control: Option<&'static Control>) -> History {
    let mut runtime = Builder::new_current_thread();
    let runtime = runtime.enable_time().start_paused(true).build().expect("a runtime is built");
    let plan = Arc::new(plan.clone());
    Control::begin(control);
    let (records, changes, left, (attempts, repeated), [renewing, excused], of_server) = runtime
        .block_on(async {
            let world = World::new(plan.seed, control);
            let left = happen(&world, &plan).await;
            (
                world.take_history(),
                world.store.take_journal(),
                left,
                (world.take_attempts(), world.applied.take_repeated()),
                [world.take_renewing(), world.take_excused()],
                (
                    world.take_streams(),
                    world.transactions.take_blockages(),
                    world.transactions.take_left_open(),
                ),
            )
        });
    Control::begin(None);
    let end = faults_end(&plan) + LAST_MS;
    let began = records.first().map_or(0, |record| record.at);
    let changes: Vec<_> = changes.into_iter().filter(|it| it.collection == COLLECTION).collect();
    let broken_writes = changes.iter().filter_map(broken_by).collect();
    let max_clock_skew = plan.max_clock_skew_ms * MILLI;
    let terms = CheckOptions {
        max_clock_skew,
        waiter_ttl: plan.waiter_ttl_ms * MILLI,
        clock_error: plan.date_error_ms() * MILLI,
        calls_travel_together: true,
        allowances: allowances(&plan),
    };
    let evidence = Evidence {
        changes: changes_of(changes),
        records,
        wall_ahead: World::wall_ahead(),
        began,
        ended: began + end * MILLI,
        known_until: Nanos::MAX,
        terms,
        left,
    };
    let (streams, blockages, left_open) = of_server;
    History {
        evidence,
        renewing,
        excused,
        streams,
        blockages,
        left_open,
        attempts,
        broken_writes,
        repeated,
    }
}

fn allowances(plan: &Plan) -> Allowances {
    let longer = if plan.in_flight_max < LANES_MIN { FEW_SLOTS } else { 0 };
    Allowances { aftermath: ALLOWANCES.aftermath + longer, ..ALLOWANCES }
}

/// When the faults of a plan are over, in milliseconds of the round.
fn faults_end(plan: &Plan) -> u64 {
    plan.faults.iter().map(Fault::over_ms).max().unwrap_or(0).max(ROUND_MS)
}

async fn happen(world: &Arc<World>, plan: &Arc<Plan>) -> LeftOver {
    let fleet = Arc::new(Fleet::start(world, plan));
    let neighbours = [
        tokio::spawn(neighbours::monitor(Arc::clone(world))),
        tokio::spawn(neighbours::plain_program(Arc::clone(world), plan.seed ^ 1)),
        tokio::spawn(neighbours::operator(Arc::clone(world), plan.seed ^ 2)),
        tokio::spawn(neighbours::spoiler(Arc::clone(world), plan.seed ^ 3)),
    ];
    let raging = faults::rage(Arc::clone(world), Arc::clone(&fleet), Arc::clone(plan));
    let raging = tokio::spawn(raging);
    sleep_ms(faults_end(plan)).await;
    // A burst lasts a little longer than its fault.
    let _ = raging.await;
    neighbours[2].abort();
    neighbours[1].abort();
    fleet.last().await;
    let workers = fleet.end().await;
    sleep_ms(EXPIRY_MS).await;
    neighbours[0].abort();
    let documents = world.store.on_server(COLLECTION, |leases| {
        leases.after(None).map(|(name, document)| format!("{name}: {document:?}")).collect()
    });
    LeftOver { documents, cursors: Vec::new(), workers }
}

/// Returns every broken promise, in the order of time.
///
/// An operator who releases a lease breaks what its holder believes: that is not the library's fault.
pub fn judge(plan: &Plan, history: &History) -> Vec<Broken> {
    let facts = Facts::of(&history.evidence);
    let mut found = check_facts(&history.evidence, &facts);
    let is_operators = |violation: &Violation| {
        let by_him = [
            Invariant::Exclusion,
            Invariant::Belief,
            Invariant::Removal,
            Invariant::TakeOver,
            Invariant::Tokens,
        ];
        violation.lease.as_deref().is_some_and(is_operated) && by_him.contains(&violation.invariant)
    };
    // A request that arrives twice brings a waiter's entry back, and another call of the process may take that over.
    let doubled = |violation: &Violation| {
        // A lost request may arrive after its repetition.
        let is_doubled = |fault: &&Fault| {
            matches!(fault.kind, Kind::Doubled { .. } | Kind::Loss { requests: 1.., .. })
        };
        let mut doubled = plan.faults.iter().filter(is_doubled);
        violation.invariant == Invariant::Order
            && doubled.any(|fault| {
                let begins = history.evidence.began + fault.at_ms * MILLI;
                (begins..history.evidence.began + fault.over_ms() * MILLI + 5 * SECOND)
                    .contains(&violation.at)
            })
    };
    // Until a dead process's transaction ends, no other call can join the queue.
    let is_blocked = |violation: &Violation| {
        let long = history.evidence.terms.waiter_ttl / 6;
        let times = (violation.since, violation.at);
        let of = |lease: &str| history.is_blocked(lease, times, long);
        violation.invariant == Invariant::Progress && violation.lease.as_deref().is_some_and(of)
    };
    let is_excused = |violation: &Violation| {
        let is_of = violation.calls.iter().any(|call| history.excused.contains(call));
        violation.invariant == Invariant::Progress && is_of
    };
    found.retain(|violation| {
        !is_operators(violation)
            && !is_excused(violation)
            && !is_blocked(violation)
            && !doubled(violation)
    });
    let terms = history.evidence.terms;
    found.retain(|violation| !terms.may_break(violation.invariant));
    let mut found: Vec<Broken> = found.into_iter().map(Broken::from).collect();
    // With dates that differ by more than they may, nothing is promised that a clock counts for.
    if !terms.are_clocks_unbound() {
        found.extend(broken(plan, history, &facts));
    }
    // Nobody knows whose a spoilt lease is, and until when.
    found.retain(|broken| broken.lease.as_deref() != Some(SPOILT));
    found.extend(writes::broken(history));
    found.extend(history.repeated.iter().cloned());
    found.sort_by_key(|broken| broken.at);
    found
}
