//! The requests of a worker: names, and their permits.

use mongo_lease::{Acquire, LeaseManager};
use mongo_lease_checker::permits::Permits;
use rand::RngExt;
use rand::rngs::StdRng;

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
}

impl Wish {
    /// An exclusive lease, one of so many.
    pub(super) fn exclusive(random: &mut StdRng, names: usize) -> Wish {
        let name = format!("lease:{}", random.random_range(0..names));
        Wish { name, permits: Permits::EXCLUSIVE }
    }

    /// Permits or a share of one of the other leases.
    pub(super) fn shared(random: &mut StdRng) -> Wish {
        let kind = KINDS[random.random_range(0..KINDS.len())];
        let name = match kind {
            Kind::Limit(limit) => format!("limit:{limit}"),
            Kind::Document => "document".to_owned(),
            Kind::Any => "any".to_owned(),
        };
        Wish { name, permits: permits(random, kind) }
    }

    /// The call, without its other options.
    pub(super) fn acquire(&self, manager: &LeaseManager) -> Acquire {
        let Permits { count, limit } = self.permits;
        if self.permits.is_reader() {
            manager.acquire(&self.name).shared()
        } else if self.name.starts_with("lease:") {
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

#[cfg(test)]
mod tests {
    use rand::SeedableRng;

    use super::*;

    #[test]
    fn every_lease_is_asked_for_as_its_kind_says() {
        let mut random = StdRng::seed_from_u64(1);
        let all: Vec<Wish> = (0..1_000).map(|_| Wish::shared(&mut random)).collect();
        let limits = |name: &str| {
            let of_name = all.iter().filter(|wish| wish.name == name);
            let mut limits: Vec<u32> = of_name.map(|wish| wish.permits.limit).collect();
            limits.sort_unstable();
            limits.dedup();
            limits
        };
        assert_eq!(limits("limit:1"), [1]);
        assert_eq!(limits("limit:3"), [3]);
        assert_eq!(limits("limit:5"), [5]);
        assert_eq!(limits("document"), [1, 1_000]);
        assert_eq!(limits("any"), [1, 3, 5, 1_000]);
        assert!(all.iter().all(|wish| (1..=wish.permits.limit).contains(&wish.permits.count)));
        assert!(all.iter().any(|wish| wish.permits == Permits { count: 5, limit: 5 }));
    }
}
