//! A process that waits for nothing, but for two calls now and then, while another one lets one of their leases go: so
//! the stream is being opened when the promotion comes, and may begin after it.

use std::sync::Arc;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::Worker;
use super::call::Style;
use super::hold::{Plan, hold};
use super::wish::Wish;
use crate::process::spawn;
use crate::promises::seat_of;
use crate::world::sleep_ms;

/// The seats of both. The first has a stream, whatever the plan is.
const IDLE: usize = 1;
const PARTNER: usize = 2;
/// How often, in milliseconds: a stream is closed after 20 s without a call that waits.
const EVERY_MS: u64 = 25_000;
/// How long before that the partner acquires both leases, and how long after it it releases each.
const BEFORE_MS: u64 = 2_000;
const AFTER_MS: std::ops::Range<u64> = 10..50;
/// How much later one of the two calls begins at most.
const APART_MS: u64 = 20;
const TTL_MS: u64 = 4_000;

/// The part of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    Idle,
    Partner,
}

/// Whether the messages of this process take long, and so overtake each other.
pub(crate) fn is_far_away(process: &str) -> bool {
    part(process) == Some(Part::Idle)
}

/// The part of this process: the idle one does nothing else.
pub(super) fn part(process: &str) -> Option<Part> {
    match seat_of(process) {
        Some(IDLE) => Some(Part::Idle),
        Some(PARTNER) => Some(Part::Partner),
        Some(_) | None => None,
    }
}

impl Worker {
    pub(super) async fn pair(self: Arc<Self>, part: Part) {
        let mut random = StdRng::seed_from_u64(!self.seed);
        while !self.has_to_end() {
            let early = if part == Part::Idle { 0 } else { BEFORE_MS };
            sleep_ms(EVERY_MS - (self.world.elapsed_ms() + early) % EVERY_MS).await;
            if self.has_to_end() {
                return;
            }
            let calls = [0, 1].map(|number| {
                let call = Arc::clone(&self).one_of_pair(part, number, random.random());
                spawn(&self.process, call)
            });
            for call in calls {
                // A panic shows as a call that never ended.
                let _ = call.await;
            }
        }
    }

    async fn one_of_pair(self: Arc<Self>, part: Part, number: u64, seed: u64) {
        let mut random = StdRng::seed_from_u64(seed);
        let wish = Wish::of(format!("pair:{number}"));
        let permits = wish.permits;
        let (style, plan) = match part {
            Part::Idle => {
                sleep_ms(random.random_range(0..APART_MS)).await;
                (Style::Wait(TTL_MS), Plan::brief())
            }
            Part::Partner => (Style::Once, Plan::long(BEFORE_MS + random.random_range(AFTER_MS))),
        };
        let granted = self.acquire(&mut random, wish, TTL_MS, style, plan.renews).await;
        if let Some((call, lease)) = granted {
            hold(&self, &mut random, call, (lease, permits), plan).await;
        }
    }
}
