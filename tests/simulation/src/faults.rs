//! Carries the faults of a plan out.

// Each reader wants a few of the many kinds of faults.
#![allow(clippy::wildcard_enum_match_arm)]

use std::sync::Arc;

use mongo_lease_checker::history::What;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use crate::fleet::Fleet;
use crate::neighbours;
use crate::plan::{Fault, Kind, Plan, Whom};
use crate::process::Link;
use crate::server::Health;
use crate::world::{World, sleep_ms};

/// Lets the faults happen, each in its time. Returns when all are over.
pub(crate) async fn rage(world: Arc<World>, fleet: Arc<Fleet>, plan: Arc<Plan>) {
    let mut under_way = Vec::new();
    let mut now_ms = 0;
    for (number, fault) in plan.faults.iter().enumerate() {
        sleep_ms(fault.at_ms - now_ms).await;
        now_ms = fault.at_ms;
        let fault = Under {
            world: Arc::clone(&world),
            fleet: Arc::clone(&fleet),
            plan: Arc::clone(&plan),
            number,
            fault: *fault,
        };
        under_way.push(tokio::spawn(fault.happen()));
    }
    for fault in under_way {
        // A panic would show as a fault that never ended.
        let _ = fault.await;
    }
    world.store.set_date_ahead(0);
}

/// A fault, under way.
struct Under {
    world: Arc<World>,
    fleet: Arc<Fleet>,
    plan: Arc<Plan>,
    number: usize,
    fault: Fault,
}

impl Under {
    async fn happen(self) {
        let Fault { lasts_ms, kind, .. } = self.fault;
        let (number, detail) = (self.number, format!("{kind:?}"));
        let name = kind.name().to_owned();
        self.world.note("suite", What::FaultBegan { fault: number, kind: name, detail });
        match kind {
            Kind::Stop(seat) => self.stop(seat).await,
            Kind::Kill(seat) => {
                self.fleet.kill(seat);
                sleep_ms(lasts_ms).await;
                self.fleet.replace(seat);
            }
            Kind::ShutDown(seat) => {
                self.fleet.shut_down(seat);
                sleep_ms(lasts_ms).await;
                self.fleet.replace(seat);
            }
            Kind::Damage => {
                let mut random = StdRng::seed_from_u64(self.plan.seed ^ self.fault.at_ms);
                let until =
                    tokio::time::Instant::now() + std::time::Duration::from_millis(lasts_ms);
                while tokio::time::Instant::now() < until {
                    neighbours::damage(&self.world, &mut random);
                    sleep_ms(random.random_range(5..60)).await;
                }
            }
            Kind::Burst { process, calls } => {
                self.fleet.burst(process, number, calls);
                sleep_ms(lasts_ms).await;
            }
            Kind::RollBack => self.hold_back(true).await,
            Kind::LateMajority { is_undone } => self.hold_back(is_undone).await,
            Kind::LinkHangs(_)
            | Kind::Loss { .. }
            | Kind::Late { .. }
            | Kind::Doubled { .. }
            | Kind::Cursor => self.link(kind).await,
            Kind::ServerHangs
            | Kind::Refused { .. }
            | Kind::Primary { .. }
            | Kind::NoMajority { .. }
            | Kind::CutOff { .. }
            | Kind::Torn { .. }
            | Kind::Lock
            | Kind::Slow { .. } => self.server(kind).await,
        }
        sleep_ms(self.fault.over_ms().saturating_sub(self.world.elapsed_ms())).await;
        self.world.note("suite", What::FaultEnded { fault: number });
    }

    /// No majority has the writes meanwhile. Then another primary takes over that never had them, or a majority has
    /// them all.
    async fn hold_back(&self, is_undone: bool) {
        let Some(under_way) = self.world.roll_back.try_lock().ok() else { return };
        self.world.store.hold_back();
        self.world.change_server(|health| health.is_held_back = true);
        sleep_ms(self.fault.lasts_ms).await;
        match is_undone {
            true => {
                self.world.store.roll_back();
                self.world.transactions.abort_all(&self.world);
            }
            false => self.world.store.confirm_all(),
        }
        self.world.change_server(|health| health.is_held_back = false);
        drop(under_way);
    }

    async fn stop(&self, seat: usize) {
        let process = self.fleet.process(seat);
        if !process.stop() {
            return;
        }
        self.world.note(&process.name, What::Stopped);
        sleep_ms(self.fault.lasts_ms).await;
        if !process.is_dead() {
            self.world.note(&process.name, What::Resumed);
            process.resume();
            self.world.applied.forget();
        }
    }

    async fn link(&self, kind: Kind) {
        let whom = match kind {
            Kind::LinkHangs(whom)
            | Kind::Loss { whom, .. }
            | Kind::Late { whom, .. }
            | Kind::Doubled { whom, .. } => whom,
            _ => Whom::All,
        };
        let change = |begins: bool| {
            let processes = match whom {
                Whom::All => self.fleet.processes(),
                Whom::One(seat) => vec![self.fleet.process(seat)],
            };
            for process in processes {
                process.change_link(|link| change_link(link, kind, begins));
            }
        };
        change(true);
        sleep_ms(self.fault.lasts_ms).await;
        change(false);
    }

    async fn server(&self, kind: Kind) {
        self.world.change_server(|health| change_server(health, kind, true));
        if let Kind::Primary { ahead } = kind {
            self.world.transactions.abort_all(&self.world);
            let differ = i64::try_from(2 * self.plan.date_error_ms()).unwrap_or(0);
            // The next primary's date counts from its election on.
            sleep_ms(self.fault.lasts_ms / 2).await;
            // In one control two members differ by more than they may.
            let more = if self.world.is("distant-members") { 5 } else { 1 };
            self.world.store.set_date_ahead(differ * ahead * more / 1_000);
            sleep_ms(self.fault.lasts_ms - self.fault.lasts_ms / 2).await;
        } else {
            sleep_ms(self.fault.lasts_ms).await;
        }
        self.world.change_server(|health| change_server(health, kind, false));
    }
}

/// Lets the fault begin or end on a link.
fn change_link(link: &mut Link, kind: Kind, begins: bool) {
    let good = Link::GOOD;
    match kind {
        Kind::LinkHangs(_) => link.hangs = begins,
        Kind::Loss { requests, replies, .. } => {
            link.loses_requests = if begins { requests } else { good.loses_requests };
            link.loses_replies = if begins { replies } else { good.loses_replies };
        }
        Kind::Late { by_ms, .. } => link.late = if begins { by_ms } else { good.late },
        Kind::Doubled { percent, .. } => link.doubles = if begins { percent } else { good.doubles },
        Kind::Cursor => link.breaks_streams = if begins { 100 } else { good.breaks_streams },
        _ => {}
    }
}

/// Lets the fault begin or end at the server.
fn change_server(health: &mut Health, kind: Kind, begins: bool) {
    let good = Health::GOOD;
    match kind {
        Kind::ServerHangs => health.hangs = begins,
        Kind::Lock => health.is_locked = begins,
        Kind::Primary { .. } => health.has_no_primary = begins,
        Kind::Refused { percent } => health.refused = if begins { percent } else { good.refused },
        Kind::NoMajority { carried_out } => health.without_majority = begins.then_some(carried_out),
        Kind::CutOff { percent } => health.cut_off = if begins { percent } else { good.cut_off },
        Kind::Torn { percent } => health.torn = if begins { percent } else { good.torn },
        Kind::Slow { takes_ms, slots } => {
            health.takes = if begins { (takes_ms / 2, takes_ms) } else { good.takes };
            health.slots = if begins { slots } else { good.slots };
        }
        _ => {}
    }
}
