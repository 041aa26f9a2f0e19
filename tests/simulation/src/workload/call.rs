//! One acquire call: it waits or does not, and is polled well, late, or no more.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use mongo_lease::mongodb::bson::doc;
use mongo_lease::{Error, Lease};
use mongo_lease_checker::history::Ending;
use rand::RngExt;
use rand::rngs::StdRng;

use super::Worker;
use super::wish::Wish;
use crate::world::sleep_ms;

/// In one control a call waits for so much longer than its history says, and in another it begins so much later.
const LONGER_MS: u64 = 2_500;
const HELD_BACK_MS: u64 = 4_500;
/// In a third, no more calls of a process than these are made at once.
pub(crate) const AT_ONCE: usize = 4;

/// The plan for one call. Times are in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Style {
    /// One attempt.
    Once,
    /// It waits for so long.
    Wait(u64),
    /// Its caller drops it after so long.
    DropsAfter { wait: u64, after: u64 },
    /// Its caller drops it after so many polls.
    DropsAt { wait: u64, polls: u64 },
    /// After a while its caller does not poll it for so long.
    LeavesUnpolled { wait: u64, after: u64, unpolled: u64 },
}

impl Style {
    pub(super) fn any(random: &mut StdRng, wish: &Wish) -> Style {
        let wait = random.random_range(300..7_000);
        let within = random.random_range(0..wait);
        match random.random_range(0..100) {
            _ if !wish.may_wait => Style::Once,
            0..12 => Style::Once,
            12..20 => Style::DropsAfter { wait, after: within },
            20..28 => Style::DropsAt { wait, polls: random.random_range(1..12) },
            28..33 => {
                let unpolled = random.random_range(10..3_000);
                Style::LeavesUnpolled { wait, after: within, unpolled }
            }
            _ => Style::Wait(wait),
        }
    }

    /// How long the call may take at most, for the checker.
    fn longest(self) -> Option<u64> {
        match self {
            Style::Once => None,
            Style::Wait(wait) | Style::DropsAfter { wait, .. } | Style::DropsAt { wait, .. } => {
                Some(wait)
            }
            Style::LeavesUnpolled { wait, unpolled, .. } => Some(wait + unpolled),
        }
    }
}

type Waiting = Pin<Box<dyn Future<Output = Result<Lease, Error>> + Send>>;

impl Worker {
    /// Makes a call, and notes its end unless it was granted.
    pub(super) async fn acquire(
        &self,
        random: &mut StdRng,
        wish: Wish,
        ttl_ms: u64,
        style: Style,
        renews: bool,
    ) -> Option<(String, Lease)> {
        let call = self.new_call();
        self.invoked(&call, &wish.name, ttl_ms, style.longest(), wish.permits);
        let acquire = wish.acquire(&self.manager).ttl(Duration::from_millis(ttl_ms));
        let mut acquire = acquire.renew(renews).metadata(doc! { "call": &call });
        if !wish.may_wait && renews && random.random_bool(0.3) {
            acquire = acquire.hold_at_least(Duration::from_millis(random.random_range(100..900)));
        }
        if renews {
            self.world.renews(&call);
        }
        if matches!(style, Style::LeavesUnpolled { .. }) {
            self.world.excuse(&call);
        }
        let longer = if self.world.is("late-answer") { LONGER_MS } else { 0 };
        if self.world.is("held-back") && style != Style::Once {
            sleep_ms(HELD_BACK_MS).await;
        }
        let _turn = match self.world.is("own-line") {
            true => self.own_line.acquire().await.ok(),
            false => None,
        };
        let wait = |acquire: mongo_lease::Acquire, millis| -> Waiting {
            acquire.wait(Duration::from_millis(millis + longer)).into_future()
        };
        let result = match style {
            Style::Once => Some(acquire.wait(Duration::ZERO).await),
            Style::Wait(millis) => Some(wait(acquire, millis).await),
            Style::DropsAfter { wait: millis, after } => {
                let patience = Duration::from_millis(after);
                tokio::time::timeout(patience, wait(acquire, millis)).await.ok()
            }
            Style::DropsAt { wait: millis, polls } => {
                Limited { call: Some(wait(acquire, millis)), polls }.await
            }
            Style::LeavesUnpolled { wait: millis, after, unpolled } => {
                let mut call = wait(acquire, millis);
                match tokio::time::timeout(Duration::from_millis(after), &mut call).await {
                    Ok(result) => Some(result),
                    Err(_) => {
                        sleep_ms(unpolled).await;
                        Some(call.await)
                    }
                }
            }
        };
        match result {
            Some(Ok(lease)) => return Some((call, lease)),
            Some(Err(error)) => self.failed(&call, &error),
            None => self.ended(&call, Ending::Dropped, String::new()),
        }
        None
    }
}

/// A call that is dropped after so many polls.
struct Limited {
    call: Option<Waiting>,
    polls: u64,
}

impl Future for Limited {
    type Output = Option<Result<Lease, Error>>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(call) = &mut self.call else { return Poll::Ready(None) };
        if let Poll::Ready(result) = call.as_mut().poll(context) {
            return Poll::Ready(Some(result));
        }
        self.polls = self.polls.saturating_sub(1);
        if self.polls > 0 {
            return Poll::Pending;
        }
        self.call = None;
        Poll::Ready(None)
    }
}
