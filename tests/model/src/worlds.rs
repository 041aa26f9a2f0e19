//! The worlds that are searched, from small ones to those that take minutes.

use crate::bounds::{
    Begins, Bounds, ClientBounds, Clocks, First, Judges, MAX_CLOCK_SKEW, RATE_EXACT, RATE_SLOW,
    TTL, Variant,
};

use crate::worlds_of_lines;
use crate::worlds_of_transactions::{guards, guards_last, guards_last_unbounded};

/// A world with a name.
pub type Named = (&'static str, Bounds);

/// Long enough for a grant to expire and for another one to be believed in.
const TICKS: i64 = TTL + MAX_CLOCK_SKEW + 1;

pub(crate) const fn client(attempts: u8, renewals: u8, guards: u8) -> ClientBounds {
    // The slowest clock that the margin covers is the one that makes a holder believe for longest.
    ClientBounds { attempts, renewals, guards, releases: true, rate: RATE_SLOW, waits: None }
}

pub(crate) const fn rival(attempts: u8, guards: u8) -> ClientBounds {
    ClientBounds { attempts, renewals: 0, guards, releases: true, rate: RATE_EXACT, waits: None }
}

pub(crate) fn bounded(ticks: i64, clients: Vec<ClientBounds>) -> Bounds {
    Bounds {
        clients,
        clocks: Clocks::Bounded { ticks, skew: MAX_CLOCK_SKEW },
        breaks_early: false,
        crashes: false,
        foreigner: false,
        rollbacks: 0,
        leaves_nothing: true,
        begins: Begins::Empty,
        broken_streams: 0,
        drops: false,
        replaces: false,
        is_prompt: false,
        losses: None,
        max_waiting: 3,
        recheck_every: 4,
        first: First::Whole,
        tombstones: false,
        cuts: 0,
        judges: Judges::WhenSent,
        confirms: false,
        guards_last: false,
        damages: 0,
        damages_expiry: false,
        variant: Variant::AsBuilt,
    }
}

/// A second attempt beside the first.
#[must_use]
pub fn attempts() -> Bounds {
    bounded(TICKS, vec![client(2, 0, 0), rival(1, 0)])
}

/// Renewals that overlap, with a world that ends before a second ttl.
#[must_use]
pub fn renewals() -> Bounds {
    bounded(TICKS, vec![client(1, 2, 0), rival(1, 0)])
}

/// Renewals and a guard, and another program that damages the numbers of the grant.
#[must_use]
pub fn damaged_numbers() -> Bounds {
    Bounds { damages: 1, ..bounded(TICKS, vec![client(1, 1, 0), rival(1, 0)]) }
}

/// Another program damages the expiry.
#[must_use]
pub fn damaged_expiry() -> Bounds {
    Bounds { damages_expiry: true, leaves_nothing: false, ..damaged_numbers() }
}

/// The same world, where a release makes a tombstone.
#[must_use]
pub fn tombstones(bounds: Bounds) -> Bounds {
    Bounds { tombstones: true, ..bounds }
}

/// Connections that break before a command is carried out.
#[must_use]
pub fn broken_connections() -> Bounds {
    let mut bounds = bounded(TTL, vec![client(2, 0, 0), rival(1, 0)]);
    bounds.breaks_early = true;
    // A grant that is made behind its own cleanup stays until it expires.
    bounds.leaves_nothing = false;
    bounds
}

/// Clients that crash.
#[must_use]
pub fn crashes() -> Bounds {
    let mut bounds = bounded(TICKS, vec![client(1, 1, 0), rival(1, 0)]);
    bounds.crashes = true;
    bounds.leaves_nothing = false;
    bounds
}

/// No clock keeps any bound, and leases are removed while they are held.
#[must_use]
pub fn unbounded() -> Bounds {
    Bounds { clocks: Clocks::Unbounded, ..bounded(0, vec![client(2, 0, 1), rival(1, 1)]) }
}

/// A foreign program with the usual hand-written lock takes part.
#[must_use]
pub fn foreigner() -> Bounds {
    let mut bounds = bounded(TICKS, vec![client(1, 1, 0), rival(1, 0)]);
    bounds.foreigner = true;
    bounds
}

/// The primary is lost, with what only it had.
#[must_use]
pub fn rollback() -> Bounds {
    let mut bounds = bounded(TTL, vec![client(1, 0, 0), rival(1, 0)]);
    bounds.rollbacks = 1;
    // The background releaser repeats what was not acknowledged; here it sends once.
    bounds.leaves_nothing = false;
    bounds
}

/// The same where the primary answers before a majority has the write: it is confirmed later, or undone.
#[must_use]
pub fn late_majority() -> Bounds {
    Bounds { confirms: true, ..rollback() }
}

/// The same with a second attempt beside the first.
#[must_use]
pub fn late_majority_attempts() -> Bounds {
    let clocks = Clocks::Bounded { ticks: 1, skew: 0 };
    Bounds { clients: attempts().clients, losses: Some(0), clocks, ..late_majority() }
}

/// The same with a renewal, and a world that lasts until somebody else is granted.
#[must_use]
pub fn late_majority_renewal() -> Bounds {
    let bounds = bounded(TICKS, vec![client(1, 1, 0), rival(1, 0)]);
    Bounds { rollbacks: 1, leaves_nothing: false, losses: Some(0), confirms: true, ..bounds }
}

/// Three clients.
#[must_use]
pub fn three() -> Bounds {
    bounded(TTL, vec![client(1, 0, 0), rival(1, 0), rival(1, 0)])
}

/// Two clients with one attempt each: the smallest world in which something can go wrong.
#[must_use]
pub fn smallest() -> Bounds {
    bounded(TICKS, vec![client(1, 0, 0), rival(1, 0)])
}

/// First attempts on the fast path, and others beside them.
#[must_use]
pub fn short() -> Bounds {
    Bounds { first: First::Short, ..bounded(TTL, attempts().clients) }
}

/// First attempts that travel in batches.
#[must_use]
pub fn together() -> Bounds {
    Bounds { first: First::Together, ..bounded(TTL, attempts().clients) }
}

/// The same where no clock keeps any bound.
#[must_use]
pub fn together_unbounded() -> Bounds {
    Bounds { first: First::Together, ..unbounded() }
}

/// The same where the primary is lost.
#[must_use]
pub fn together_rollback() -> Bounds {
    Bounds { first: First::Together, ..rollback() }
}

/// The same without clock bounds and with the loss of the primary.
#[must_use]
pub fn together_unbounded_rollback() -> Bounds {
    Bounds { rollbacks: 1, leaves_nothing: false, ..together_unbounded() }
}

/// First attempts whose batch is cut off, and a rival.
#[must_use]
pub fn cut_off() -> Bounds {
    Bounds { first: First::Together, cuts: 1, losses: Some(0), ..smallest() }
}

/// The same, and a piece is cut off as well.
#[must_use]
pub fn cut_off_twice() -> Bounds {
    let clients = smallest().clients;
    Bounds { first: First::Together, cuts: 2, losses: Some(0), ..bounded(TTL, clients) }
}

/// The same with a second attempt beside the first.
#[must_use]
pub fn cut_off_beside() -> Bounds {
    let clocks = Clocks::Bounded { ticks: 1, skew: 0 };
    Bounds { cuts: 1, losses: Some(1), clocks, ..together() }
}

/// The same, and either may crash, and renew what it was granted.
#[must_use]
pub fn cut_off_crashes() -> Bounds {
    let clocks = Clocks::Bounded { ticks: TTL, skew: 0 };
    Bounds { first: First::Together, cuts: 1, losses: Some(0), clocks, ..crashes() }
}

/// The same where no clock keeps any bound.
#[must_use]
pub fn cut_off_unbounded() -> Bounds {
    let clients = vec![client(2, 0, 1), rival(1, 0)];
    Bounds { clients, cuts: 1, losses: Some(0), ..together_unbounded() }
}

/// The same where the primary is lost.
#[must_use]
pub fn cut_off_rollback() -> Bounds {
    Bounds { cuts: 1, losses: Some(1), ..together_rollback() }
}

/// Releases whose batch is cut off, twice.
#[must_use]
pub fn releases_cut_off() -> Bounds {
    Bounds { cuts: 2, losses: Some(0), ..smallest() }
}

/// The same where the primary is lost.
#[must_use]
pub fn releases_cut_off_rollback() -> Bounds {
    Bounds { cuts: 1, losses: Some(1), ..rollback() }
}

/// The same where a caller checks by its clock when the query is answered.
#[must_use]
pub fn releases_judged_when_answered() -> Bounds {
    Bounds { judges: Judges::WhenAnswered, cuts: 1, ..releases_cut_off() }
}

/// The first client's clock is slower than its margin covers.
#[must_use]
pub fn clock_too_slow() -> Bounds {
    let mut bounds = smallest();
    bounds.clients[0].rate = RATE_SLOW - 1;
    bounds
}

/// Members' clocks are further apart than the maximum clock skew.
#[must_use]
pub fn clocks_too_far_apart() -> Bounds {
    let clocks = Clocks::Bounded { ticks: TICKS, skew: MAX_CLOCK_SKEW + 1 };
    Bounds { clocks, ..smallest() }
}

/// A limit of the protocol: a grant that is carried out behind its own cleanup stays until it expires. It takes a
/// connection that breaks while the command is still on its way.
#[must_use]
pub fn overtaken_by_its_release() -> Bounds {
    Bounds { leaves_nothing: true, ..broken_connections() }
}

/// The worlds that take minutes, and memory for tens of millions of states.
#[must_use]
pub fn large() -> Vec<Named> {
    let mut all = large_without_lines();
    all.extend(worlds_of_lines::large());
    all
}

fn large_without_lines() -> Vec<Named> {
    let second_ttl = 2 * (TTL + MAX_CLOCK_SKEW);
    let mut broken_longer = broken_connections();
    broken_longer.clocks = Clocks::Bounded { ticks: TICKS, skew: MAX_CLOCK_SKEW };
    let unbounded_larger = Bounds { clients: vec![client(2, 1, 1), rival(2, 1)], ..unbounded() };
    vec![
        ("three clients, longer", bounded(TICKS, three().clients)),
        ("guards, longer", bounded(TICKS, guards().clients)),
        ("broken connections, longer", broken_longer),
        ("unbounded clocks, larger", unbounded_larger),
        ("a second ttl", bounded(second_ttl, smallest().clients)),
        ("short first attempts, longer", Bounds { first: First::Short, ..attempts() }),
        ("first attempts together, longer", Bounds { first: First::Together, ..attempts() }),
        ("attempts and a renewal", bounded(TTL + 1, vec![client(2, 1, 0), rival(1, 0)])),
    ]
}

/// The worlds of [`every_run`] with more than 200,000 states.
pub const BIG: [&str; 37] = [
    "attempts",
    "renewals",
    "damaged numbers",
    "damaged expiry",
    "tombstones, damaged expiry",
    "broken connections",
    "crashes",
    "guards",
    "guards last",
    "foreigner",
    "late majority, a renewal",
    "three clients",
    "short first attempts",
    "first attempts together",
    "together, unbounded clocks",
    "cut off",
    "cut off, twice",
    "cut off, and an attempt beside",
    "cut off, crashes",
    "cut off, unbounded clocks",
    "cut off, rollback",
    "releases cut off",
    "releases cut off, rollback",
    "releases cut off, judged when answered",
    "tombstones, attempts",
    "tombstones, renewals",
    "tombstones, guards",
    "tombstones, foreigner",
    "two wait",
    "crashes in line",
    "together, in line",
    "unbounded clocks",
    "tombstones, unbounded clocks",
    "one waits",
    "replaced",
    "foreigner in line",
    "short, in line",
];

/// The worlds that `.ci/full model` searches to the end. A plain `cargo test` leaves out those of [`BIG`].
#[must_use]
pub fn every_run() -> Vec<Named> {
    let mut all = vec![
        ("attempts", attempts()),
        ("renewals", renewals()),
        ("damaged numbers", damaged_numbers()),
        ("damaged expiry", damaged_expiry()),
        ("tombstones, damaged expiry", tombstones(damaged_expiry())),
        ("broken connections", broken_connections()),
        ("crashes", crashes()),
        ("guards", guards()),
        ("guards last", guards_last()),
        ("guards last, unbounded clocks", guards_last_unbounded()),
        ("unbounded clocks", unbounded()),
        ("foreigner", foreigner()),
        ("rollback", rollback()),
        ("late majority", late_majority()),
        ("late majority, attempts", late_majority_attempts()),
        ("late majority, a renewal", late_majority_renewal()),
        ("three clients", three()),
        ("short first attempts", short()),
        ("first attempts together", together()),
        ("together, unbounded clocks", together_unbounded()),
        ("together, rollback", together_rollback()),
        ("cut off", cut_off()),
        ("cut off, twice", cut_off_twice()),
        ("cut off, and an attempt beside", cut_off_beside()),
        ("cut off, crashes", cut_off_crashes()),
        ("cut off, unbounded clocks", cut_off_unbounded()),
        ("cut off, rollback", cut_off_rollback()),
        ("releases cut off", releases_cut_off()),
        ("releases cut off, rollback", releases_cut_off_rollback()),
        ("releases cut off, judged when answered", releases_judged_when_answered()),
        ("tombstones, attempts", tombstones(attempts())),
        ("tombstones, renewals", tombstones(renewals())),
        ("tombstones, guards", tombstones(guards())),
        ("tombstones, unbounded clocks", tombstones(unbounded())),
        ("tombstones, foreigner", tombstones(foreigner())),
    ];
    all.extend(worlds_of_lines::every_run());
    all
}
