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
    /// Takes so many pairs, each with a random name, in a spawned task, as a service handles its requests.
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
        names: impl Fn() -> String + Send + 'static,
        server_time: impl Fn() -> Duration,
    ) -> Outcome<Pairs> {
        let (client, server) = (host::own_processor_time(), server_time());
        let (acquires, releases) = tokio::spawn(timed(contender.clone(), count, names)).await??;
        let client = host::own_processor_time() - client;
        Ok(Pairs { acquires, releases, client, server: server_time() - server })
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

/// The milliseconds of so many acquires and releases.
async fn timed(
    contender: Contender,
    count: usize,
    names: impl Fn() -> String,
) -> Outcome<(Vec<f64>, Vec<f64>)> {
    let (mut acquires, mut releases) = (Vec::with_capacity(count), Vec::with_capacity(count));
    for _ in 0..count {
        let name = names();
        let started = Instant::now();
        let held = contender.acquire(&name).await?;
        let acquired = Instant::now();
        contender.release(held).await?;
        releases.push(acquired.elapsed().as_secs_f64() * 1e3);
        acquires.push((acquired - started).as_secs_f64() * 1e3);
    }
    Ok((acquires, releases))
}

pub(crate) fn mean(figures: &[f64]) -> f64 {
    figures.iter().sum::<f64>() / number(figures.len())
}
