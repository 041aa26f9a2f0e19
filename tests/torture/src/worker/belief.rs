//! A holder's belief: the lease's validity, or, in a control, something else.

use std::time::Duration;

use mongo_lease::Lease;
use mongo_lease_checker::{MILLI, Nanos};

use super::Worker;
use crate::clock;
use crate::control::Control;

/// The source of a holder's belief.
pub(crate) struct Belief {
    /// In the control: the end of belief, whatever the lease says.
    own: Option<Nanos>,
    ttl: Nanos,
}

impl Belief {
    pub(crate) fn new(worker: &Worker, ttl_ms: u64, lease: &Lease) -> Belief {
        let ttl = ttl_ms * MILLI;
        // A promoted waiter is granted the waiter ttl at first: the control knows that.
        let life = nanos(worker.orders.waiter_ttl());
        let term = if nanos(lease.remaining()) > life { ttl } else { ttl.min(life) };
        let own = worker.is(Control::ValidityFromReply).then(|| clock::now() + term);
        Belief { own, ttl }
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

    /// Renews by hand. In the control validity counts from the reply, as for the grant.
    pub(crate) async fn renew(&mut self, lease: &Lease) {
        // A renewal that fails changes nothing, or the lease reports it.
        if lease.renew().await.is_ok()
            && let Some(own) = &mut self.own
        {
            *own = (*own).max(clock::now() + self.ttl);
        }
    }
}

fn nanos(duration: Duration) -> Nanos {
    u64::try_from(duration.as_nanos()).unwrap_or(Nanos::MAX)
}
