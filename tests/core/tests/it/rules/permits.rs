//! Permits: which requests are refused, and which holders fit together.

use mongo_lease_testbed::Seed;

use mongo_lease_core::rules::permits::{LIMIT_MAX, Permits, PermitsDefect, fit_together, fitting};
use mongo_lease_core::spec::{AcquireAttempt, AsBuilt, Document, QueueOptions, acquire};
use mongo_lease_core::texts::{Details, Texts};
use mongo_lease_core_tests::Chance;

fn permits(count: u32, limit: u32) -> Permits {
    Permits::new(count, limit).unwrap_or_else(|defect| panic!("{count} of {limit}: {defect:?}"))
}

#[test]
fn a_request_is_within_its_limit_and_the_largest_one() {
    let refused = |count, limit| Permits::new(count, limit).unwrap_err();
    for (count, limit) in [(1, 1), (1, 5), (5, 5), (1, LIMIT_MAX), (LIMIT_MAX, LIMIT_MAX)] {
        let permits = permits(count, limit);
        assert_eq!((permits.count(), permits.limit()), (count, limit));
        // Five of five exclude others by the commands of shares.
        assert_eq!(permits.is_exclusive(), limit == 1);
    }
    assert_eq!(Permits::EXCLUSIVE, permits(1, 1));
    assert_eq!(Permits::SHARED, permits(1, LIMIT_MAX));
    for limit in [0, LIMIT_MAX + 1, u32::MAX] {
        assert_eq!(refused(1, limit), PermitsDefect::Limit(limit));
        // The limit is wrong, whatever the permits.
        assert_eq!(refused(0, limit), PermitsDefect::Limit(limit));
    }
    for (count, limit) in [(0, 1), (0, 5), (2, 1), (6, 5), (u32::MAX, LIMIT_MAX)] {
        assert_eq!(refused(count, limit), PermitsDefect::Count { count, limit });
    }
}

#[test]
fn a_waiter_that_does_not_fit_blocks_those_behind_it() {
    let [one, two, three] = [1, 2, 3].map(|count| permits(count, 3));
    let writer = Permits::EXCLUSIVE;
    let reader = Permits::SHARED;
    for (holders, queue, fit) in [
        (&[][..], &[][..], 0),
        (&[], &[one, one, one, one], 3),
        (&[one], &[three, one], 0),
        (&[one], &[two, one], 1),
        (&[one, one, one], &[one], 0),
        (&[reader], &[writer, reader], 0),
        (&[], &[writer, reader], 1),
        (&[], &[reader, reader, writer, reader], 2),
        // A stricter waiter binds those behind it, and is bound by those before it.
        (&[], &[reader, reader, one, reader], 3),
        (&[reader, reader, reader], &[one], 0),
        // Nobody is admitted beside holders that do not fit together.
        (&[writer, reader], &[reader], 0),
    ] {
        assert_eq!(fitting(holders, queue), fit, "{holders:?} {queue:?}");
    }
}

fn request(number: u64, permits: Permits) -> AcquireAttempt<Texts> {
    let value = number.to_string();
    let details = Details { owner: String::new(), metadata: Default::default() };
    AcquireAttempt {
        id: value.as_str().into(),
        value,
        permits,
        ttl: 10,
        max_clock_skew: 0,
        sent: 0,
        joins: Some(QueueOptions { waiter_ttl: 10, max_waiting: 100 }),
        predecessor: None,
        details: details.into(),
    }
}

/// Both were written apart: the specification keeps sums, and the rules compare all holders each time.
#[test]
fn at_random_the_specification_admits_as_many_as_fit() {
    let seed = Seed::fixed("permits that fit", 0);
    let (mut all_fit, mut some_wait) = (0, 0);
    for run in 0..2_000 {
        let seed = seed.number_of(run);
        let mut chance = Chance::new(seed);
        let mut document: Option<Document<Texts>> = None;
        let (mut holders, mut queue) = (Vec::new(), Vec::new());
        for number in 0..1 + chance.below(8) {
            let limit = chance.one_of(&[2, 3, 3, 5, 8, LIMIT_MAX]);
            let count = u32::try_from(chance.below(u64::from(limit.min(4)))).unwrap();
            let asked = permits(1 + count, limit);
            document = acquire(document, &request(number, asked), 0, &AsBuilt).0;
            queue.push(asked);
            let fit = fitting(&holders, &queue);
            holders.extend(queue.drain(..fit));
            let after = document.as_ref().expect("a document");
            let shown = after.sharers();
            assert_eq!(shown.len(), holders.len(), "seed {seed}: {after:#?}");
            assert_eq!(after.queue.entries().count(), queue.len(), "seed {seed}: {after:#?}");
            assert!(fit_together(&holders), "seed {seed}: {holders:?}");
        }
        if queue.is_empty() { all_fit += 1 } else { some_wait += 1 }
    }
    assert!(all_fit > 20 && some_wait > 200, "{all_fit} and {some_wait}");
}
