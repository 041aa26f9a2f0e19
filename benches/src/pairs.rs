//! Pairs of acquire and release, one after the other.

use std::time::{Duration, Instant};

use mongo_lease_measure::{Outcome, host, millis_each, number};

use crate::side::{Contender, random_name};

/// The live locks of others in a fresh collection: a walk over deleted index entries soon meets one of them.
pub(crate) const OTHERS: usize = 1_000;

/// The pairs of one round.
pub(crate) struct Pairs {
    /// Each acquire, in milliseconds.
    pub(crate) acquires: Vec<f64>,
    /// Each release, in milliseconds.
    pub(crate) releases: Vec<f64>,
    client: Duration,
    server: Duration,
}

impl Pairs {
    /// Takes so many pairs, each with a random name.
    pub(crate) async fn taken(
        contender: &Contender,
        count: usize,
        server_time: impl Fn() -> Duration,
    ) -> Outcome<Pairs> {
        Pairs::taken_of(contender, count, random_name, server_time).await
    }

    /// Takes so many pairs, each with the next of these names.
    pub(crate) async fn taken_of(
        contender: &Contender,
        count: usize,
        names: impl Fn() -> String,
        server_time: impl Fn() -> Duration,
    ) -> Outcome<Pairs> {
        let mut pairs = Pairs {
            acquires: Vec::with_capacity(count),
            releases: Vec::with_capacity(count),
            client: Duration::ZERO,
            server: Duration::ZERO,
        };
        let (client, server) = (host::own_processor_time(), server_time());
        for _ in 0..count {
            let name = names();
            let started = Instant::now();
            let held = contender.acquire(&name).await?;
            let acquired = Instant::now();
            contender.release(held).await?;
            pairs.releases.push(acquired.elapsed().as_secs_f64() * 1e3);
            pairs.acquires.push((acquired - started).as_secs_f64() * 1e3);
        }
        pairs.client = host::own_processor_time() - client;
        pairs.server = server_time() - server;
        Ok(pairs)
    }

    /// Milliseconds an acquire.
    pub(crate) fn acquire(&self) -> f64 {
        mean(&self.acquires)
    }

    /// Milliseconds a release.
    pub(crate) fn release(&self) -> f64 {
        mean(&self.releases)
    }

    /// Milliseconds a pair.
    pub(crate) fn pair(&self) -> f64 {
        self.acquire() + self.release()
    }

    /// Each pair, in milliseconds.
    pub(crate) fn pairs(&self) -> impl Iterator<Item = f64> {
        self.acquires.iter().zip(&self.releases).map(|(acquire, release)| acquire + release)
    }

    /// Milliseconds of the client's processor a pair.
    pub(crate) fn client(&self) -> f64 {
        millis_each(self.client, self.acquires.len())
    }

    /// Milliseconds of the server's processor a pair.
    pub(crate) fn server(&self) -> f64 {
        millis_each(self.server, self.acquires.len())
    }
}

pub(crate) fn mean(figures: &[f64]) -> f64 {
    figures.iter().sum::<f64>() / number(figures.len())
}
