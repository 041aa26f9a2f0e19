//! A holder's belief: the lease's validity, or, in a control, something else.

use std::time::Duration;

use mongo_lease::Lease;
use mongo_lease::mongodb::Collection;
use mongo_lease::mongodb::bson::{Document, doc};
use mongo_lease_checker::{MILLI, Nanos};

use super::Worker;
use crate::clock;
use crate::cluster::COLLECTION;
use crate::control::Control;

/// The source of a holder's belief.
pub(crate) struct Belief {
    /// In the control: the end of belief, whatever the lease says.
    own: Option<Nanos>,
    ttl: Nanos,
    /// In the control: where the holder renews by its own command.
    leases: Option<Collection<Document>>,
}

impl Belief {
    pub(crate) fn new(worker: &Worker, ttl_ms: u64, lease: &Lease) -> Belief {
        let ttl = ttl_ms * MILLI;
        // A promoted waiter is granted the waiter ttl at first: the control knows that.
        let life = nanos(worker.orders.waiter_ttl());
        let term = if nanos(lease.remaining()) > life { ttl } else { ttl.min(life) };
        let now = clock::now();
        let own = match worker.orders.control {
            Some(Control::ValidityFromReply) => Some(clock::now() + term),
            Some(Control::StoredTtl) => Some(now + nanos(lease.remaining())),
            Some(_) | None => None,
        };
        let leases = worker.is(Control::StoredTtl).then(|| worker.database.collection(COLLECTION));
        Belief { own, ttl, leases }
    }

    /// The end of its belief; the past when it does not believe.
    ///
    /// The clock is read first: any delay in between makes this shorter than the lease's validity, never longer.
    pub(crate) fn valid_until(&self, lease: &Lease) -> Nanos {
        let now = clock::now();
        self.own.unwrap_or_else(|| now + nanos(lease.remaining()))
    }

    pub(crate) fn is_valid(&self, lease: &Lease) -> bool {
        match self.own {
            Some(until) => clock::now() < until,
            None => lease.is_valid(),
        }
    }

    /// Renews by hand. In one control validity counts from the reply, as for the grant; in another the stored ttl
    /// counts.
    pub(crate) async fn renew(&mut self, lease: &Lease) {
        if let Some(leases) = &self.leases {
            let sent = clock::now();
            if renew_by_stored_ttl(leases, lease).await {
                self.own = self.own.max(Some(sent + self.ttl));
            }
            return;
        }
        // A renewal that fails changes nothing, or the lease reports it.
        if lease.renew().await.is_ok()
            && let Some(own) = &mut self.own
        {
            *own = (*own).max(clock::now() + self.ttl);
        }
    }

    /// The renewal beside it, whose result the lease itself reports.
    ///
    /// It too has the mistake of the control: the library's own renewal would mend the expiry that the mistake left.
    pub(crate) fn renew_beside<'a>(&self, lease: &'a Lease) -> impl Future<Output = ()> + use<'a> {
        let leases = self.leases.clone();
        async move {
            match &leases {
                Some(leases) => drop(renew_by_stored_ttl(leases, lease).await),
                None => drop(lease.renew().await),
            }
        }
    }
}

/// Renews by the ttl in the document, and says whether the lease was found.
async fn renew_by_stored_ttl(leases: &Collection<Document>, lease: &Lease) -> bool {
    let ours = doc! { "name": lease.name(), "value": lease.value() };
    let until = doc! { "$add": ["$$NOW", "$grant.ttlMs", "$grant.maxClockSkewMs"] };
    let set = doc! { "$set": { "expiresAt": { "$max": ["$expiresAt", until] } } };
    let updated = async { leases.update_one(ours, vec![set]).await };
    let updated = tokio::time::timeout(Duration::from_secs(1), updated).await;
    updated.is_ok_and(|updated| updated.is_ok_and(|updated| updated.matched_count == 1))
}

/// The token with which a holder of this name writes.
pub(crate) async fn token(worker: &Worker, name: &str, granted: u64) -> u64 {
    if worker.is(Control::KeptToken) {
        let mut first = worker.first_tokens.lock().expect("nobody panics with it");
        return *first.entry(name.to_owned()).or_insert(granted);
    }
    if !worker.is(Control::RetriedToken) {
        return granted;
    }
    // Any later reply: it carries the same time as the answer to a retried command.
    let ping = worker.database.run_command(doc! { "ping": 1 });
    let reply = tokio::time::timeout(Duration::from_secs(1), async { ping.await }).await;
    let time = reply.ok().and_then(Result::ok);
    let time = time.and_then(|reply| reply.get_timestamp("operationTime").ok());
    time.map_or(granted, |time| u64::from(time.time) << 32 | u64::from(time.increment))
}

fn nanos(duration: Duration) -> Nanos {
    u64::try_from(duration.as_nanos()).unwrap_or(Nanos::MAX)
}
