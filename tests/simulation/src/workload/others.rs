//! Calls through what is built on `Acquire`: elections, scheduled jobs, and several leases at once. And keepers.

use std::sync::Arc;
use std::time::Duration;

use mongo_lease::mongodb::bson::doc;
use mongo_lease::{Election, Run, ScheduledJob};
use mongo_lease_checker::history::{Ending, Letting, What};
use mongo_lease_checker::permits::Permits;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::call::Style;
use super::hold::{Holder, Plan, hold};
use super::wish::Wish;
use super::{PAUSE_MS, Worker, ttl_ms};
use crate::neighbours::{KEPT, kept};
use crate::process::spawn;
use crate::promises::seat_of;
use crate::world::{locked, sleep_ms};

/// The election, and the job.
const LEADER: &str = "leader";
pub(crate) const JOB: &str = "job";

/// The ttl of a keeper's leases, and how long it holds them.
const KEPT_TTL_MS: u64 = 1_500;
const KEPT_MS: std::ops::Range<u64> = 3_000..9_000;
/// Every so many-th process has a keeper.
const KEEPS: usize = 3;

/// Whether this process has a keeper.
pub(super) fn keeps(process: &str) -> bool {
    seat_of(process).is_some_and(|seat| seat.is_multiple_of(KEEPS))
}

impl Worker {
    /// Holds several leases for long, which one command renews, and of which an operator releases one now and then.
    pub(super) async fn keep(self: Arc<Self>) {
        let mut random = StdRng::seed_from_u64(!self.seed);
        while !self.has_to_end() {
            sleep_ms(random.random_range(0..PAUSE_MS)).await;
            let hold_ms = random.random_range(KEPT_MS);
            let each: [_; KEPT] = std::array::from_fn(|number| {
                let (worker, seed) = (Arc::clone(&self), random.random());
                spawn(&self.process, worker.keep_one(number, hold_ms, seed))
            });
            for kept in each {
                // A panic shows as a hold without an end.
                let _ = kept.await;
            }
        }
    }

    async fn keep_one(self: Arc<Self>, number: usize, hold_ms: u64, seed: u64) {
        let mut random = StdRng::seed_from_u64(seed);
        let wish = Wish::of(kept(&self.process.name, number));
        let permits = wish.permits;
        let kept = self.acquire(&mut random, wish, KEPT_TTL_MS, Style::Once, true).await;
        if let Some((call, lease)) = kept {
            hold(&self, &mut random, call, (lease, permits), Plan::long(hold_ms)).await;
        }
    }

    /// Takes part in an election for a while, and leads if it is elected.
    pub(super) async fn lead(&self, random: &mut StdRng) {
        let (call, ttl_ms) = (self.new_call(), ttl_ms(random));
        let wait = random.random_range(500..8_000);
        let plan = Plan::any(random, ttl_ms);
        self.invoked(&call, LEADER, ttl_ms, Some(wait), Permits::EXCLUSIVE);
        let election = Election::new(&self.manager, LEADER).ttl(Duration::from_millis(ttl_ms));
        let election = election.metadata(doc! { "call": &call });
        let campaign = tokio::time::timeout(Duration::from_millis(wait), election.campaign());
        let leadership = match campaign.await {
            Ok(Ok(leadership)) => leadership,
            Ok(Err(error)) => return self.failed(&call, &error),
            Err(_) => return self.ended(&call, Ending::Dropped, String::new()),
        };
        let lease = leadership.lease();
        let Some(mut holder) = Holder::new(self, &call, lease, Permits::EXCLUSIVE) else {
            return;
        };
        let is_lost = leadership.run(holder.until_the_end(random, &plan)).await.is_err();
        drop(holder);
        if is_lost {
            self.note(What::Lost { call: call.clone(), reason: "the leadership".to_owned() });
        }
        self.note(What::Releasing { call: call.clone(), how: Letting::Release });
        let result = leadership.release().await;
        self.released(call, result);
    }

    /// Starts a job, which runs here if it runs nowhere else.
    pub(super) async fn job(&self, random: &mut StdRng) {
        let (call, ttl_ms) = (self.new_call(), ttl_ms(random));
        let plan = Plan::any(random, ttl_ms);
        self.invoked(&call, JOB, ttl_ms, None, Permits::EXCLUSIVE);
        let job = ScheduledJob::new(&self.manager, JOB)
            .ttl(Duration::from_millis(ttl_ms))
            .at_least(Duration::from_millis(random.random_range(100..1_500)))
            .at_most(Duration::from_millis(random.random_range(1_500..6_000)))
            .metadata(doc! { "call": &call });
        let mut is_granted = false;
        let run = job
            .run(async |lease| {
                is_granted = true;
                if let Some(mut holder) = Holder::new(self, &call, lease, Permits::EXCLUSIVE) {
                    holder.until_the_end(random, &plan).await;
                    let how = Letting::Release;
                    self.note(What::Releasing { call: call.clone(), how });
                }
            })
            .await;
        match run {
            Ok(Run::Done(())) => {}
            Ok(Run::Skipped(_)) => self.ended(&call, Ending::Busy, String::new()),
            Err(error) if is_granted => {
                self.note(What::Lost { call, reason: error.to_string() });
            }
            Err(error) => self.failed(&call, &error),
        }
    }

    /// Acquires two or three leases, all or none.
    pub(super) async fn all(&self, random: &mut StdRng) {
        let (ttl_ms, wait) = (ttl_ms(random), random.random_range(300..8_000));
        let first = random.random_range(0..self.plan.names);
        let names = first..self.plan.names.min(first + random.random_range(2..4));
        let names: Vec<String> = names.map(|number| format!("lease:{number}")).collect();
        let calls: Vec<String> = names.iter().map(|_| self.new_call()).collect();
        for (call, name) in calls.iter().zip(&names) {
            self.invoked(call, name, ttl_ms, Some(wait), Permits::EXCLUSIVE);
            self.world.excuse(call);
        }
        let acquire = self.manager.acquire_all(names).ttl(Duration::from_millis(ttl_ms));
        // One text for all: by it the checker knows whose entry an entry is.
        let acquire = acquire.metadata(doc! { "call": calls.first() });
        let leases = match acquire.wait(Duration::from_millis(wait)).await {
            Ok(leases) => leases,
            Err(error) => return calls.iter().for_each(|call| self.failed(call, &error)),
        };
        let mut plan = Plan::any(random, ttl_ms);
        plan.hold_ms /= 2;
        let leases: Vec<_> = calls.into_iter().zip(leases.into_leases()).collect();
        let mut held = Vec::new();
        for (call, lease) in &leases {
            held.extend(Holder::new(self, call, lease, Permits::EXCLUSIVE));
        }
        for holder in &mut held {
            holder.until_the_end(random, &plan).await;
        }
        let granted: Vec<String> = held.iter().map(|holder| holder.call().to_owned()).collect();
        drop(held);
        // Each is held until its own turn to be released, which may be long after the first one's.
        locked(&self.holds).extend(granted.iter().cloned());
        for (call, lease) in leases {
            match granted.contains(&call) {
                true => self.let_go(call, lease, Letting::Release).await,
                false => drop(lease),
            }
        }
    }
}
