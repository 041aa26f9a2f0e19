//! Calls through what is built on `Acquire`: elections, scheduled jobs, and several leases at once.

use std::time::Duration;

use mongo_lease::mongodb::bson::doc;
use mongo_lease::{Election, Run, ScheduledJob};
use mongo_lease_checker::history::{Ending, Letting, What};
use mongo_lease_checker::permits::Permits;
use rand::RngExt;
use rand::rngs::StdRng;

use super::hold::{Holder, Plan};
use super::{Worker, ttl_ms};
use crate::world::locked;

/// The election, and the job.
const LEADER: &str = "leader";
pub(crate) const JOB: &str = "job";

impl Worker {
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
