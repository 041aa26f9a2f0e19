//! The requests of a process: names, and their permits.

use mongo_lease::{Acquire, LeaseManager};
use mongo_lease_checker::permits::Permits;
use rand::RngExt;
use rand::rngs::StdRng;

use crate::neighbours::{OPERATED, PLAIN, SPOILT};

/// The leases that are no plain exclusive ones.
const KINDS: [Kind; 5] =
    [Kind::Limit(1), Kind::Limit(3), Kind::Limit(5), Kind::Document, Kind::Any];

/// How a lease is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// By holders of permits, all with this limit.
    Limit(u32),
    /// By readers and writers.
    Document,
    /// By all of these, whose limits differ.
    Any,
}

/// One call's request.
#[derive(Clone, Debug)]
pub(super) struct Wish {
    pub(super) name: String,
    pub(super) permits: Permits,
    /// Whether a call may wait for it.
    pub(super) may_wait: bool,
}

impl Wish {
    /// An exclusive lease, one of so many, or one that others write to.
    pub(super) fn exclusive(random: &mut StdRng, names: u64) -> Wish {
        let (name, may_wait) = match random.random_range(0..100) {
            0..4 => (PLAIN[random.random_range(0..PLAIN.len())].to_owned(), false),
            4..12 => (OPERATED.to_owned(), true),
            12..14 => (SPOILT.to_owned(), true),
            _ => (format!("lease:{}", random.random_range(0..names)), true),
        };
        Wish { name, permits: Permits::EXCLUSIVE, may_wait }
    }

    /// An exclusive lease of this name.
    pub(super) fn of(name: String) -> Wish {
        Wish { name, permits: Permits::EXCLUSIVE, may_wait: true }
    }

    /// Permits or a share of one of the other leases.
    pub(super) fn shared(random: &mut StdRng) -> Wish {
        let kind = KINDS[random.random_range(0..KINDS.len())];
        let name = match kind {
            Kind::Limit(limit) => format!("limit:{limit}"),
            Kind::Document => "document".to_owned(),
            Kind::Any => "any".to_owned(),
        };
        Wish { name, permits: permits(random, kind), may_wait: true }
    }

    /// The call, without its other options.
    pub(super) fn acquire(&self, manager: &LeaseManager) -> Acquire {
        let Permits { count, limit } = self.permits;
        if self.permits.is_reader() {
            manager.acquire(&self.name).shared()
        } else if self.permits.is_exclusive() {
            manager.acquire(&self.name)
        } else {
            manager.semaphore(&self.name, limit).acquire().permits(count)
        }
    }
}

fn permits(random: &mut StdRng, kind: Kind) -> Permits {
    match kind {
        // One permit mostly; with more, a call at the front blocks others that would fit.
        Kind::Limit(limit) => {
            let count = if random.random_bool(0.7) { 1 } else { random.random_range(1..=limit) };
            Permits { count, limit }
        }
        Kind::Document if random.random_bool(0.3) => Permits::EXCLUSIVE,
        Kind::Document => Permits::READER,
        Kind::Any => {
            let kind = KINDS[random.random_range(0..KINDS.len() - 1)];
            permits(random, kind)
        }
    }
}
