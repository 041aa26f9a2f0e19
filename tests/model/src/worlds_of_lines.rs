//! The worlds in which clients wait in the queue.

use crate::bounds::{
    Begins, Bounds, ClientBounds, Clocks, First, LIFE, MAX_CLOCK_SKEW, RATE_EXACT, RATE_SLOW, Waits,
};
use crate::worlds::{Named, bounded, tombstones};

/// A tick later than the end of any of these worlds.
const FOREVER: i64 = 100;

/// A client that holds the lease when the world begins, or acquires it when it can.
const HOLDER: ClientBounds = ClientBounds {
    attempts: 1,
    renewals: 0,
    guards: 0,
    releases: false,
    rate: RATE_EXACT,
    waits: None,
};

const fn waiter(attempts: u8, beats: u8, ticks: i64) -> ClientBounds {
    let waits = Some(Waits { ticks, beats, follows: None });
    ClientBounds { attempts, rate: RATE_SLOW, waits, ..HOLDER }
}

fn within(ticks: i64, skew: i64, begins: Begins, clients: Vec<ClientBounds>) -> Bounds {
    let clocks = Clocks::Bounded { ticks, skew };
    Bounds { begins, clocks, losses: Some(0), ..bounded(ticks, clients) }
}

/// One client waits, and sends heartbeats.
pub(crate) fn one_waits() -> Bounds {
    within(4, MAX_CLOCK_SKEW, Begins::Held, vec![HOLDER, waiter(2, 1, FOREVER)])
}

/// One client waits and gives up.
pub(crate) fn gives_up() -> Bounds {
    let clients = vec![HOLDER, waiter(2, 1, 3)];
    Bounds { drops: true, losses: Some(1), ..within(4, 0, Begins::Held, clients) }
}

/// Two wait.
pub(crate) fn two_wait() -> Bounds {
    let clients = vec![HOLDER, waiter(2, 1, FOREVER), waiter(3, 0, FOREVER)];
    within(5, 0, Begins::InLine, clients)
}

/// Two wait, and the first may be gone.
pub(crate) fn the_first_leaves() -> Bounds {
    let clients = vec![HOLDER, waiter(2, 0, FOREVER), waiter(2, 0, FOREVER)];
    Bounds { drops: true, ..within(4, MAX_CLOCK_SKEW, Begins::InLine, clients) }
}

/// Two wait, and any may crash.
pub(crate) fn crashes_in_line() -> Bounds {
    let clients = vec![HOLDER, waiter(2, 0, FOREVER), waiter(2, 1, FOREVER)];
    let world = within(4, MAX_CLOCK_SKEW, Begins::InLine, clients);
    Bounds { crashes: true, leaves_nothing: false, ..world }
}

/// The change stream breaks.
pub(crate) fn broken_stream() -> Bounds {
    let clients = vec![HOLDER, waiter(3, 0, FOREVER), waiter(1, 0, FOREVER)];
    Bounds { broken_streams: 1, ..within(4, 0, Begins::InLine, clients) }
}

/// Two calls of one process, of which the first gives up.
pub(crate) fn successor() -> Bounds {
    let second = Waits { ticks: FOREVER, beats: 0, follows: Some(1) };
    let second = ClientBounds { waits: Some(second), ..waiter(2, 0, FOREVER) };
    let clients = vec![HOLDER, waiter(2, 0, 2), second];
    within(4, 0, Begins::InLine, clients)
}

/// A promotion that is renewed, and a rival that does not wait.
pub(crate) fn renewed() -> Bounds {
    let first = ClientBounds { renewals: 1, ..waiter(1, 0, FOREVER) };
    within(5, MAX_CLOCK_SKEW, Begins::InLine, vec![HOLDER, first, HOLDER])
}

/// A foreign program with the usual hand-written lock.
pub(crate) fn foreigner_in_line() -> Bounds {
    let clients = vec![HOLDER, waiter(3, 1, FOREVER)];
    Bounds { foreigner: true, ..within(5, 0, Begins::InLine, clients) }
}

/// No clock keeps any bound.
pub(crate) fn unbounded_line() -> Bounds {
    let first = ClientBounds { guards: 1, renewals: 1, ..waiter(2, 1, FOREVER) };
    let world = within(0, 0, Begins::InLine, vec![HOLDER, first, HOLDER]);
    Bounds { clocks: Clocks::Unbounded, leaves_nothing: false, ..world }
}

/// A release that is waited for, and sent again.
pub(crate) fn retried_release() -> Bounds {
    let clients = vec![ClientBounds { releases: true, ..HOLDER }, waiter(2, 0, FOREVER)];
    Bounds { losses: Some(1), ..within(4, 0, Begins::InLine, clients) }
}

/// All is prompt, and any may crash.
pub(crate) fn prompt() -> Bounds {
    let clients = vec![HOLDER, waiter(9, 9, FOREVER), waiter(9, 9, FOREVER)];
    prompt_with(9, clients)
}

/// The queue has no room for the second waiter.
pub(crate) fn full_queue() -> Bounds {
    let clients = vec![HOLDER, waiter(1, 0, FOREVER), waiter(1, 0, FOREVER)];
    Bounds { max_waiting: 1, ..within(3, 0, Begins::Held, clients) }
}

