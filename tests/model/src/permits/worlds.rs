//! The worlds with permits, from small ones to those that take minutes.

use mongo_lease_core::rules::permits::LIMIT_MAX;

use crate::permits::bounds::{PermitBounds, PermitClient, PermitVariant, TTL};

/// A world with a name.
pub type NamedPermits = (&'static str, PermitBounds);

const fn client(permits: u32, limit: u32) -> PermitClient {
    PermitClient { permits, limit, attempts: 1 }
}

const fn twice(client: PermitClient) -> PermitClient {
    PermitClient { attempts: 2, ..client }
}

const READER: PermitClient = client(1, LIMIT_MAX);
const WRITER: PermitClient = client(1, 1);
const ONE: PermitClient = client(1, 2);
const BOTH: PermitClient = client(2, 2);

fn world(ticks: i64, clients: Vec<PermitClient>) -> PermitBounds {
    PermitBounds {
        clients,
        ticks,
        skew: 0,
        waiter_ttl: 1,
        renewals: 0,
        heartbeats: 0,
        crashes: 0,
        losses: 0,
        foreign_take_overs: 0,
        damages: 0,
        repeats_releases: false,
        mistaken_hints: false,
        variant: PermitVariant::AsSpecified,
    }
}

pub(crate) fn two_attempts() -> PermitBounds {
    world(3, vec![twice(ONE), ONE])
}

fn both_twice() -> PermitBounds {
    world(3, vec![twice(BOTH), ONE])
}

pub(crate) fn one_twice() -> PermitBounds {
    world(3, vec![BOTH, twice(ONE)])
}

pub(crate) fn renewals() -> PermitBounds {
    PermitBounds { renewals: 2, ..world(4, vec![BOTH, ONE]) }
}

fn lost_renewal() -> PermitBounds {
    PermitBounds { renewals: 1, losses: 1, ..world(4, vec![BOTH, ONE]) }
}

fn skewed() -> PermitBounds {
    PermitBounds { renewals: 1, skew: 1, ..world(4, vec![BOTH, ONE]) }
}

fn heartbeats() -> PermitBounds {
    PermitBounds { heartbeats: 1, waiter_ttl: 2, ..world(3, vec![BOTH, ONE]) }
}

fn three_for_two() -> PermitBounds {
    world(2, vec![ONE, ONE, ONE])
}

pub(crate) fn both_between() -> PermitBounds {
    world(2, vec![ONE, BOTH, ONE])
}

pub(crate) fn outlived() -> PermitBounds {
    PermitBounds { waiter_ttl: TTL, ..world(2, vec![BOTH, ONE, ONE]) }
}

fn crash() -> PermitBounds {
    PermitBounds { crashes: 1, losses: 1, ..one_twice() }
}

pub(crate) fn readers_and_writer() -> PermitBounds {
    world(2, vec![READER, READER, WRITER])
}

fn reader_twice() -> PermitBounds {
    PermitBounds { renewals: 1, ..world(3, vec![twice(READER), WRITER]) }
}

pub(crate) fn writer_twice() -> PermitBounds {
    world(3, vec![READER, twice(WRITER)])
}

pub(crate) fn limits_differ() -> PermitBounds {
    world(2, vec![client(1, 3), client(1, 2), client(2, 3)])
}

fn foreigner() -> PermitBounds {
    PermitBounds { foreign_take_overs: 1, renewals: 1, ..world(4, vec![ONE, BOTH]) }
}

pub(crate) fn damaged_numbers() -> PermitBounds {
    PermitBounds { damages: 1, renewals: 1, ..world(4, vec![BOTH, ONE]) }
}

pub(crate) fn repeated_releases() -> PermitBounds {
    PermitBounds { repeats_releases: true, ..world(2, vec![twice(ONE), BOTH]) }
}

fn mistaken_hints() -> PermitBounds {
    PermitBounds { mistaken_hints: true, ..two_attempts() }
}

/// The worlds that every run of the tests searches to the end.
#[must_use]
pub fn default_worlds() -> Vec<NamedPermits> {
    vec![
        ("permits: two of two, one with two attempts", two_attempts()),
        ("permits: one against two, two attempts", one_twice()),
        ("permits: a writer with two attempts and a reader", writer_twice()),
        ("permits: a renewal, and members' clocks differ", skewed()),
        ("permits: damaged numbers", damaged_numbers()),
        ("permits: heartbeats", heartbeats()),
        ("permits: waiters that outlive a grant", outlived()),
        ("permits: releases that come twice", repeated_releases()),
        ("permits: limits differ", limits_differ()),
        ("permits: two readers and a writer", readers_and_writer()),
    ]
}

/// The worlds that take longer, or show little more.
#[must_use]
pub fn large_worlds() -> Vec<NamedPermits> {
    vec![
        ("permits: two against one, two attempts", both_twice()),
        ("permits: renewals that overlap", renewals()),
        ("permits: a renewal, and a lost answer", lost_renewal()),
        ("permits: three for two", three_for_two()),
        ("permits: one, two and one of two", both_between()),
        ("permits: a crash, and a lost answer", crash()),
        ("permits: a reader with two attempts and a writer", reader_twice()),
        ("permits: another program", foreigner()),
        ("permits: releases with the wrong hint", mistaken_hints()),
    ]
}