/// One client waits, and another makes an attempt without waiting.
pub(crate) fn newcomer() -> Bounds {
    within(5, MAX_CLOCK_SKEW, Begins::InLine, vec![HOLDER, waiter(2, 0, FOREVER), HOLDER])
}

/// The same, and both use the fast path first.
pub(crate) fn short_in_line() -> Bounds {
    Bounds { first: First::Short, ..newcomer() }
}

/// The same in one command with others, and members' clocks agree.
pub(crate) fn together_in_line() -> Bounds {
    let clients = vec![HOLDER, waiter(2, 0, FOREVER), HOLDER];
    Bounds { first: First::Together, ..within(4, 0, Begins::InLine, clients) }
}

/// Each write reaches the stream as the whole document.
pub(crate) fn replaced() -> Bounds {
    let clients = vec![HOLDER, waiter(2, 1, FOREVER), waiter(1, 1, FOREVER)];
    Bounds { replaces: true, ..within(4, 0, Begins::InLine, clients) }
}

/// One client waits and sends heartbeats, and another acquires the expired lease.
pub(crate) fn rival() -> Bounds {
    within(3, MAX_CLOCK_SKEW, Begins::InLine, vec![HOLDER, waiter(1, 1, FOREVER), HOLDER])
}

/// The same, and another program damages the numbers of the grant and of the queue.
pub(crate) fn damaged_line() -> Bounds {
    Bounds { damages: 1, ..rival() }
}

/// The same, where the expiry is damaged.
pub(crate) fn line_with_damaged_expiry() -> Bounds {
    Bounds { damages_expiry: true, leaves_nothing: false, ..damaged_line() }
}

/// A rival, and the waiter sends another attempt.
pub(crate) fn taken_over() -> Bounds {
    within(4, MAX_CLOCK_SKEW, Begins::InLine, vec![HOLDER, waiter(2, 1, FOREVER), HOLDER])
}

fn prompt_with(ticks: i64, clients: Vec<ClientBounds>) -> Bounds {
    let world = within(ticks, 0, Begins::InLine, clients);
    let world = Bounds { is_prompt: true, crashes: true, leaves_nothing: false, ..world };
    Bounds { recheck_every: LIFE + MAX_CLOCK_SKEW, ..world }
}

/// The worlds that take minutes.
pub(crate) fn large() -> Vec<Named> {
    let first = waiter(2, 1, 2);
    let second = Waits { ticks: FOREVER, beats: 0, follows: Some(1) };
    let second = ClientBounds { waits: Some(second), ..waiter(2, 0, FOREVER) };
    let process = within(4, 0, Begins::InLine, vec![HOLDER, first, second]);
    let two = || vec![HOLDER, waiter(2, 0, FOREVER), waiter(2, 1, FOREVER)];
    let leaving = vec![HOLDER, waiter(2, 0, 3), waiter(2, 1, FOREVER)];
    let leaving = within(4, MAX_CLOCK_SKEW, Begins::InLine, leaving);
    let foreigner = within(5, 0, Begins::InLine, two());
    let crashing = within(5, MAX_CLOCK_SKEW, Begins::InLine, two());
    vec![
        (
            "one waits, longer",
            within(5, MAX_CLOCK_SKEW, Begins::Held, vec![HOLDER, waiter(3, 1, FOREVER)]),
        ),
        ("crashes in line, longer", Bounds { crashes: true, leaves_nothing: false, ..crashing }),
        ("successor, larger", process),
        ("leaving, larger", Bounds { drops: true, losses: Some(1), ..leaving }),
        ("two signs", two_signs()),
        ("taken over", taken_over()),
        ("together, in line, clocks apart", Bounds { first: First::Together, ..newcomer() }),
        ("prompt, and a broken stream", Bounds { broken_streams: 1, ..prompt() }),
        ("foreigner, two wait", Bounds { foreigner: true, ..foreigner }),
    ]
}

/// The same with two heartbeats, which may overtake each other.
pub(crate) fn two_signs() -> Bounds {
    within(3, MAX_CLOCK_SKEW, Begins::InLine, vec![HOLDER, waiter(1, 2, FOREVER), HOLDER])
}

/// The worlds that every run of the tests searches to the end.
pub(crate) fn every_run() -> Vec<Named> {
    vec![
        ("one waits", one_waits()),
        ("gives up", gives_up()),
        ("two wait", two_wait()),
        ("the first leaves", the_first_leaves()),
        ("crashes in line", crashes_in_line()),
        ("broken stream", broken_stream()),
        ("successor", successor()),
        ("renewed", renewed()),
        ("rival", rival()),
        ("damaged line", damaged_line()),
        ("line with a damaged expiry", line_with_damaged_expiry()),
        ("foreigner in line", foreigner_in_line()),
        ("unbounded line", unbounded_line()),
        ("retried release", retried_release()),
        ("full queue", full_queue()),
        ("newcomer", newcomer()),
        ("replaced", replaced()),
        ("prompt", prompt()),
        ("short, in line", short_in_line()),
        ("together, in line", together_in_line()),
        ("tombstones, gives up", tombstones(gives_up())),
        ("tombstones, rival", tombstones(rival())),
        ("tombstones, retried release", tombstones(retried_release())),
    ]
}
